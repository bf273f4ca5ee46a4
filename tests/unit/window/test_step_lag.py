from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.window.step_lag import StepLag

TORN = 22.0
"""Of a page with three running requests."""


def fed(increments):
    lag = StepLag()
    for moment, (drafts, steps) in enumerate(increments):
        lag.observe(drafts, steps, TORN, float(moment))
    return lag, float(len(increments) - 1)


@pytest.mark.parametrize(
    ("increments", "lags"),
    [
        ([(100, 100)] * 60, False),
        # Steps without a draft, as a search has them, cover no lag: they only add steps.
        ([(30, 100)] * 60, False),
        # Torn pages, whose next page has the rest.
        ([(100, 98), (100, 102)] * 30, False),
        ([(100, 78), (100, 122)] * 30, False),
        # Requests that were cancelled: their last drafts have no step.
        ([(100, 91)] * 600, False),
        ([(100, 85)] * 60, True),
        # Streams that publish every ten seconds, at much and at little traffic.
        ([(100, 0)] * 9 + [(100, 1000)], True),
        ([(10, 0)] * 9 + [(10, 100)], True),
        ([(2, 0)] * 9 + [(2, 20)], False),
        ([(0, 0)] * 60, False),
    ],
)
def test_a_lag_is_more_missing_steps_than_torn_pages_and_cancelled_requests_explain(increments, lags):
    lag, now = fed(increments)
    assert lag.is_within(300.0, now) is lags


def test_a_lag_is_forgotten_after_the_longest_window_and_with_the_process():
    lag, now = fed([(100, 0), (100, 200), *[(100, 100)] * 60])
    assert lag.is_within(61.0, now)
    assert not lag.is_within(60.0, now)
    lag, now = fed([(100, 0)] * 3)
    lag.reset()
    assert not lag.is_within(300.0, now)
    lag.observe(20, 0, TORN, now)
    assert not lag.is_within(300.0, now)


@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 10**6)), max_size=50))
def test_steps_that_never_fall_behind_the_drafts_never_lag(increments):
    lag, now = fed([(drafts, drafts + extra) for drafts, extra in increments] or [(0, 0)])
    assert not lag.is_within(300.0, now)
