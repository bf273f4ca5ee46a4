"""Wider intervals of a typical cost decide less and contain more."""

from __future__ import annotations

from itertools import pairwise

import pytest

from benchmarks.truth import trade_off
from benchmarks.truth.cells import cells


@pytest.fixture(name="rows", scope="module")
def fixture_rows():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trade_off, "KNOWN_CELLS", 288)
        patch.setattr(trade_off, "MIN_KNOWN", 2)
        return list(trade_off.rows(1, list(cells(1, 72))))


def test_a_wider_interval_decides_less_and_contains_the_truth_more_often(rows):
    for known in ("no", "yes"):
        among = [[float(cell) for cell in row[2:]] for row in rows if row[0] == known]
        assert len(among) == len(trade_off.SHARES)
        for narrow, wide in pairwise(among):
            assert wide[0] <= narrow[0]
            assert wide[-1] >= narrow[-1]


def test_a_known_model_decides_more(rows):
    unknown, known = (next(row for row in rows if row[:2] == [name, "96.0"]) for name in ("no", "yes"))
    assert float(known[2]) > float(unknown[2])
