from __future__ import annotations

import pytest

from spec_decode_exporter.experiments.pace import TypeTimes
from spec_decode_exporter.requests.request_findings import GroupKey
from spec_decode_exporter.requests.request_record import RequestRecord
from spec_decode_exporter.requests.request_types import CELL_SECONDS, MAX_CELLS, RequestTypes


def timed(
    types, now, seconds=2.0, tokens=101, target="a", request_type="chat", temperature="0", model_name="m"
):
    """Add a request of 100 tokens after the first."""
    record = RequestRecord(
        model_name,
        10,
        30,
        5,
        3,
        request_type,
        target=target,
        completion_tokens=tokens,
        decode_seconds=seconds,
    )
    types.add(GroupKey(model_name, request_type, temperature), record, now)


def test_each_type_at_a_temperature_has_its_own_times():
    types = RequestTypes()
    for fields in ({}, {"temperature": "0.7-1"}, {"request_type": "code"}, {"model_name": "other"}):
        timed(types, 10.0, **fields)
    assert {name: each.tokens for name, each in types.times("m", "a", 0.0, 60.0).items()} == {
        "chat 0": 100.0,
        "chat 0.7-1": 100.0,
        "code 0": 100.0,
    }


def test_times_are_summed_in_the_cells_of_the_interval():
    types = RequestTypes()
    for now in (10.0, 70.0, 71.0, 100.0, 400.0):
        timed(types, now)
    assert types.times("m", "a", 15.0, 105.0) == {"chat 0": TypeTimes(6.0, 300.0)}


def test_types_without_requests_in_the_interval_are_absent():
    types = RequestTypes()
    timed(types, 10.0)
    assert types.times("m", "a", 300.0, 600.0) == {}
    assert types.times("m", "b", 0.0, 60.0) == {}


def test_requests_without_a_target_a_time_or_a_second_token_have_no_time():
    types = RequestTypes()
    timed(types, 10.0, target="")
    timed(types, 10.0, tokens=1)
    timed(types, 10.0, seconds=None)
    assert types.times("m", "a", 0.0, 60.0) == {}


def test_at_most_an_hour_is_kept():
    types = RequestTypes()
    for cell in range(2 * MAX_CELLS):
        timed(types, cell * CELL_SECONDS)
    end = 2 * MAX_CELLS * CELL_SECONDS
    assert types.times("m", "a", end - 7200, end) == {}
    (times,) = types.times("m", "a", end - 3600 + CELL_SECONDS, end).values()
    assert times.tokens == pytest.approx(100 * MAX_CELLS, rel=0.01)
    assert sum(map(len, (each._cells for each in types._times["m", "a"].values()))) == MAX_CELLS
