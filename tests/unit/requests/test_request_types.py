"""Times of requests by type, for comparisons of arms at equal traffic."""

import pytest

from spec_decode_exporter.experiments.pace import TypeTimes
from spec_decode_exporter.requests.cells import CELL_SECONDS
from spec_decode_exporter.requests.findings import GroupKey
from spec_decode_exporter.requests.record import RequestRecord
from spec_decode_exporter.requests.request_types import MAX_CELLS, RequestTypes


def add(types, now, *, seconds=2.0, tokens=101, target="a", **key):
    """Add a request of 100 tokens after the first."""
    record = RequestRecord("m", 10, 30, 5, 3, target=target, completion_tokens=tokens, decode_seconds=seconds)
    types.add(GroupKey(**{"model_name": "m", "request_type": "chat", "temperature": "0", **key}), record, now)


def times_of(*moments, **request):
    """Return types of work after requests at these moments."""
    types = RequestTypes()
    for now in moments:
        add(types, now, **request)
    return types


def test_times_are_summed_in_the_cells_of_the_interval():
    types = times_of(10.0, 70.0, 71.0, 100.0, 400.0)
    assert types.times("m", "a", 15.0, 105.0) == {"chat 0": TypeTimes(6.0, 300.0)}
    assert types.times("m", "a", 500.0, 600.0) == types.times("m", "b", 0.0, 60.0) == {}


@pytest.mark.parametrize("unknown", [{"target": ""}, {"tokens": 1}, {"seconds": None}, {"model_name": "b"}])
def test_requests_of_unknown_times_or_of_another_model_have_no_time(unknown):
    assert times_of(10.0, **unknown).times("m", "a", 0.0, 60.0) == {}


@pytest.mark.parametrize("other", [{"target": "b"}, {"request_type": "code"}])
def test_a_type_without_requests_for_an_hour_is_released(other):
    types = times_of(10.0)
    assert types.times("m", "a", 0.0, 60.0)
    add(types, 7300.0, **other)
    assert types.times("m", "a", 0.0, 60.0) == {}
    assert types.times("m", other.get("target", "a"), 7200.0, 7400.0)


def test_at_most_an_hour_is_kept():
    types = times_of(*(cell * CELL_SECONDS for cell in range(2 * MAX_CELLS)))
    end = 2 * MAX_CELLS * CELL_SECONDS
    assert types.times("m", "a", end - 7200, end) == {}
    (times,) = types.times("m", "a", end - 3600 + CELL_SECONDS, end).values()
    assert times.tokens == pytest.approx(100 * MAX_CELLS, rel=0.01)
