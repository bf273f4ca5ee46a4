from __future__ import annotations

import pytest

from spec_decode_exporter.monitor.evaluation_pace import LONGEST, SHORTEST, evaluation_interval


@pytest.mark.parametrize(
    ("engines", "seconds"), [(0, SHORTEST), (1, SHORTEST), (250, 5.0), (500, 10.0), (1000, LONGEST)]
)
def test_the_engines_of_an_exporter_with_many_are_evaluated_less_often(engines, seconds):
    assert evaluation_interval(engines) == seconds


def test_no_engine_waits_for_longer_than_the_longest_interval():
    assert evaluation_interval(100_000) == LONGEST
