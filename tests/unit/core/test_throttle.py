from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.core.throttle import Throttle


def times_due(throttle, moments, early=0.0):
    """Return the moments at which the work was due, and then done."""
    due = []
    for moment in moments:
        if throttle.is_due(moment, early):
            throttle.done(moment)
            due.append(moment)
    return due


@given(st.lists(st.floats(0, 1, exclude_max=True), min_size=1, max_size=20))
def test_no_phase_makes_an_interval_longer(phases):
    for own in phases:
        found = times_due(Throttle(5.0, own), [100 + 0.25 * poll for poll in range(200)])
        assert max(after - before for before, after in pairwise(found)) <= 5.25


@pytest.mark.parametrize(
    ("throttle", "moments", "early", "due"),
    [
        (Throttle(5.0), range(100, 121), 0.0, [100, 105, 110, 115, 120]),
        (Throttle(8.0, phase=0.75), range(100, 121), 0.0, [100, 102, 110, 118]),  # earlier by the phase, once
        (Throttle(5.0), [100.0, 104.9, 110.0], 0.5, [100.0, 104.9, 110.0]),  # early within the tolerance
        (Throttle(5.0), [100.0, 104.9, 110.0], 0.0, [100.0, 110.0]),
    ],
)
def test_work_is_due_immediately_and_then_once_an_interval(throttle, moments, early, due):
    assert times_due(throttle, moments, early) == due
