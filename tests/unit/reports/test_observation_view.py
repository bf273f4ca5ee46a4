"""Every figure of a window, with its bounds."""

import asyncio
import random
from dataclasses import replace

import pytest
from pydantic import ValidationError

from spec_decode_exporter.analysis.figure_table import COMPARED
from spec_decode_exporter.analysis.knowledge import Knowledge
from spec_decode_exporter.analysis.window_evaluation import WindowEvaluation
from spec_decode_exporter.reports import observation_view
from spec_decode_exporter.reports.observation import HOPELESS_SECONDS, NotMeasuredError, observed_config
from spec_decode_exporter.reports.observation_view import Measured, measured, sum_of_windows
from spec_decode_exporter.window.engine_windows import columns
from spec_decode_exporter.window.histograms import Answers
from spec_decode_exporter.window.ring import Increments
from tests.conftest import make_sample, settle
from tests.fakes.arms import window_over
from tests.fakes.references import take
from tests.fakes.simulated import Server
from tests.fakes.windows import increments, polled, window


def busy_minute(**changed):
    """A minute of a server with 4 requests at a time and K = 2; ``changed`` are counters of every second."""
    dice, seconds = random.Random(1), []
    for _ in range(60):
        first, second = dice.randint(60, 90), dice.randint(20, 50)
        counters = {
            "drafts": 100,
            "draft_tokens": 200,
            "accepted_tokens": first + second,
            "first_tokens": 2,
            "generation_tokens": 102 + first + second,
            "decode_steps": 100,
            "decode_nanoseconds": 4 * 10**9,
            "first_token_nanoseconds": 10**9,
            "prompt_tokens": dice.randint(500, 1500),
            "prefix_cache_queries": 1000,
            "prefix_cache_hits": 250,
            "positions": (first, second),
            "gauges": (4.0, 1.0, 0.5),
        }
        seconds.append(counters | changed)
    window = window_over(increments(*seconds), 60.0, depth=len(seconds[0]["positions"]))
    return WindowEvaluation(window, Knowledge())


def test_the_acceptance_rate_and_length_have_their_own_bounds():
    minute = busy_minute()
    found = measured(minute)["figures"]
    for key, estimate in (
        ("draft_acceptance_ratio", minute.draft_acceptance_bounds),
        ("acceptance_length_tokens", minute.acceptance_length_bounds),
    ):
        assert found[key] == Measured(value=estimate.value, lower=estimate.lower, upper=estimate.upper)


CONSTANT = {
    "draft_length_tokens": 2.0, "coverage_ratio": 1.0, "step_seconds": 0.04, "drafts_per_second": 100.0,
    "draft_tokens_per_second": 200.0, "requests_per_second": 2.0, "running_requests": 4.0, "waiting_requests": 1.0,
    "kv_cache_usage_ratio": 0.5, "prefix_cache_hit_ratio": 0.25,
}  # fmt: skip


def test_constant_figures_have_no_error():
    found = measured(busy_minute())["figures"]
    for quantity, value in CONSTANT.items():
        one = found[quantity]
        assert [one.value, one.lower, one.upper] == pytest.approx([value] * 3), quantity


def test_every_figure_is_there_with_bounds_around_it():
    found = measured(busy_minute())["figures"]
    assert found.keys() == {figure.key for figure in COMPARED}
    assert all(one.lower <= one.value <= one.upper for one in found.values())
    varying = found["prompt_tokens_per_request"]
    assert varying.lower < varying.value < varying.upper
    assert found["time_per_output_token_seconds"].value == pytest.approx(
        0.04 / found["effective_tokens_per_step"].value
    )


def test_a_window_without_requests_has_figures_and_no_bounds_and_an_empty_one_nothing():
    view = measured(WindowEvaluation(window(100, 200, 90, positions=(60, 30)), Knowledge()))
    assert view["figures"].keys() >= {"draft_acceptance_ratio", "drafts_per_second"}
    assert all(one.lower is None for one in view["figures"].values())
    assert [one.value for one in view["position_acceptance_ratio"]] == [0.6, 0.3]
    nothing = measured(WindowEvaluation(window(), Knowledge()))
    assert nothing == {"tokens": 0, "figures": {}, "position_acceptance_ratio": ()}


