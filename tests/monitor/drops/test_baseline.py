from __future__ import annotations

from math import exp

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.monitor.drops.baseline import Baseline
from spec_decode_exporter.monitor.drops.interval import Interval

increments = st.lists(
    st.builds(Interval, st.floats(0.1, 60), st.integers(0, 1000), st.integers(0, 3000), st.integers(0, 9000)),
    max_size=60,
)


def test_a_baseline_of_a_worked_example():
    baseline = Baseline()
    baseline.add(Interval(5.0, 100, 100, 300), memory=5.0)
    baseline.add(Interval(5.0, 50, 110, 400), memory=5.0)
    kept = exp(-1)
    assert baseline.mean == pytest.approx((kept * 100 + 110) / (kept * 100 + 50))
    assert baseline.length == baseline.mean + 1
    assert baseline.drafts_per_second == pytest.approx((kept * 100 + 50) / (kept * 5 + 5))
    assert baseline.effective_drafts == pytest.approx((kept * 100 + 50) ** 2 / (kept**2 * 100 + 50))
    squares = (kept * 300 + 400) / (kept * 100 + 50)
    assert baseline.independent_variance == pytest.approx(squares - baseline.mean**2)


@given(increments)
def test_with_infinite_memory_a_baseline_equals_the_plain_sums(given_increments):
    baseline = Baseline()
    drafted = [interval for interval in given_increments if interval.drafts]
    for interval in drafted:
        baseline.add(interval, memory=1e18)
    if drafted:
        assert baseline.mean == pytest.approx(
            sum(interval.accepted for interval in drafted) / sum(interval.drafts for interval in drafted)
        )
        assert baseline.effective_drafts == pytest.approx(sum(interval.drafts for interval in drafted))
