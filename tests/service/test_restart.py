"""Restarts with another K, and a schedule that begins without drafts."""

import pytest

CONFIG = "windows: [30s, 2m]\n"
FILE = f"targets: [{{url: 'http://vllm:8000/metrics', name: one}}]\n{CONFIG}"
DOWN = 3.0


def scenario(front_end, before, after, restart_at):
    return f"""
front_end: {front_end}
dev_mode: true
load: {{concurrency: 24}}
speculation: {{tokens: {before}}}
phases:
  - {{at: {restart_at:.0f}s, restart: {{down: {DOWN:.0f}s, tokens: {after}}}}}
"""


async def engine_of(told):
    (engine,) = (await told.json("api/v1/snapshot"))["engines"]
    return engine


# Server info is requested at most once a minute: soon after the start, its last answer is of the old process.
@pytest.mark.parametrize(
    ("front_end", "before", "after", "restart_at"),
    [
        ("python", 5, 3, 30.0),
        ("python", 3, 5, 90.0),
        ("python", 4, 4, 30.0),
        ("rust", 5, 3, 90.0),
        ("rust", 3, 5, 30.0),
        ("rust", 4, 4, 90.0),
    ],
)
async def test_windows_begin_once_with_the_new_process_and_its_k(story, front_end, before, after, restart_at):
    async with story(scenario(front_end, before, after, restart_at), config=CONFIG) as told:
        await told.clock.advance(restart_at - 5.0)
        assert (await engine_of(told))["configured_tokens"] == before
        seconds = -5.0 - DOWN - 1.0  # since the first poll of the new process
        for passed in (18.0, 2.0, 58.0):
            await told.clock.advance(passed)
            seconds += passed
            engine = await engine_of(told)
            window = engine["windows"][-1]
            assert (engine["configured_tokens"], len(window["position_acceptance_ratio"])) == (after, after)
            if before != after:
                # Only pages of the Python front end have the time of the creation.
                assert window["seconds"] == seconds + (0.875 if front_end == "python" else 0.0)
            await told.reload(FILE + f"cost: {{draft_cost_ratio: {passed / 100}}}\n")  # it uses no earlier K
        changes = [
            (entry["before"], entry["configured_tokens"]) for entry in told.told("configured_tokens_changed")
        ]
        assert changes == ([] if before == after else [(before, after)])
        assert len(told.told("engine_reset")) == 1


SCHEDULED = """
front_end: rust
dev_mode: {dev_mode}
load: {{concurrency: 4}}
speculation: {{tokens: 4, tokens_per_batch_size: [[1, 8, 0], [9, 64, 4]]}}
phases:
  - {{at: 60s, load: {{concurrency: 32}}}}
"""


@pytest.mark.parametrize(("dev_mode", "quiet"), [("true", "active"), ("false", "disabled")])
async def test_a_server_whose_schedule_pauses_is_disabled_only_if_the_schedule_is_unknown(
    story, dev_mode, quiet
):
    """The Rust front end counts drafts without speculation too."""
    async with story(SCHEDULED.format(dev_mode=dev_mode), config=CONFIG) as told:
        states = []
        for _ in range(2):
            await told.clock.advance(55.0)
            engine = await engine_of(told)
            states.append((engine["state"], engine["totals"]["drafts"] > 0))
        assert states == [(quiet, False), ("active", True)]
