from __future__ import annotations

import pytest

from spec_decode_exporter.drops.variance import Variance, variance_of


@pytest.mark.parametrize(("drafts", "expected"), [(1, 1.0), (32, 1.0), (33, 2.0), (100, 4.0), (1e6, 4.0)])
def test_the_variance_of_a_sum_is_that_of_the_next_length(drafts, expected):
    variances = [Variance(128, 4.0), Variance(64, 2.0), Variance(32, 1.0)]
    assert variance_of(drafts, variances) == expected
