"""Batch schedules: limits, validation as a whole, and look-up."""

import pytest

from spec_decode_exporter.config.batch_schedule import (
    MAX_BATCH,
    MAX_POSITIONS,
    MAX_RANGES,
    BatchSchedule,
    batch_schedule,
)


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ({"1": 4}, "is not a list"),
        ([[1, 1, 1]] * (MAX_RANGES + 1), f"at most {MAX_RANGES} "),
        ([[1, 16]], "whole numbers"),
        ([[1, 16, False]], "whole numbers"),
        ([["1", 16, 4]], "whole numbers"),
        ([[0, 16, 4]], "within 1 and"),
        ([[16, 1, 4]], "within 1 and"),
        ([[1, MAX_BATCH + 1, 4]], "within 1 and"),
        ([[1, 16, -1]], "number of tokens"),
        ([[1, 16, MAX_POSITIONS + 1]], "number of tokens"),
        ([[1, 16, 4], [16, 20, 2]], "overlap"),
        ([[1, MAX_BATCH, 4], [5, 6, 0]], "overlap"),
    ],
    ids=range(12),
)
def test_an_invalid_schedule_is_rejected_as_a_whole(value, says):
    with pytest.raises(ValueError, match=says) as caught:
        batch_schedule(value)
    assert len(str(caught.value)) < 150


def test_a_schedule_at_the_limits_is_read_whatever_the_order_of_its_ranges():
    width = MAX_BATCH // MAX_RANGES
    ranges = [[1 + place * width, (place + 1) * width, MAX_POSITIONS] for place in range(MAX_RANGES)]
    assert batch_schedule(ranges).at(MAX_BATCH) == MAX_POSITIONS
    schedule = batch_schedule([[17, 64, 0], [1, 16, 4]])
    assert schedule == BatchSchedule((1, 17), (4, 0))
    assert [schedule.at(running) for running in (0.9, 1, 16.9, 17, 65)] == [None, 4, 4, 0, 0]
    assert schedule.pauses
    assert not batch_schedule([[1, 16, 4]]).pauses
