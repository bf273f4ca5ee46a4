"""Increments in a window, and its sums."""

from __future__ import annotations

import pytest

from spec_decode_exporter.scrape.page.engine_table import Counter
from spec_decode_exporter.scrape.page.sample_reader import MAX_REQUESTS
from spec_decode_exporter.window.increments import Increment
from spec_decode_exporter.window.ledger import NANO, Ledger, PublishedValues, Window
from spec_decode_exporter.window.merge import merge_windows

ALL_KNOWN = PublishedValues((True,) * len(Counter), (True,) * 3, 2)


def increment(begin, end, *, drafts=1, positions=(1, 0), gauges=(0.0, 0.0, 0.0)):
    counters = [0] * len(Counter)
    counters[Counter.DRAFTS] = drafts
    counters[Counter.DRAFT_TOKENS] = 2 * drafts
    counters[Counter.ACCEPTED_TOKENS] = drafts
    counters[Counter.DECODE_STEPS] = 3 * drafts
    return Increment(begin, end, tuple(counters), positions), gauges


def ledger_of(*increments, longest=300.0, interval=1.0):
    ledger = Ledger(longest)
    for one, gauges in increments:
        ledger.add(one, gauges, interval)
    return ledger


def drafts_within(ledger, length, newest, interval=1.0):
    return ledger.window(length, interval, newest, ALL_KNOWN)[Counter.DRAFTS]


def test_an_increment_belongs_that_begins_half_an_interval_before_the_window_at_most():
    ledger = ledger_of(increment(9.5, 10.5, drafts=1), increment(10.5, 11.5, drafts=10))
    assert drafts_within(ledger, 30.0, 39.9) == 11
    assert drafts_within(ledger, 30.0, 40.0) == 11
    assert drafts_within(ledger, 30.0, 40.1) == 10


def test_the_half_is_of_the_interval_in_force():
    ledger = ledger_of(increment(8.0, 10.0, drafts=1), increment(10.0, 12.0, drafts=10), interval=2.0)
    assert drafts_within(ledger, 30.0, 39.0, interval=2.0) == 11
    assert drafts_within(ledger, 30.0, 39.0, interval=1.0) == 10


def test_an_increment_across_a_gap_longer_than_the_window_is_in_none_so_short():
    ledger = ledger_of(increment(0.0, 1.0), increment(1.0, 43.0, drafts=100), increment(43.0, 44.0, drafts=5))
    assert drafts_within(ledger, 30.0, 44.0) == 5
    assert drafts_within(ledger, 300.0, 44.0) == 106


def test_a_window_covers_the_time_of_its_increments_and_no_gap_between_them():
    ledger = ledger_of(increment(0.0, 1.0), increment(21.5, 22.0))
    window = ledger.window(30.0, 1.0, 22.0, ALL_KNOWN)
    assert (window.seconds, window.polls) == (1.5, 2)


def test_a_window_without_increments_is_empty_and_partial():
    window = Ledger(300.0).window(30.0, 1.0, 0.0, ALL_KNOWN)
    assert (window.seconds, window.polls, window.partial) == (0.0, 0, True)
    assert window.counters == (0,) * len(Counter)
    assert window.positions == (0, 0)
    assert window.gauges == (None, None, None)


@pytest.mark.parametrize(
    ("seconds", "polls", "partial"),
    [(15.0, 3, False), (14.999, 100, True), (30.0, 2, True), (30.0, 3, False), (30.0, 30, False)],
)
def test_under_half_its_length_or_three_increments_a_window_is_partial(seconds, polls, partial):
    assert Window(30.0, seconds, polls, (), (), ()).partial is partial


def test_a_value_that_the_engine_lacks_is_none_and_not_0():
    known = PublishedValues(tuple(one is not Counter.DECODE_STEPS for one in Counter), (True, False, True), 2)
    window = ledger_of(increment(0.0, 1.0)).window(30.0, 1.0, 1.0, known)
    assert window[Counter.DECODE_STEPS] is None
    assert window[Counter.DRAFTS] == 1
    assert window.gauges == (0.0, None, 0.0)


def test_late_decode_steps_are_unknown_on_windows_under_a_minute():
    known = PublishedValues((True,) * len(Counter), (True,) * 3, 2, late_steps=True)
    ledger = ledger_of(increment(0.0, 59.0))
    for length, is_known in ((59.0, False), (60.0, True), (300.0, True)):
        window = ledger.window(length, 1.0, 59.0, known)
        assert (window[Counter.DECODE_STEPS] is not None) is is_known
        assert (window[Counter.DECODE_NANOSECONDS] is not None) is is_known
        assert window[Counter.DRAFTS] == 1


def test_late_decode_steps_are_unknown_on_a_long_window_that_is_not_filled():
    known = PublishedValues((True,) * len(Counter), (True,) * 3, 2, late_steps=True)
    for covered, is_known in ((30.0, False), (53.0, False), (55.0, True)):
        window = ledger_of(increment(0.0, covered)).window(300.0, 1.0, covered, known)
        assert (window[Counter.DECODE_STEPS] is not None) is is_known


def test_gauges_are_means_over_the_polls():
    ledger = ledger_of(
        increment(0.0, 1.0, gauges=(3.0, 0.0, 0.25)), increment(1.0, 9.0, gauges=(6.0, None, 0.75))
    )
    assert ledger.window(30.0, 1.0, 9.0, ALL_KNOWN).gauges == (4.5, 0.0, 0.5)


