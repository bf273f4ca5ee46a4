"""Sums of decode steps by load."""

from math import log

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.costs.steps import RATE, StepReader, StepSums, StepTimes, total
from spec_decode_exporter.window.engine_windows import NANO
from tests.fakes.windows import increment

WALL = 1_790_000_000.0


def steps(load=8.0, time=0.02, drafting=0.5, seconds=1.0, *, running=None, wall=WALL, **changed):
    """Steps of a poll at a load, of a share that drafts three tokens each; four requests of 500 tokens."""
    number = load * seconds / time
    counts = {
        "decode_steps": number,
        "decode_nanoseconds": load * seconds * NANO,
        "drafts": drafting * number,
    }
    usual = {"draft_tokens": 3 * drafting * number, "prompt_tokens": 2000.0, "first_tokens": 4.0}
    poll = increment(0.0, seconds, load=running or load, **(counts | usual | changed))
    return StepSums.of(poll, 0.0, wall)


def polled(second=0, **changed):
    counts = {
        "decode_steps": 400,
        "decode_nanoseconds": 400 * 20_000_000,
        "drafts": 300,
        "draft_tokens": 900,
        "prefix_cache_queries": 1000,
        "prefix_cache_hits": 600,
        "prompt_tokens": 1000,
        "generation_tokens": 600,
        "first_tokens": 2,
    }
    return increment(float(second), second + 1.0, load=9.0, **(counts | changed))


class TestReading:
    def test_a_poll_has_its_regressors(self):
        read = StepReader().read(polled(), WALL)
        assert (read.polls, read.seconds, read.wall) == (1, 1.0, WALL)
        assert (read.drafting, read.draft_tokens, read.running) == (300, 900, 9.0)
        assert (read.context, read.requests) == (1300, 2)
        means = [value / 400 for value in read.gram[0]]
        assert means == pytest.approx([1, 0.75, log(8), 8, 0.75 * log(8), 6, 400, 300, 0.02])

    def test_prefills_are_those_of_this_poll_and_the_one_before(self):
        reader = StepReader()
        cached = {"prefix_cache_hits": 1000}
        idle = {"decode_steps": 0}
        polls = ((0, {}), (1, cached), (2, cached), (3, idle), (4, cached), (9, {}))
        read = [reader.read(polled(second, **changed), WALL) for second, changed in polls]
        uncached = [sums and sums.gram[0][RATE] / sums.gram[0][0] for sums in read]
        assert uncached == [400, 200, 0, None, 200, 400], "the poll before the last one is unknown"

    def test_every_step_drafts_if_every_step_searches(self):
        assert StepReader().read(polled(), WALL, every_step_drafts=True).drafting == 400
        assert StepReader().read(polled(drafts=500), WALL).drafting == 400, "a torn page"

    @pytest.mark.parametrize(
        "changed",
        [
            {"decode_steps": 0},
            {"decode_nanoseconds": 0},
            {"decode_steps": 10**10},
            {"decode_nanoseconds": 10**18},
            {"prefix_cache_queries": 10**12},
            {"preemptions": 1},
        ],
    )
    def test_implausible_polls_are_left_out(self, changed):
        assert StepReader().read(polled(**changed), WALL) is None

    @pytest.mark.parametrize("load", [0.0, 1e6])
    def test_a_poll_without_a_plausible_load_is_left_out(self, load):
        assert StepReader().read(polled()._replace(load=load), WALL) is None

    def test_the_poll_after_a_preemption_is_left_out_too(self):
        reader = StepReader()
        read = [reader.read(polled(n, preemptions=n == 1), WALL) is not None for n in range(4)]
        assert read == [True, False, False, True]


class TestSums:
    @given(st.lists(st.tuples(st.floats(1, 100), st.floats(0, 1), st.floats(0, 1e5)), min_size=1, max_size=8))
    def test_they_are_additive_in_any_order(self, polls):
        each = [steps(load, drafting=share, wall=WALL + age) for load, share, age in polls]
        forth, back = total(each), total(each[::-1])
        assert forth.wall == back.wall
        assert forth.triangle == pytest.approx(back.triangle, rel=1e-9)
        assert forth[1:] == pytest.approx(back[1:], rel=1e-9)

    def test_means_are_of_the_steps_that_draft_and_of_the_requests(self):
        plain = steps(8.0, drafting=0.0, running=20.0, prompt_tokens=8000.0)
        drafting = steps(8.0, drafting=0.5, running=10.0)
        both = plain.plus(drafting)
        assert both.running == pytest.approx(10)
        assert both.mean_context == pytest.approx(10_000 / 8)
        assert steps(prompt_tokens=0.0, first_tokens=0.0).mean_context is None


class TestByLoad:
    def test_a_place_is_a_quarter_of_a_doubling(self):
        times = StepTimes()
        for load in (7.5, 8.0, 8.5, 9.5, 16.0):
            times.add(steps(load))
        assert {place: sums.polls for place, sums in times.places.items()} == {12: 3, 13: 1, 16: 1}
        assert times.near(12).polls == 4
        assert times.near(14).polls == times.near(17).polls == 1
        assert times.near(20) is None

    @pytest.mark.parametrize(("load", "place"), [(0.2, 0), (1.0, 0), (2.0**16, 64), (1e9, 64)])
    def test_extreme_loads_are_in_the_outer_places(self, load, place):
        times = StepTimes()
        times.add(steps(load, time=10.0, running=8.0))
        assert list(times.places) == [place]
