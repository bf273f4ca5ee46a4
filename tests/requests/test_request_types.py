from __future__ import annotations

import pytest

from spec_decode_exporter.drops.mix import TypeSums
from spec_decode_exporter.requests.request_findings import GroupKey
from spec_decode_exporter.requests.request_record import RequestRecord
from spec_decode_exporter.requests.request_types import CELL_SECONDS, MAX_CELLS, RequestTypes


def added(
    types, request_type, drafts, accepted, target="", temperature="0", model_name="m", now=0.0, **fields
):
    record = RequestRecord(model_name, drafts, 3 * drafts, accepted, 3, request_type, target=target, **fields)
    types.add(GroupKey(model_name, request_type, temperature), record, now)


def timed(types, now, seconds=2.0, tokens=101, **fields):
    """Add a chat of 100 tokens after the first."""
    added(types, "chat", 10, 5, now=now, completion_tokens=tokens, decode_seconds=seconds, **fields)


def test_requests_are_summed_by_type_and_temperature():
    types = RequestTypes()
    added(types, "chat", 10, 5)
    added(types, "chat", 20, 10)
    added(types, "chat", 10, 2, temperature="0.7-1")
    added(types, "code", 5, 15)
    assert types.totals("m", "any") == {
        "chat 0": TypeSums(30, 15),
        "chat 0.7-1": TypeSums(10, 2),
        "code 0": TypeSums(5, 15),
    }


def test_a_target_has_its_own_requests_if_the_sender_names_targets():
    types = RequestTypes()
    added(types, "chat", 10, 5, target="a")
    added(types, "code", 10, 9, target="b")
    assert types.totals("m", "a") == {"chat 0": TypeSums(10, 5)}
    assert types.totals("m", "c") == {}


def test_other_models_do_not_count():
    types = RequestTypes()
    added(types, "chat", 10, 5, model_name="other")
    assert types.totals("m", "") == {}


def test_times_are_summed_in_cells_of_the_interval():
    types = RequestTypes()
    for now in (10.0, 70.0, 71.0, 100.0, 400.0):
        timed(types, now, target="a")
    found = types.times("m", "a", 15.0, 105.0)
    assert list(found) == ["chat 0"]
    assert len(found["chat 0"].seconds) == len(found["chat 0"].tokens) == 90 / CELL_SECONDS
    assert [each for each in found["chat 0"].tokens if each] == [200.0, 100.0]
    assert [each for each in found["chat 0"].seconds if each] == [4.0, 2.0]


def test_types_without_requests_in_the_interval_are_absent():
    types = RequestTypes()
    timed(types, 10.0, target="a")
    assert types.times("m", "a", 300.0, 600.0) == {}
    assert types.times("m", "b", 0.0, 60.0) == {}


def test_requests_without_a_target_a_time_or_a_second_token_have_no_time():
    types = RequestTypes()
    timed(types, 10.0)
    timed(types, 10.0, target="a", tokens=1)
    timed(types, 10.0, target="a", seconds=None)
    assert types.times("m", "a", 0.0, 60.0) == {}
    assert types.totals("m", "a") == {"chat 0": TypeSums(20, 10)}


def test_at_most_an_hour_is_kept():
    types = RequestTypes()
    for cell in range(2 * MAX_CELLS):
        timed(types, cell * CELL_SECONDS, target="a")
    end = 2 * MAX_CELLS * CELL_SECONDS
    assert types.times("m", "a", end - 7200, end) == {}
    (times,) = types.times("m", "a", end - 3600 + CELL_SECONDS, end).values()
    assert sum(times.tokens) == pytest.approx(100 * MAX_CELLS, rel=0.01)
    assert sum(map(len, (each._cells for each in types._times["m", "a"].values()))) == MAX_CELLS