def test_sums_that_64_bits_do_not_hold_start_counts_and_times_together():
    most = MAX_REQUESTS
    ledger = ledger_of(
        *(increment(float(n), n + 1.0, gauges=(most, most, 1.0)) for n in range(9000)), longest=1e4
    )
    window = ledger.window(1e4, 1.0, 9000.0, ALL_KNOWN)
    assert 0 < window.polls == window[Counter.DRAFTS] < 9000
    assert len(window.increments.counter(Counter.DRAFTS)) == len(window.increments.seconds()) == window.polls
    assert window.gauges == (most, most, 1.0)


def test_engines_whose_sums_have_more_than_64_bits_together_are_added_up():
    windows = [
        ledger_of(increment(0.0, 1.0, drafts=2**60)).window(300.0, 1.0, 1.0, ALL_KNOWN) for _ in range(9)
    ]
    whole = merge_windows(windows)
    assert whole[Counter.DECODE_STEPS] == 27 * 2**60
    assert whole.increments.counter(Counter.DECODE_STEPS) == [27 * 2**60]


@pytest.mark.parametrize("value", [1e300, -1e300])
def test_an_implausible_gauge_does_not_break_the_window(value):
    ledger = ledger_of(increment(0.0, 1.0, gauges=(value, 0.0, 0.0)), increment(1.0, 2.0))
    assert ledger.window(30.0, 1.0, 2.0, ALL_KNOWN)[Counter.DRAFTS] == 2


def test_positions_that_come_later_were_0_before():
    ledger = ledger_of(increment(0.0, 1.0, positions=()), increment(1.0, 2.0, positions=(1, 1)))
    assert ledger.window(30.0, 1.0, 2.0, ALL_KNOWN).positions == (1, 1)


def test_positions_that_are_not_there_again_after_a_restart_add_nothing():
    ledger = ledger_of(increment(0.0, 1.0, positions=(1, 1)), increment(1.0, 2.0, positions=()))
    assert ledger.window(30.0, 1.0, 2.0, ALL_KNOWN).positions == (1, 1)


def test_every_position_up_to_k_is_there():
    known = PublishedValues((True,) * len(Counter), (True,) * 3, 5)
    assert ledger_of(increment(0.0, 1.0)).window(30.0, 1.0, 1.0, known).positions == (1, 0, 0, 0, 0)


def test_the_increments_of_a_window_can_be_read_one_by_one():
    ledger = ledger_of(
        increment(0.0, 1.0, drafts=7), increment(40.0, 41.0, drafts=2), increment(41.0, 42.5, drafts=3)
    )
    longer = ledger.window(300.0, 1.0, 42.5, ALL_KNOWN).increments
    assert len(longer) == 3
    assert longer.counter(Counter.DRAFT_TOKENS) == [14, 4, 6]
    assert longer.counter(Counter.ACCEPTED_TOKENS) == [7, 2, 3]
    assert longer.position(0) == [1, 1, 1]
    assert longer.seconds() == [1.0, 1.0, 1.5]
    assert ledger.window(30.0, 1.0, 42.5, ALL_KNOWN).increments.counter(Counter.DRAFTS) == [2, 3]


def test_a_window_without_increments_has_none_to_read():
    none = Ledger(300.0).window(30.0, 1.0, 0.0, ALL_KNOWN).increments
    assert (len(none), none.counter(Counter.DRAFTS), none.position(7)) == (0, [], [])


@pytest.mark.parametrize("count", [1, 29, 30, 31, 59, 60, 61, 300])
@pytest.mark.parametrize("most", [1, 30, 60])
def test_neighbours_are_merged_down_to_the_maximum(count, most):
    ledger = ledger_of(*(increment(float(n), n + 1.0, drafts=n + 1) for n in range(count)))
    increments = ledger.window(300.0, 1.0, float(count), ALL_KNOWN).increments
    merged = increments.merged(most)
    group = -(-count // most)
    drafts = increments.counter(Counter.DRAFTS)
    expected = [sum(drafts[max(0, end - group) : end]) for end in range(count, 0, -group)][::-1]
    assert merged.counter(Counter.DRAFTS) == expected
    assert len(merged) == len(expected) <= most
    assert sum(merged.seconds()) == count


def test_times_are_exact_integers_until_the_last_division():
    increments = [increment(n / 10, (n + 1) / 10) for n in range(100)]
    window = ledger_of(*increments, interval=0.1).window(300.0, 0.1, 10.0, ALL_KNOWN)
    assert window.seconds == sum(round((b.end - b.begin) * NANO) for b, _ in increments) / NANO


def test_increments_are_added_up_between_moments_where_they_begin():
    ledger = ledger_of(*(increment(second - 1.0, second, drafts=second) for second in range(1, 11)))
    increments = ledger.window(10.0, 1.0, 10.0, ALL_KNOWN).increments
    places = increments.places([0.0, 3.0, 3.5, 20.0])
    assert places == [0, 3, 4, 10]
    added = increments.between(places)
    assert added.counter(Counter.DRAFTS) == [1 + 2 + 3, 4, 5 + 6 + 7 + 8 + 9 + 10]
    assert (sum(increments.polls()), added.polls()) == (10, [3, 1, 6])
    assert added.plus(added).merged(1).polls() == [20]
