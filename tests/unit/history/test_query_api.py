"""Answers of a query API: those of others are refused, limits mean to ask for less."""

from __future__ import annotations

import json
from math import isnan

import pytest

from spec_decode_exporter.history import query_api
from spec_decode_exporter.history.query_api import HistoryError, QueryApi, TooMuchError
from spec_decode_exporter.scrape.client import HttpResponse
from spec_decode_exporter.scrape.errors import PollError, StatusError


class Answer:
    """A client with one answer, or one error."""

    def __init__(self, answer):
        self._answer = answer

    async def get(self, address, *, max_body=None):
        if isinstance(self._answer, Exception):
            raise self._answer
        return HttpResponse(self._answer, "application/json", 0.0)

    async def close(self):
        """Close nothing."""


def api(answer, **options):
    return QueryApi("http://prometheus:9090/prefix/", Answer(answer), **options)


def data(value, **options):
    return api(json.dumps({"status": "success", "data": value}).encode(), **options)


@pytest.mark.parametrize(
    "answer",
    [b"<html>", b"[]", b'{"status": "error"}', b'{"status": "success"}'],
    ids=("a page", "a list", "an error", "without data"),
)
async def test_another_server_is_named_with_the_remedy(answer):
    with pytest.raises(
        HistoryError, match=r"http://prometheus:9090/prefix: .* Give the address of a Prometheus"
    ):
        await api(answer).time()


@pytest.mark.parametrize(
    "value",
    [
        {"resultType": "vector", "result": []},
        {"resultType": "matrix", "result": [{"metric": {"a": 1}, "values": []}]},
        {"resultType": "matrix", "result": [{"metric": {}, "values": [[1, "x"]]}]},
        {"resultType": "matrix", "result": [{"metric": {}}]},
        {"resultType": "matrix", "result": 1},
        [],
    ],
)
async def test_samples_in_another_format_are_refused(value):
    with pytest.raises(HistoryError, match=r"matrix|another format"):
        await data(value).samples("{}", 0.0, 60)


@pytest.mark.parametrize("value", [{}, [1], [{"a": 1}]])
async def test_series_in_another_format_are_refused(value):
    with pytest.raises(HistoryError, match="list of series has another format"):
        await data(value).series("{}", 0.0, 1.0)


async def test_too_many_series_are_refused(monkeypatch):
    monkeypatch.setattr(query_api, "MAX_SERIES", 1)
    with pytest.raises(TooMuchError, match="narrow them by --match"):
        await data([{"a": "1"}, {"a": "2"}]).series("{}", 0.0, 1.0)


async def test_an_answer_with_too_many_values_is_too_much():
    with pytest.raises(TooMuchError, match="cannot be read"):
        await data([1, 2, 3], max_values=3).samples("{}", 0.0, 60)


@pytest.mark.parametrize(
    "error",
    [
        StatusError(422),
        StatusError(503),
        StatusError(400),
        PollError("timeout", "no whole answer"),
        PollError("too_large", "too many bytes"),
    ],
)
async def test_a_refusal_of_samples_means_to_ask_for_less(error):
    with pytest.raises(TooMuchError):
        await api(error).samples("{}", 0.0, 60)


async def test_a_long_query_is_refused_before_it_is_sent():
    with pytest.raises(HistoryError, match="shorten --match"):
        await api(b"").series("x" * query_api.MAX_QUERY, 0.0, 1.0)


async def test_names_are_texts():
    assert await data(["up"]).metric_names(0.0, 1.0) == ["up"]
    for names in (["up", 1], {}):
        with pytest.raises(HistoryError, match="list of names has another format"):
            await data(names).metric_names(0.0, 1.0)


def matrix(*series):
    return {"resultType": "matrix", "result": [{"metric": {}, "values": list(each)} for each in series]}


@pytest.mark.parametrize("text", ["NaN", "+Inf", "-Inf", "1e999", "1e101", "9" * 330])
async def test_a_number_that_nothing_can_count_is_nan(text):
    ((series,), number) = await data(matrix([[1, text], [2, "7"]])).samples("{}", 60.0, 60), 7.0
    assert isnan(series.values[0])
    assert series.values[1] == number


@pytest.mark.parametrize("time", [-1, 253_402_300_800, 1e300, "1", None, True])
async def test_a_time_that_no_date_can_have_is_refused(time):
    with pytest.raises(HistoryError, match="matrix of samples has another format"):
        await data(matrix([[time, "1"]])).samples("{}", 60.0, 60)


async def test_samples_outside_of_the_time_asked_for_are_left_out():
    series = matrix([[time, "1"] for time in (98.9, 99.0, 160.0, 161.0, 161.1)])
    (found,) = await data(series).samples("{}", 160.0, 60)
    assert found.times == [99.0, 160.0, 161.0]
    (found,) = await data(series).values_every("{}", 100.0, 160.0, 60)
    assert found.times == [99.0, 160.0, 161.0]


async def test_a_number_of_thousands_of_digits_is_refused():
    with pytest.raises(HistoryError, match="length <= 400"):
        await data(matrix([[1, "9" * 401]])).samples("{}", 60.0, 60)


async def test_too_many_series_of_samples_are_too_much(monkeypatch):
    monkeypatch.setattr(query_api, "MAX_SERIES", 1)
    with pytest.raises(TooMuchError, match="more than 1 series"):
        await data(matrix([[1, "1"]], [[1, "1"]])).samples("{}", 60.0, 60)
