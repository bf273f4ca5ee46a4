from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.scrape.poll.duty_cycle import (
    COST_SECONDS,
    EXCLUDED_POLLS,
    MAX_POLLS,
    MAX_WINDOW_SHARE,
    TARGET_PROCESSOR_SHARE,
    DutyCycle,
    ProcessingCost,
)

intervals = st.sampled_from([0.1, 0.25, 0.7, 1.0, 1.5, 5.0, 60.0])


def cycle(interval=1.0, most=0.01, window=30.0, own=None):
    return DutyCycle(interval, most, window, own or ProcessingCost())


@pytest.mark.parametrize(
    ("seconds", "interval"), [(0.0, 1), (0.01, 1), (0.0101, 2), (0.02, 2), (0.025, 3), (0.05, 5), (9.0, 5)]
)
def test_the_interval_has_the_number_of_ticks_that_the_response_time_requires(seconds, interval):
    duty = cycle()
    duty.answered(0, seconds)
    assert duty.interval() == interval


@given(intervals, st.floats(0.001, 1), st.floats(0.1, 3600), st.lists(st.floats(0, 100), max_size=20))
def test_the_interval_is_between_the_configured_one_and_a_sixth_of_the_shortest_window(
    interval, most, window, answers
):
    duty = cycle(interval, most, window)
    for moment, seconds in enumerate(answers):
        duty.answered(moment, seconds)
    assert interval <= duty.interval() <= max(interval, window * MAX_WINDOW_SHARE) * (1 + 1e-3)
    assert duty.interval() / interval == pytest.approx(round(duty.interval() / interval))


@given(st.lists(st.tuples(st.floats(0, 20), st.floats(0, 0.1)), min_size=1, max_size=60))
def test_the_interval_equals_that_of_a_scan_of_the_last_minutes_responses(polls):
    duty, answers, moment = cycle(0.5, 0.01, 3600), [], 0.0
    for gap, seconds in polls:
        moment += gap
        duty.answered(moment, seconds)
        answers.append((moment, seconds))
        cheapest = min(cost for when, cost in answers if when >= moment - COST_SECONDS)
        assert duty.interval() == pytest.approx(max(0.5, cheapest / 0.01), abs=0.501)
        assert duty.interval() >= cheapest / 0.01 - 0.001


def test_kept_response_times_do_not_grow_with_the_polls():
    duty = cycle(0.1)
    for poll in range(10_000):
        duty.answered(poll * 0.1, 0.01)
    assert len(duty._responses) == 1
    for poll in range(10_000):
        duty.answered(1000 + poll * 0.1, poll)
    assert len(duty._responses) <= COST_SECONDS / 0.1 + 2


# What polls cost the exporter itself.


def spending(costs, interval=1.0, window=60.0):
    """Return a duty cycle after one poll a second with these processor seconds."""
    own = ProcessingCost()
    duty = cycle(interval, 0.01, window, own)
    for moment, seconds in enumerate(costs):
        own.polled(float(moment), seconds)
    return duty


def test_the_cost_of_a_poll_counts_for_a_minute():
    own = ProcessingCost()
    for moment in range(10):
        own.polled(float(moment), 1.0)
    assert own.seconds == 1.0
    own.polled(COST_SECONDS + 20, 0.01)
    assert own.seconds == 0.0


def test_the_cause_is_the_one_that_requires_the_longer_interval():
    own = ProcessingCost()
    duty = cycle(1.0, 0.01, 600.0, own)
    duty.answered(0.0, 0.05)
    assert (duty.interval(), duty.cause) == (5.0, "answers")
    for moment in range(10):
        own.polled(float(moment), 10 * TARGET_PROCESSOR_SHARE)
    assert (duty.interval(), duty.cause) == (10.0, "processing")


def test_a_short_wait_for_a_permit_is_not_the_cause_of_the_longer_interval_of_slow_responses():
    duty = cycle(1.0, 0.01, 600.0)
    duty.answered(0.0, 0.05)
    duty.waited(0.5)
    assert (duty.interval(), duty.cause) == (5.0, "answers")
    duty.waited(9.5)
    assert (duty.interval(), duty.cause) == (10.0, "processing")


def test_kept_costs_do_not_grow_with_the_polls():
    own = ProcessingCost()
    for poll in range(5000):
        own.polled(poll * 0.001, 0.01)
    assert len(own._polls) == MAX_POLLS


@given(st.lists(st.floats(0, 10), max_size=40), intervals)
def test_the_share_of_a_core_holds_for_any_order_of_costs(costs, interval):
    own = ProcessingCost()
    duty = cycle(interval, 0.01, 1e9, own)
    for moment, seconds in enumerate(costs):
        own.polled(float(moment), seconds)
    counted = sorted(costs)[:-EXCLUDED_POLLS]
    if counted:
        share = sum(counted) / len(counted) / duty.interval()
        assert share <= TARGET_PROCESSOR_SHARE * (1 + 2e-3) + 1e-9


@pytest.mark.parametrize(
    ("costs", "window", "interval"),
    [
        ([4 * TARGET_PROCESSOR_SHARE] * 20, 60.0, 4.0),
        ([3.0] * EXCLUDED_POLLS + [0.01] * 20, 60.0, 1.0),  # the first pages cost more
        ([3.0] * EXCLUDED_POLLS, 60.0, 1.0),
        (
            [0.4, 0.0] * 30,
            60.0,
            pytest.approx(0.2 / TARGET_PROCESSOR_SHARE, abs=1),
        ),  # cheap ones hide nothing
        ([60.0] * 20, 30.0, 30.0 * MAX_WINDOW_SHARE),
    ],
)
def test_costly_pages_are_polled_less_often(costs, window, interval):
    duty = spending(costs, window=window)
    assert duty.interval() == interval
    assert interval == 1.0 or duty.cause == "processing"
