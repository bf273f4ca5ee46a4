"""Merged windows of several engines."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.scrape.page.engine_table import Counter, Gauge
from spec_decode_exporter.window.answer_lengths import AnswerLengths
from spec_decode_exporter.window.increments import Increment
from spec_decode_exporter.window.ledger import MEAN_GAUGES, Ledger, PublishedValues
from spec_decode_exporter.window.merge import STEPS, merge_windows

KNOWN = PublishedValues((True,) * len(Counter), (True,) * len(MEAN_GAUGES), 2)
UNKNOWN = PublishedValues((True, True, True, False, *(True,) * (len(Counter) - 4)), (True, False, True), 2)


def window_of(drafts, *, offset=0.0, interval=1.0, gauges=(2.0, 0.0, 0.5), known=KNOWN, positions=(1, 0)):
    """Return a window with these ``drafts`` in each of its increments."""
    ledger, end = Ledger(300.0), offset
    for each in drafts:
        begin, end = end, end + interval
        counters = [each if counter is Counter.DRAFTS else 0 for counter in Counter]
        ledger.add(Increment(begin, end, tuple(counters), positions), gauges, interval)
    return ledger.window(300.0, interval, end, known)


def drafts_of(window):
    return window.increments.counter(Counter.DRAFTS)


def test_the_window_of_one_engine_is_unchanged():
    window = window_of([1, 2, 3])
    assert merge_windows([window]) is window


def test_counts_add_up():
    both = merge_windows([window_of([1, 2, 3]), window_of([10, 20, 30])])
    assert both[Counter.DRAFTS] == 66
    assert both.positions == (6, 0)


def test_requests_add_up_and_shares_of_caches_are_averaged():
    both = merge_windows([window_of([1] * 3), window_of([1] * 3, gauges=(6.0, 4.0, 1.0))])
    assert dict(zip(MEAN_GAUGES, both.gauges, strict=True)) == {
        Gauge.RUNNING_REQUESTS: 8.0,
        Gauge.WAITING_REQUESTS: 4.0,
        Gauge.KV_CACHE_USAGE: 0.75,
    }


def test_answers_add_up():
    windows = [
        replace(window_of([1] * 3), answers=AnswerLengths(n, 2 * n, 3 * n, 4 * n)) for n in (1, 10, 100)
    ]
    assert merge_windows(windows).answers == (111, 222, 333, 444)


def test_time_does_not_add_up():
    both = merge_windows([window_of([1] * 5), window_of([1] * 9)])
    assert (both.seconds, both.polls, both.length) == (9.0, 9, 300.0)


def test_a_value_that_one_window_lacks_is_absent_from_the_sum():
    both = merge_windows([window_of([1] * 3), window_of([1] * 3, known=UNKNOWN)])
    assert both[Counter(3)] is None
    assert both[Counter.DRAFTS] == 6
    assert both.gauges[1] is None


def test_simultaneous_increments_are_added_up():
    quiet, burst = [1] * 20, [1] * 10 + [100] + [1] * 9
    both = merge_windows([window_of(burst), window_of(burst, offset=0.3)])
    assert drafts_of(both) == [2 * each for each in burst]
    assert drafts_of(merge_windows([window_of(burst), window_of(quiet)]))[10] == 101


def test_an_engine_that_came_later_is_added_where_it_was():
    both = merge_windows([window_of([1] * 20), window_of([100] * 5, offset=15.0)])
    assert drafts_of(both) == [1] * 15 + [101] * 5


@pytest.mark.parametrize("drafts", [[[], []], [[], [1, 2, 3]]])
def test_an_engine_without_increments_adds_nothing(drafts):
    both = merge_windows([window_of(each) for each in drafts])
    assert drafts_of(both) == drafts[1]


@given(
    st.lists(
        st.tuples(
            st.lists(st.integers(0, 1000), max_size=120), st.floats(0, 50), st.sampled_from([0.5, 1.0, 2.5])
        ),
        min_size=2,
        max_size=5,
    )
)
def test_nothing_is_lost_and_nothing_is_counted_twice(engines):
    windows = [window_of(drafts, offset=offset, interval=every) for drafts, offset, every in engines]
    both = merge_windows(windows)
    assert sum(drafts_of(both)) == both[Counter.DRAFTS] == sum(sum(drafts) for drafts, _, _ in engines)
    assert len(both.increments) <= STEPS
