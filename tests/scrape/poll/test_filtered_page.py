from __future__ import annotations

from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import pytest

from spec_decode_exporter.core.cooperative_yield import finish
from spec_decode_exporter.scrape.page.layout_map import PageSeries
from spec_decode_exporter.scrape.page.sample_reader import SampleReader
from spec_decode_exporter.scrape.poll.filtered_page import PageChoice, wanted_names

PAGES = Path(__file__).parents[2] / "pages"
URL = "http://vllm:8000/metrics"


def shown(name: str, *, with_latencies=True) -> PageSeries:
    reader = SampleReader()
    finish(reader.read((PAGES / name).read_bytes(), with_latencies=with_latencies))
    return reader.shown


NGRAM = "vllm-0.32.0-python-ngram-k4.prom"


def without(whole: PageSeries, name: bytes) -> PageSeries:
    return PageSeries(whole.names - {name}, frozenset(one for one in whole.series if one.name != name))


def answer(whole: PageSeries, names: set[bytes]) -> PageSeries:
    """Return the series on a page with only the requested names."""
    return PageSeries(whole.names & names, frozenset(one for one in whole.series if one.name in names))


def asked(url: str) -> set[bytes]:
    return {value.encode() for name, value in parse_qsl(urlsplit(url).query) if name == "name[]"}


@pytest.fixture
def choice():
    """Return a choice that has read the whole page of a server."""
    choice = PageChoice(URL, enabled=True)
    choice.learn(shown(NGRAM), with_latencies=True)
    return choice


# The address.


# Which names are asked for.


def test_the_process_start_is_requested_only_without_creation_times():
    assert "process_start_time_seconds" not in wanted_names(shown(NGRAM).names, with_latencies=False)
    assert "process_start_time_seconds" in wanted_names(shown("vllm-0.10.2.prom").names, with_latencies=False)


# Which page is asked for.


def test_two_consecutive_failed_requests_refuse_the_filtered_page(choice):
    choice.doubt(with_latencies=False)
    assert choice.filtered(with_latencies=False)
    choice.doubt(with_latencies=False)
    assert choice.filtered(with_latencies=False) is None
    assert choice.filtered(with_latencies=True)
