"""Time as it should not be: clocks that are set, a machine that was asleep, an event loop that was held up."""

from __future__ import annotations

import asyncio
import gc
from dataclasses import replace

import pytest
from prometheus_client.parser import text_string_to_metric_families
from structlog.testing import capture_logs

from spec_decode_exporter.app.service import Options, Service
from spec_decode_exporter.config.schema import Config
from tests.fakes.simulated import Server

LIGHT = "load: {rate: 2}"
HOUR = 3600.0
NEITHER = ("engine_reset", "target_failing", "acceptance_dropped", "poll_crashed", "task_died")
"""What the log must say nothing of: to the servers, nothing happened."""


async def page(story):
    families = text_string_to_metric_families(await story.get("metrics"))
    return {
        (sample.name, sample.labels.get("window", "")): sample.value
        for family in families
        for sample in family.samples
        if sample.labels.get("target") == "one"
    }


async def test_a_changed_wall_clock_affects_only_reported_times(story):
    pages, jumps = [], (HOUR, -30 * 24 * HOUR, 0.7, 60 * 24 * HOUR, -2 * HOUR, -1.4)
    for by in (dict.fromkeys(jumps, 0.0), dict(zip(jumps, jumps, strict=True))):
        async with story(LIGHT) as told:
            await told.clock.advance(60.0)
            for jump in jumps:
                told.clock.offset += by[jump]
                await told.clock.advance(10.0)
            pages.append(await page(told))
            # A server's page has times on it, each with as many digits as it needs.
            del pages[-1]["spec_decode_exporter_poll_bytes", ""]
            assert told.told(*NEITHER) == []
    last = [each.pop(("spec_decode_exporter_last_success_timestamp_seconds", "")) for each in pages]
    assert last[1] == pytest.approx(last[0] + sum(jumps))
    assert pages[0] == pages[1]


async def test_a_machine_that_was_asleep_shows_a_gap_and_asks_once(story, network):
    async with story(LIGHT) as told:
        await told.clock.advance(60.0)
        before = await page(told)
        told.clock.now += 600.0  # no timer runs while a machine is suspended
        await told.clock.advance(3.0)
        after = await page(told)
        assert told.told(*NEITHER) == []
    name = ("spec_decode_exporter_polls_total", "")
    assert after[name] - before[name] <= 4
    # All that was counted during this time is in the totals, and in no window as if it were of now.
    gained = after["spec_decode_drafts_total", ""] - before["spec_decode_drafts_total", ""]
    usual = before["spec_decode_drafts_total", ""] / 60.0
    assert gained > 300 * usual
    for window in ("30s", "5m"):
        assert after.get(("spec_decode_drafts_per_second", window), 0.0) < 3 * usual


async def test_a_blocked_event_loop_skips_the_polls_it_missed(story):
    name = ("spec_decode_exporter_polls_total", "")
    async with story(LIGHT) as told:
        await told.clock.advance(60.0)
        for held_up in (10.0, 45.0):
            before = await page(told)
            told.clock.now += held_up
            await told.clock.advance(2.0)
            after = await page(told)
            assert 2 <= after[name] - before[name] <= 3
            assert after["spec_decode_exporter_target_up", ""] == 1
            assert ("spec_decode_draft_acceptance_ratio", "30s") in after
        assert told.told(*NEITHER) == []


def config(number, targets=3):
    labels = {"release": f"r{number % 2}"}
    return Config.model_validate(
        {
            "targets": [
                {"url": f"http://vllm-{each}:8000/metrics", "labels": labels} for each in range(targets)
            ]
        }
    )


@pytest.fixture
async def reloading(clock, network, monkeypatch):
    """A service whose every other reload brings other labels for all its targets.

    How a configuration is written down for people is a mock, which is most of what a reload costs.
    """
    monkeypatch.setattr(
        "spec_decode_exporter.app.exporter_state.active_yaml", lambda config: repr(config.targets[0].labels)
    )
    for each in range(3):
        network.servers[f"vllm-{each}:8000"] = Server(clock, "idle")
    configs = [config(0), config(1)]
    numbers = iter(range(10**6))
    service = Service(lambda: configs[next(numbers) % 2], Options([]), clock)
    with capture_logs() as service.logs:
        await service.start()
        yield service
        await service.close()


async def test_reloads_leave_nothing_behind(reloading, clock):
    def held():
        gc.collect()
        return len(asyncio.all_tasks()), len(gc.get_objects())

    async def reloads(times):
        for _ in range(times):
            await reloading.reload()
            reloading.logs.clear()
        await clock.advance(10.0)

    await clock.advance(300.0)  # windows that fill up hold more objects
    await reloads(30)
    tasks, objects = held()
    await reloads(100)
    assert held()[0] == tasks
    assert held()[1] < objects + 90
    assert [watch.status().record.up for watch in reloading.fleet] == [True] * 3


async def test_targets_that_come_and_go_every_second_leave_nothing_behind(clock, network, story):
    async with story(LIGHT, config="discovery: {files: [none-*.yml]}") as told:
        await clock.advance(1.0)
        fleet, (one,) = told.service.fleet, [watch.target for watch in told.service.fleet]
        tasks = len(asyncio.all_tasks())
        for number in range(60):
            coming = replace(one, url=f"http://gone-{number}:8000/metrics", name=f"gone-{number}")
            fleet.follow([one, coming])
            await clock.advance(1.0)
            assert len(list(fleet)) == 2
        fleet.follow([one])
        await clock.advance(1.0)
        assert len(asyncio.all_tasks()) == tasks
        found = await page(told)
        assert found["spec_decode_exporter_polls_total", ""] >= 59
        assert "gone-" not in await told.get("metrics")
