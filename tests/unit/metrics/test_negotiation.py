from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.metrics import negotiation as module
from spec_decode_exporter.metrics.negotiation import MAX_CHARACTERS, Format, choose_format, choose_gzip

TEXT, TEXT_1, OPENMETRICS = Format.TEXT_0_0_4, Format.TEXT_1_0_0, Format.OPENMETRICS_1_0_0

# What real clients send.
CLIENTS = {
    "prometheus 2.42": (
        "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
        OPENMETRICS,
    ),
    "prometheus 2.53": (
        "application/openmetrics-text;version=1.0.0;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
        OPENMETRICS,
    ),
    "prometheus 3.5": (
        "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
        OPENMETRICS,
    ),
    "prometheus 3.5 with native histograms": (
        "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;q=0.6,application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.3,text/plain;version=0.0.4;q=0.2,*/*;q=0.1",
        OPENMETRICS,
    ),
    "prometheus with scrape_protocols: [PrometheusText1.0.0, PrometheusText0.0.4]": (
        "text/plain;version=1.0.0;escaping=allow-utf-8;q=0.3,text/plain;version=0.0.4;q=0.2,*/*;q=0.1",
        TEXT_1,
    ),
    "prometheus with scrape_protocols: [PrometheusText0.0.4, OpenMetricsText1.0.0]": (
        "text/plain;version=0.0.4;q=0.3,application/openmetrics-text;version=1.0.0;q=0.2,*/*;q=0.1",
        TEXT,
    ),
    "an old prometheus that knows OpenMetrics 0.0.1 only": (
        "application/openmetrics-text; version=0.0.1,text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
        TEXT,
    ),
    "victoriametrics": ("text/plain;version=0.0.4;q=1,*/*;q=0.1", TEXT),
    "opentelemetry collector": (
        "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=1.0.0;q=0.3,text/plain;version=0.0.4;q=0.2,*/*;q=0.1",
        OPENMETRICS,
    ),
    "datadog": ("application/openmetrics-text; version=1.0.0; charset=utf-8, text/plain", OPENMETRICS),
    "datadog's old check": ("text/plain", TEXT),
    "telegraf": (
        "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;q=0.7,text/plain;version=0.0.4;q=0.3",
        TEXT,
    ),
    "curl": ("*/*", TEXT),
    "firefox": ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", TEXT),
    "chrome": (
        "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,image/apng,*/*;q=0.8,application/signed-exchange;v=b3;q=0.7",
        TEXT,
    ),
    "no header": ("", TEXT),
}


@pytest.mark.parametrize(("accept", "expected"), CLIENTS.values(), ids=CLIENTS)
def test_each_known_client_gets_its_preferred_format(accept, expected):
    assert choose_format(accept) is expected


RULES = [
    # Quality decides before the order and before what we like.
    ("text/plain;version=0.0.4;q=0.9,application/openmetrics-text;version=1.0.0;q=0.8", TEXT),
    ("application/openmetrics-text;version=1.0.0;q=0.1,text/plain;q=0.2", TEXT),
    # Equal quality: the more capable one, wherever it stands.
    ("text/plain;version=0.0.4,application/openmetrics-text;version=1.0.0", OPENMETRICS),
    ("text/plain;version=0.0.4;q=0.5,text/plain;version=1.0.0;q=0.5", TEXT_1),
    # What is named goes before what a wildcard only allows.
    ("text/plain,*/*", TEXT),
    ("application/openmetrics-text,*/*", OPENMETRICS),
    ("text/*", TEXT),
    ("application/*", OPENMETRICS),
    # The most specific range decides, even if a wilder one is liked more.
    ("*/*,application/openmetrics-text;q=0.1,text/plain;q=0.5", TEXT),
    ("text/plain;q=0.9,text/plain;version=0.0.4;q=0.1,application/openmetrics-text;q=0.5", TEXT_1),
    # Quality 0 excludes.
    ("application/openmetrics-text;version=1.0.0;q=0,text/plain;q=0.1", TEXT),
    ("text/plain;q=0,*/*", OPENMETRICS),
    ("text/plain;version=0.0.4;q=0,text/plain;q=0.5", TEXT_1),
    ("application/openmetrics-text;q=0,*/*;q=0.1", TEXT),
    ("text/plain;q=0.000,application/openmetrics-text;q=0.001", OPENMETRICS),
    # A client that accepts none of the formats gets the oldest.
    ("*/*;q=0", TEXT),
    ("application/json", TEXT),
    ("application/openmetrics-text;version=2.0.0", TEXT),
    ("application/openmetrics-text;version=0.0.1", TEXT),
    # Letters' case, spaces, quotes and unknown parameters make no difference.
    ('  APPLICATION/OpenMetrics-Text ; Version="1.0.0" ; charset=utf-8 ; Q=0.5 ', OPENMETRICS),
    ("application/openmetrics-text;version=1.0.0;escaping=values", OPENMETRICS),
    # A quality that cannot be read takes its range out, not the header.
    ("application/openmetrics-text;q=high,text/plain;version=1.0.0;q=0.1", TEXT_1),
    ("application/openmetrics-text;q=-1", TEXT),
    ("application/openmetrics-text;q=nan", TEXT),
    ("application/openmetrics-text;q=\u0661", TEXT),
    ("application/openmetrics-text;version=abc", TEXT),
    (",,;;,=;q=1,/", TEXT),
]


