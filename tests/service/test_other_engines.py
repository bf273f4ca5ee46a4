"""Engines that count a request when it ends: their figures, compared with sums over the requests themselves."""

import asyncio

import pytest

from spec_decode_exporter.analysis.verdict import Action, State
from spec_decode_exporter.reports.observation import observed_config, watch
from tests.conftest import settle
from tests.fakes.ended_requests import VERIFICATION, EndedRequests, K
from tests.service.conftest import exporter

SECONDS, BEFORE = 60.0, 20.0
KINDS = ("sglang", "tensorrt_llm")


async def observed(network, clock, kind, *, before=BEFORE, steps_later=None, **traffic):
    """Observe a server from ``before`` seconds after its start; half way it gets ``steps_later``, if any.

    Return the sums over the requests that ended meanwhile, and the evaluation.
    """
    server = network.servers["a:1"] = EndedRequests(kind, clock, **traffic)
    await clock.advance(before)
    config = observed_config([{"url": "http://a:1/metrics"}], SECONDS)
    task = asyncio.ensure_future(watch(config, SECONDS, clock))
    await clock.advance(SECONDS / 2)
    if steps_later is not None:
        server.steps = steps_later
    await clock.advance(SECONDS / 2)
    await settle(100)
    (engine,) = task.result().engines
    return server.sums(before + SECONDS) - server.sums(before), engine.snapshot.evaluation


@pytest.mark.parametrize("before", [0.0, BEFORE])
@pytest.mark.parametrize("kind", KINDS)
async def test_the_figures_are_those_of_the_requests_that_ended(network, clock, kind, before):
    """From the server's start on too, before the first request ends, when most counters are missing."""
    ended, evaluation = await observed(network, clock, kind, before=before)
    its, decoded = evaluation.longest, ended["generated"] - ended["requests"]
    assert its.window.seconds == pytest.approx(SECONDS)
    assert its.acceptance_length_tokens == pytest.approx(decoded / ended["drafts"])
    shares = [ended[place] / ended["drafts"] for place in range(K)]
    assert (its.draft_acceptance_ratio, its.draft_length_tokens) == (pytest.approx(sum(shares) / K), K)
    assert its.time_per_output_token_seconds == pytest.approx(VERIFICATION * ended["drafts"] / decoded)
    assert its.passing_requests == pytest.approx(ended["requests"] / 4)
    bounds = its.acceptance_length_bounds
    assert bounds.lower < its.acceptance_length_tokens < bounds.upper
    assert its.positions.acceptance == (pytest.approx(shares) if kind == "tensorrt_llm" else [])
    assert evaluation.state is State.ACTIVE


@pytest.mark.parametrize(("kind", "running"), [("sglang", 1), ("tensorrt_llm", 8)])
async def test_drafts_that_come_in_bursts_are_neither_a_stall_nor_a_drop(
    tmp_path, network, clock, kind, running
):
    traffic = {"running": running, "drafts": (20, 1500), "rates": (0.3, 0.9), "seconds": 1000.0}
    network.servers["a:1"] = EndedRequests(kind, clock, **traffic)
    async with exporter(tmp_path, clock, "targets: [{url: 'http://a:1/metrics'}]") as told:
        for _ in range(6):
            await told.clock.advance(150.0)
            (engine,) = (await told.json("api/v1/snapshot"))["engines"]
            assert engine["state"] == "active"
        assert not told.told("acceptance_dropped", "drafting_dropped", "drafting_stalled", "engine_reset")


async def test_an_engine_that_changes_k_gets_no_advice_on_k(network, clock):
    ended, evaluation = await observed(network, clock, "sglang", steps_later=1)
    its, decoded = evaluation.longest, ended["generated"] - ended["requests"]
    assert its.acceptance_length_tokens == pytest.approx(decoded / ended["drafts"])
    # It verifies all that it drafts: ratios to T are known, and c·T is no overestimate.
    assert its.counts_verified
    assert its.draft_acceptance_ratio == its.total.accepted_tokens / its.total.draft_tokens
    assert evaluation.action not in {Action.INCREASE, Action.DECREASE}
    assert evaluation.known.speculation.varies_tokens


async def test_sglang_that_shows_no_k_has_all_but_what_depends_on_its_draft_tokens(network, clock):
    ended, evaluation = await observed(network, clock, "sglang", shows_steps=False)
    its, decoded = evaluation.longest, ended["generated"] - ended["requests"]
    assert (evaluation.state, its.window.seconds) == (State.ACTIVE, pytest.approx(SECONDS))
    assert its.acceptance_length_tokens == pytest.approx(decoded / ended["drafts"])
    assert its.acceptance_length_bounds is not None
    assert its.draft_acceptance_ratio is its.draft_length_tokens is its.speedup_range is None


# llama.cpp


@pytest.mark.parametrize("age", [1000, 30_000, 100_000])
async def test_a_llamacpp_of_any_age_neither_resets_nor_drops_nor_breaks_a_check(
    tmp_path, network, clock, age
):
    """At 100 million drafts a count has a step of 1000, of which 200 are drafted in a second."""
    traffic = {"running": 4, "drafts": (20, 1500), "rates": (0.6, 0.6), "seconds": 1000.0}
    network.servers["a:1"] = EndedRequests("llamacpp", clock, age=age, **traffic)
    async with exporter(tmp_path, clock, "targets: [{url: 'http://a:1/metrics'}]") as told:
        await told.clock.advance(900.0)
        (engine,) = (await told.json("api/v1/snapshot"))["engines"]
        assert engine["state"] == "active"
        assert engine["broken_checks"] == []
        length = engine["windows"][-1]["acceptance_length_tokens"]["value"]
        assert length == pytest.approx(1 + 0.6 + 0.36 + 0.216, rel=0.1)
        assert not told.told("acceptance_dropped", "drafting_dropped", "engine_reset", "check_broken")


async def test_llamacpp_without_drafts_is_off_and_the_arm_of_an_experiment_that_is_printed(
    tmp_path, network, clock
):
    """The time per token of both arms is that of their responses; bounds make a winner."""
    network.servers["off:1"] = EndedRequests("llamacpp", clock, steps=0, rates=(0.0, 0.0), seconds=900.0)
    network.servers["on:1"] = EndedRequests("llamacpp", clock, rates=(0.7, 0.7), seconds=900.0, seed=2)
    config = """
targets: [{url: 'http://off:1/metrics'}, {url: 'http://on:1/metrics', speculative: {method: draft_model}}]
experiments: [{name: drafts, arms: {"off": {match: {method: "off"}}, "on": {match: {method: draft_model}}}, baseline: "off"}]
"""
    async with exporter(tmp_path, clock, config) as told:
        await told.clock.advance(600.0)
        snapshot = await told.json("api/v1/snapshot")
        states = {engine["target"]: engine["state"] for engine in snapshot["engines"]}
        assert states == {"off:1": "disabled", "on:1": "active"}
        (experiment,) = snapshot["experiments"]
        arms = {arm["arm"]: arm for arm in experiment["arms"]}
        speedup = arms["on"]["windows"][-1]["speedup_ratio"]["time_per_output_token"]
        # A step of 20 ms yields 1 + 0.7 + 0.49 + 0.343 tokens instead of one.
        assert speedup["lower"] < speedup["value"] < speedup["upper"]
        assert speedup["value"] == pytest.approx(2.533, rel=0.03)
        assert arms["on"]["winner"]["time_per_output_token"]
