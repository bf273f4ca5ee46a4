"""Answers of a query API: those of others are refused, limits mean to ask for less; and selectors of the known series."""

import json
import re
from math import isnan
from unittest.mock import create_autospec

import pytest

from spec_decode_exporter.history import query_api
from spec_decode_exporter.history.history_targets import HistoryTarget, every_engine
from spec_decode_exporter.history.query_api import HistoryError, QueryApi, Selector, TooMuchError
from spec_decode_exporter.scrape.client import Client, HttpResponse
from spec_decode_exporter.scrape.engines import ENGINES, MEANINGS, PLAIN_NAMES, PROCESS_START, EngineMark
from spec_decode_exporter.scrape.errors import PollError, StatusError


def api(answer):
    """Return the API of a server with one answer, or one error."""
    client = create_autospec(Client, instance=True)
    client.get.side_effect = answer if isinstance(answer, Exception) else None
    client.get.return_value = HttpResponse(answer, "application/json", 0.0)
    return QueryApi("http://prometheus:9090/prefix/", client)


def data(value):
    return api(json.dumps({"status": "success", "data": value}).encode())


@pytest.mark.parametrize(
    "answer",
    [b"<html>", b"[]", b'{"status": "error"}', b'{"status": "success"}'],
    ids=("a page", "a list", "an error", "without data"),
)
async def test_another_server_is_named_with_the_remedy(answer):
    with pytest.raises(
        HistoryError, match=r"http://prometheus:9090/prefix: .* Give the address of a Prometheus"
    ):
        await api(answer).metric_names(0.0, 1.0)


REFUSED = (
    b'{"status": "error", "errorType": "execution", "error": "query processing would load too many samples"}'
)


async def test_an_error_with_status_200_is_shown_and_asks_for_less():
    text = r"prefix: it answers with an error: query processing would( |\\n)load too many samples$"
    with pytest.raises(TooMuchError, match=text):
        await api(REFUSED).samples(Selector("x"), 60.0, 60)
    with pytest.raises(HistoryError, match=text):
        await api(REFUSED.replace(b"would load", b"would\\nload")).metric_names(0.0, 1.0)


def matrix(*series):
    return {"resultType": "matrix", "result": [{"metric": {}, "values": list(each)} for each in series]}


ASKED = {
    "samples": (Selector("x"), 60.0, 60),
    "series": (Selector("x"), 0.0, 1.0),
    "metric_names": (0.0, 1.0),
}
MATRIX = "matrix of samples has another format"
OF_NO_DATE = [-1, 253_402_300_800, 1e300, "1", None, True]


@pytest.mark.parametrize(
    ("kind", "value", "reason"),
    [
        ("samples", {"resultType": "vector", "result": []}, "matrix"),
        ("samples", {"resultType": "matrix", "result": [{"metric": {"a": 1}, "values": []}]}, MATRIX),
        ("samples", {"resultType": "matrix", "result": [{"metric": {}}]}, MATRIX),
        ("samples", {"resultType": "matrix", "result": 1}, MATRIX),
        ("samples", matrix([[1, "x"]]), "a value that is no number"),
        ("samples", [], "another format"),
        ("samples", matrix([[1, "9" * 401]]), "length <= 400"),
        *(("samples", matrix([[time, "1"]]), MATRIX) for time in OF_NO_DATE),
        *(("series", value, "list of series has another format") for value in ({}, [1], [{"a": 1}])),
        *(("metric_names", value, "list of names has another format") for value in (["up", 1], {})),
    ],
)
async def test_an_answer_in_another_format_is_refused(kind, value, reason):
    with pytest.raises(HistoryError, match=reason):
        await getattr(data(value), kind)(*ASKED[kind])


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
        await api(error).samples(Selector("x"), 0.0, 60)


async def test_a_long_query_is_refused_before_it_is_sent():
    with pytest.raises(HistoryError, match="shorten --match"):
        await api(b"").series("x" * query_api.MAX_QUERY, 0.0, 1.0)


@pytest.mark.parametrize("text", ["NaN", "+Inf", "-Inf", "1e999", "1e101", "9" * 330])
async def test_a_number_that_nothing_can_count_is_nan(text):
    (series,) = await data(matrix([[1, text], [2, "7"]])).samples(Selector("x"), 60.0, 60)
    assert isnan(series.values[0])
    assert series.values[1] == 7.0


async def test_samples_outside_of_the_time_asked_for_are_left_out():
    series = matrix([[time, "1"] for time in (98.9, 99.0, 160.0, 161.0, 161.1)])
    (found,) = await data(series).samples(Selector("x"), 160.0, 60)
    assert found.times == [99.0, 160.0, 161.0]
    (found,) = await data(series).values_every(Selector("x"), 20, 161.0, 61)
    assert found.times == [99.0, 160.0, 161.0]


# Selectors


def test_every_counter_and_gauge_that_the_scraper_knows_is_selected_and_no_histogram():
    selector = every_engine("")
    names = re.compile(selector.names)
    unread = {name for name, meaning in MEANINGS.items() if meaning.quantity is EngineMark.KV_CACHE}
    plain = PLAIN_NAMES - {PROCESS_START.encode()} - unread
    assert [
        name for name in MEANINGS.keys() | plain if bool(names.fullmatch(name.decode())) != (name in plain)
    ] == []
    assert len(str(selector)) < 4000, "a proxy accepts no longer one"


def test_an_exact_selector_has_each_name_that_matches_whole():
    selector = Selector("(a|b):x|y", 'job="vllm"')
    assert str(selector) == '{__name__=~"(a|b):x|y",job="vllm"}'
    assert selector.exactly(["a:x", "b:x", "ab:x", "y", "yy"]) == [
        '{__name__="a:x",job="vllm"}',
        '{__name__="b:x",job="vllm"}',
        '{__name__="y",job="vllm"}',
    ]


def test_a_label_value_cannot_leave_its_quotes():
    selector = str(HistoryTarget(ENGINES[0], "vllm:", {"pod": 'a"}\n\\'}, frozenset()).selector())
    assert selector.endswith(',pod="a\\"}\\n\\\\"}')