def test_a_server_that_does_not_speculate_has_bounds_of_its_speed():
    minute = busy_minute(drafts=0, draft_tokens=0, accepted_tokens=0, positions=())
    found = measured(minute)["figures"]
    assert found["time_per_output_token_seconds"].lower is not None
    assert "draft_acceptance_ratio" not in found


@pytest.mark.parametrize("bounds", [{"lower": 0.5}, {"lower": 1.5, "upper": 2.0}, {"value": float("nan")}])
def test_impossible_bounds_are_rejected(bounds):
    with pytest.raises(ValidationError):
        Measured.model_validate({"value": 1.0, **bounds})


# Several engines


def test_windows_of_several_engines_add_up_but_their_time_does_not():
    load = {"running_requests": 2.0, "waiting_requests": 0.0, "kv_cache_usage": 0.5}
    more = {"running_requests": 6.0, "waiting_requests": 4.0, "kv_cache_usage": 1.0}
    few = polled([make_sample(total, positions=(total, 0), **load) for total in (0, 1, 3, 6)])
    many = polled([make_sample(total, positions=(total, 0), **more) for total in range(0, 91, 10)])
    one, other = replace(few, answers=Answers(1, 2, 3, 4)), replace(many, answers=Answers(10, 20, 30, 40))
    both = sum_of_windows([one, other])
    assert sum_of_windows([one]) is one
    assert (both.total.drafts, both.positions, both.mean) == (96, (96, 0), (8.0, 4.0, 0.75))
    assert (both.length, both.seconds, both.polls, both.answers) == (300.0, 9.0, 9, (11, 22, 33, 44))
    assert columns(both.increments, "drafts") == [[11, 12, 13, *[10] * 6]]
    assert columns(both.increments, "polls") == [[2, 2, 2, *[1] * 6]]


def test_a_value_that_one_engine_lacks_is_absent_from_the_sum():
    both = sum_of_windows([window(4, decode_steps=3, gauges=(1.0, 2.0, 0.5)), window(2, gauges=(None, 3.0))])
    assert (both.total.drafts, both.total.decode_steps, both.mean) == (6, None, (None, 5.0, None))


@pytest.mark.parametrize(("drafts", "drafted"), [(0, (4, 3, 0)), (2, ())])
def test_draft_tokens_by_position_are_summed_if_each_engine_that_drafts_has_them(drafts, drafted):
    one = window(4, 7, 2, positions=(1, 1), drafted=(4, 3))
    assert sum_of_windows([one, window(drafts, 0, 0, positions=(0, 0, 0))]).drafted == drafted


def test_increments_of_several_engines_are_added_up_where_they_begin(monkeypatch):
    late = Increments.of([[100, 1]] * 5, [15.2 + n for n in range(5)])
    every_second = Increments.of([[1]] * 20, [float(n) for n in range(20)])

    of_every_second, of_late, empty = (
        replace(window(), increments=each) for each in (every_second, late, Increments.of([], []))
    )
    both = sum_of_windows([of_every_second, of_late]).increments
    assert both.column(0) == [1] * 15 + [101] * 5
    assert both.column(1) == [0] * 15 + [1] * 5
    monkeypatch.setattr(observation_view, "MAX_INCREMENTS", 5)
    assert sum_of_windows([of_every_second, empty]).increments.column(0) == [4, 4, 4, 4, 4]


# Servers


async def failed(clock, seconds, *urls):
    """Measure, advance the clock by ``seconds``, and return the error."""
    work = asyncio.ensure_future(take(observed_config([{"url": url} for url in urls], 300), 300, clock))
    await clock.advance(seconds)
    await settle(100)
    assert work.done()
    with pytest.raises(NotMeasuredError) as caught:
        await work
    return str(caught.value)


async def test_an_unreachable_server_ends_the_measurement_early(network, clock):
    network.servers["a:1"] = Server(clock, "steady", running=60)
    message = await failed(clock, HOPELESS_SECONDS + 1, "http://a:1", "http://b:1")
    assert message.startswith("b:1: ")
    assert message.endswith("Connection refused; start the server, or correct the port")
    assert "a:1: " not in message


async def test_a_page_without_engines_is_an_error(network, clock, monkeypatch):
    network.servers["a:1"] = server = Server(clock, "steady", running=60)
    monkeypatch.setattr(server, "answer", lambda _: b"up 1\n")
    message = await failed(clock, HOPELESS_SECONDS + 1, "http://a:1")
    assert message.startswith("a:1: No inference engine on this page; ")
