"""Increments and resets between two polls."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.scrape.page.engine_table import Counter
from spec_decode_exporter.window.increments import Reset, first, step

WALL = 1_790_000_000.0


def after(before, sample, *, moment=10.0, then=11.0):
    """Return the step from one sample to another, a second later."""
    return step(first(before, moment, WALL + moment), sample, then, WALL + then)


def test_an_increment_is_the_difference_of_all_counters(make_sample):
    before = make_sample(10, 40, 20, generation_tokens=35, decode_steps=12, positions=(9, 6, 3, 2))
    now = make_sample(13, 52, 26, generation_tokens=48, decode_steps=16, positions=(12, 8, 4, 2))
    taken = after(before, now)
    assert taken.reset is None
    assert (taken.increment.begin, taken.increment.end) == (10.0, 11.0)
    assert taken.increment.counters[:3] == (3, 12, 6)
    assert taken.increment.counters[Counter.GENERATION_TOKENS] == 13
    assert taken.increment.counters[Counter.DECODE_STEPS] == 4
    assert taken.increment.positions == (3, 2, 1, 0)


def test_a_counter_that_decreases_is_a_reset_and_nothing_is_added(make_sample):
    taken = after(make_sample(10, 40, 20), make_sample(9, 45, 22))
    assert (taken.reset, taken.increment) == (Reset.DECREASE, None)
    assert taken.counts.counters[:3] == (9, 45, 22)


@pytest.mark.parametrize("counter", [one.name.lower() for one in Counter])
def test_any_counter_that_decreases_is_a_reset(make_sample, counter):
    before, now = make_sample(**{counter: 5}), make_sample(**{counter: 4})
    assert after(before, now).reset is Reset.DECREASE


def test_a_position_that_decreases_is_a_reset(make_sample):
    taken = after(make_sample(10, 40, 9, positions=(5, 4)), make_sample(11, 44, 9, positions=(6, 3)))
    assert (taken.reset, taken.increment) == (Reset.DECREASE, None)


def test_a_process_created_since_the_last_poll_is_counted_from_its_creation(make_sample):
    before = make_sample(100, 400, 200, created=WALL, positions=(90, 60, 30, 20))
    now = make_sample(5, 20, 8, created=WALL + 10.25, positions=(4, 2, 1, 1))
    taken = after(before, now)
    assert taken.reset is Reset.RESTART
    assert (taken.increment.begin, taken.increment.end) == (10.25, 11.0)
    assert taken.increment.counters[:3] == (5, 20, 8)
    assert taken.increment.positions == (4, 2, 1, 1)


def test_a_process_with_higher_counters_is_a_restart_too(make_sample):
    taken = after(make_sample(1, 4, 2, created=WALL), make_sample(50, 200, 99, created=WALL + 10.5))
    assert taken.reset is Reset.RESTART
    assert taken.increment.counters[:3] == (50, 200, 99)


@pytest.mark.parametrize("created", [WALL - 3600, WALL + 9.999, WALL + 10.0])
def test_a_process_older_than_the_last_poll_is_another_server_and_a_starting_point(make_sample, created):
    taken = after(
        make_sample(100, 400, 200, created=WALL), make_sample(9_000, 36_000, 20_000, created=created)
    )
    assert (taken.reset, taken.increment) == (Reset.RESTART, None)
    assert taken.counts.counters[:3] == (9_000, 36_000, 20_000)


def test_a_process_created_in_the_future_is_a_starting_point(make_sample):
    # The server's clock is ahead: the start time on the exporter's clock is unknown.
    taken = after(make_sample(100, 400, 200, created=WALL), make_sample(5, 20, 8, created=WALL + 11.5))
    assert (taken.reset, taken.increment) == (Reset.RESTART, None)


def test_a_wall_clock_that_was_set_does_not_make_an_increment_overlap_the_one_before(make_sample):
    before = first(make_sample(100, 400, 200, created=WALL), 10.0, WALL + 10)
    # Between the polls our own clock was set back by an hour and some.
    now = make_sample(5, 20, 8, created=WALL - 3595.0)
    taken = step(before, now, 11.0, WALL - 3589.0)
    assert (taken.reset, taken.increment) == (Reset.RESTART, None)
    later = step(before, make_sample(5, 20, 8, created=WALL + 11), 11.0, WALL + 3611.0)
    assert (later.reset, later.increment) == (Reset.RESTART, None)


def test_a_fall_with_the_same_creation_time_adds_nothing(make_sample):
    taken = after(make_sample(100, 400, 200, created=WALL), make_sample(5, 20, 8, created=WALL))
    assert (taken.reset, taken.increment) == (Reset.DECREASE, None)


def test_a_creation_time_that_appears_or_vanishes_is_no_reset(make_sample):
    without, known = make_sample(5, 20, 8), make_sample(6, 24, 9, created=WALL)
    assert after(without, known).reset is None
    taken = after(known, make_sample(7, 28, 10))
    assert taken.reset is None
    assert taken.counts.created == WALL


def test_a_series_that_vanishes_keeps_its_last_value_until_it_comes_back(make_sample):
    gone = after(make_sample(10, 40, 20, positions=(10, 6, 4)), make_sample(None, 44, 22, positions=(11,)))
    assert gone.reset is None
    assert gone.increment.counters[:3] == (0, 4, 2)
    assert gone.increment.positions == (1, 0, 0)
    back = step(gone.counts, make_sample(12, 48, 24, positions=(12, 7, 5)), 12.0, WALL + 12)
    assert back.increment.counters[:3] == (2, 4, 2)
    assert back.increment.positions == (1, 1, 1)


def test_a_series_that_the_first_page_lacks_is_0_there(make_sample):
    taken = after(make_sample(), make_sample(3, 12, 5, positions=(3, 2)))
    assert taken.increment.counters[:3] == (3, 12, 5)
    assert taken.increment.positions == (3, 2)


def test_a_position_that_appears_is_no_reset(make_sample):
    taken = after(make_sample(10, 40, 9, positions=(9,)), make_sample(12, 48, 12, positions=(11, 1)))
    assert taken.reset is None
    assert taken.increment.positions == (2, 1)


class TestTornPages:
    """D, T, A and the positions increase one after the other while a page is rendered."""

    def test_accepted_tokens_a_little_ahead_of_their_drafts_are_no_reset(self, make_sample):
        taken = after(
            make_sample(100, 400, 200, positions=(100, 50, 30, 20)),
            make_sample(100, 400, 212, positions=(103, 53, 33, 23)),
        )
        assert taken.reset is None
        assert taken.increment.counters[:3] == (0, 0, 12)

    def test_more_accepted_than_drafted_by_more_than_a_page_can_be_torn_is_a_reset(self, make_sample):
        # 16 drafts of 4 tokens may be torn, with nothing running.
        before = make_sample(1000, 4000, 100, positions=(50, 30, 20, 0))
        assert after(before, make_sample(1000, 4000, 164, positions=(50, 30, 20, 0))).reset is None
        taken = after(before, make_sample(1000, 4000, 165, positions=(50, 30, 20, 0)))
        assert (taken.reset, taken.increment) == (Reset.DECREASE, None)

    def test_a_position_with_more_drafts_than_there_are_is_a_reset_too(self, make_sample):
        before = make_sample(1000, 4000, 100, positions=(100, 0, 0, 0))
        assert after(before, make_sample(1001, 4004, 117, positions=(117, 0, 0, 0))).reset is None
        taken = after(before, make_sample(1001, 4004, 118, positions=(118, 0, 0, 0)))
        assert (taken.reset, taken.increment) == (Reset.DECREASE, None)

    def test_more_running_requests_can_tear_a_page_further(self, make_sample):
        before = make_sample(1000, 4000, 100, positions=(100, 0, 0, 0))
        now = make_sample(1000, 4000, 200, positions=(200, 0, 0, 0), running_requests=64.0)
        assert after(before, now).reset is None

    def test_an_implausible_increment_is_a_reset(self, make_sample):
        leapt = make_sample(decode_nanoseconds=2**62, created=WALL + 10.5)
        taken = after(make_sample(decode_nanoseconds=0), leapt)
        assert (taken.reset, taken.increment) == (Reset.DECREASE, None)
        restarted = after(make_sample(decode_nanoseconds=0, created=WALL), leapt)
        assert (restarted.reset, restarted.increment) == (Reset.RESTART, None)


class TestNumberOfPositions:
    """K is max(positions, ⌈T/D⌉), but a torn page adds no position."""

    @pytest.mark.parametrize(
        ("drafts", "drafted", "positions", "tokens"),
        [
            (0, 0, (0, 0, 0, 0), 4),  # vLLM's Python front end: all are there from the start
            (41, 122, (30, 20, 14, 10), 4),  # n-gram drafts less than it may
            (0, 0, (), 0),  # nothing known yet
            (10, 35, (), 4),  # no position accepted yet: ⌈3.5⌉
            (10, 50, (), 5),
            (0, 4, (), 0),  # torn: the draft itself is not there yet
            (200, 1000, (120, 60), 5),  # created one by one: T/D includes the rest
            (1, 2**52, (), 128),  # a broken page must not make us draw up a vast list
            (20, 92, (16, 11, 6, 2), 4),  # torn by 3 drafts of 4 tokens: T/D = 4.6
            (5000, 20_012, (16, 11, 6, 2), 4),  # the same later, T/D = 4.0024
        ],
    )
    def test_it_is(self, make_sample, drafts, drafted, positions, tokens):
        counts = first(make_sample(drafts, drafted, 0, positions=positions), 0.0, WALL)
        assert counts.tokens == tokens

    @given(
        tokens=st.integers(1, 16),
        drafts=st.integers(0, 10**6),
        torn=st.integers(0, 16),
        running=st.integers(0, 512),
    )
    def test_a_torn_page_never_adds_a_position(self, make_sample, tokens, drafts, torn, running):
        sample = make_sample(
            drafts, tokens * (drafts + torn), 0, positions=(0,) * tokens, running_requests=float(running)
        )
        assert first(sample, 0.0, WALL).tokens == tokens