@pytest.mark.parametrize(("accept", "expected"), RULES)
def test_an_accept_header_is_read_as_rfc_9110_says(accept, expected):
    assert choose_format(accept) is expected


def header_like():
    pieces = {piece for accept, _ in RULES for piece in re.split(r"([;,= ])", accept)}
    return st.lists(st.sampled_from(sorted(pieces))).map("".join)


@given(st.one_of(st.text(), header_like()))
def test_no_header_makes_the_choice_fail(header):
    assert choose_format(header) in Format
    assert choose_gzip(header) in {True, False}


@given(
    st.permutations(["text/plain;q=0.4", "application/openmetrics-text;q=0.6", "*/*;q=0.1", "text/*;q=0.5"])
)
def test_the_order_of_the_ranges_makes_no_difference(ranges):
    assert choose_format(",".join(ranges)) is OPENMETRICS


@pytest.mark.parametrize("format_", Format)
def test_a_content_type_names_its_version_and_from_1_0_on_its_escaping(format_):
    version = format_.name[-5:].replace("_", ".")
    assert f"version={version};" in format_.content_type
    assert format_.content_type.endswith("; escaping=underscores") == (version >= "1.0.0")


ENCODINGS = [
    ("gzip", True),
    ("gzip, deflate, br, zstd", True),
    ("deflate, gzip;q=1.0, *;q=0.5", True),
    ("*", True),
    ("gzip;q=0.5", True),
    ("gzip;q=0.5, identity;q=0.5", True),
    ("GZIP", True),
    ("", False),
    ("identity", False),
    ("br", False),
    ("gzip;q=0", False),
    ("gzip;q=0.0, *", False),
    ("*;q=0", False),
    ("gzip;q=0.5, identity", False),
    ("gzip;q=lots", False),
    ("xgzip", False),
]


@pytest.mark.parametrize(("accept_encoding", "expected"), ENCODINGS)
def test_gzip_is_chosen_only_if_the_client_prefers_it(accept_encoding, expected):
    assert choose_gzip(accept_encoding) is expected


@pytest.mark.parametrize("element", [",", ";", "a/b,", "text/plain;q=0.1,", "a;b=c", '"'])
def test_a_header_is_read_up_to_a_limit(element, monkeypatch):
    read = []
    real = module._parse
    monkeypatch.setattr(module, "_parse", lambda text: read.append(len(text)) or real(text))
    header = element * (500_000 // len(element))
    choose_format(header)
    choose_gzip(header)
    assert sum(read) + len(read) <= 2 * (MAX_CHARACTERS + 2)


def test_an_element_cut_by_the_limit_is_omitted():
    header = "gzip;q=1," + " " * (MAX_CHARACTERS - 20) + "," + "gzip;q=0.5"
    assert choose_gzip(header)
    assert not choose_gzip("identity," + " " * (MAX_CHARACTERS - 15) + ",gzip;q=0.999")
