"""Choice of the format and of gzip by what a client accepts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.metrics.negotiation import MAX_CHARACTERS, Format, choose_format, choose_gzip
from tests.every import every

TEXT, TEXT_1, OPENMETRICS = Format.TEXT_0_0_4, Format.TEXT_1_0_0, Format.OPENMETRICS_1_0_0

PROTOBUF = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited"
CLIENTS = [
    # Prometheus 3.5, and with native histograms
    (
        "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
        OPENMETRICS,
    ),
    (
        f"{PROTOBUF};q=0.6,application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.3,text/plain;version=0.0.4;q=0.2,*/*;q=0.1",
        OPENMETRICS,
    ),
    # Prometheus with scrape_protocols: [PrometheusText1.0.0, PrometheusText0.0.4]
    ("text/plain;version=1.0.0;escaping=allow-utf-8;q=0.3,text/plain;version=0.0.4;q=0.2,*/*;q=0.1", TEXT_1),
    # An old Prometheus that knows OpenMetrics 0.0.1 only
    ("application/openmetrics-text; version=0.0.1,text/plain;version=0.0.4;q=0.5,*/*;q=0.1", TEXT),
    # VictoriaMetrics, Telegraf, curl, Firefox, no header
    ("text/plain;version=0.0.4;q=1,*/*;q=0.1", TEXT),
    (f"{PROTOBUF};q=0.7,text/plain;version=0.0.4;q=0.3", TEXT),
    ("*/*", TEXT),
    ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", TEXT),
    ("", TEXT),
]
"""What real clients send."""
RULES = [
    # Quality decides before the order and before what we like.
    ("text/plain;version=0.0.4;q=0.9,application/openmetrics-text;version=1.0.0;q=0.8", TEXT),
    # Equal quality: the more capable one, wherever it stands.
    ("text/plain;version=0.0.4,application/openmetrics-text;version=1.0.0", OPENMETRICS),
    # What is named goes before what a wildcard only allows.
    ("text/plain,*/*", TEXT),
    # The most specific range decides, even if a wilder one is liked more.
    ("*/*,application/openmetrics-text;q=0.1,text/plain;q=0.5", TEXT),
    ("text/plain;q=0.9,text/plain;version=0.0.4;q=0.1,application/openmetrics-text;q=0.5", TEXT_1),
    # Quality 0 excludes.
    ("application/openmetrics-text;version=1.0.0;q=0,text/plain;q=0.1", TEXT),
    ("text/plain;q=0,*/*", OPENMETRICS),
    # A client that accepts none of the formats gets the oldest.
    ("application/json", TEXT),
    ("application/openmetrics-text;version=2.0.0", TEXT),
    # Letters' case, spaces, quotes and unknown parameters make no difference.
    ('  APPLICATION/OpenMetrics-Text ; Version="1.0.0" ; charset=utf-8 ; Q=0.5 ', OPENMETRICS),
    # A quality that cannot be read takes its range out, not the header.
    ("application/openmetrics-text;q=high,text/plain;version=1.0.0;q=0.1", TEXT_1),
    ("application/openmetrics-text;q=\u0661", TEXT),
    (",,;;,=;q=1,/", TEXT),
]


@every([*CLIENTS, *RULES])
def test_an_accept_header_is_read_as_rfc_9110_says(case):
    accept, expected = case
    assert choose_format(accept) is expected


@given(
    st.permutations(["text/plain;q=0.4", "application/openmetrics-text;q=0.6", "*/*;q=0.1", "text/*;q=0.5"])
)
def test_the_order_of_the_ranges_makes_no_difference(ranges):
    assert choose_format(",".join(ranges)) is OPENMETRICS


@every(Format)
def test_a_content_type_names_its_version_and_from_1_0_on_its_escaping(format_):
    version = format_.name[-5:].replace("_", ".")
    assert f"version={version};" in format_.content_type
    assert format_.content_type.endswith("; escaping=underscores") == (version >= "1.0.0")


@pytest.mark.parametrize(
    ("accept_encoding", "expected"),
    [
        ("gzip", True),
        ("*", True),
        ("gzip;q=0.5, identity;q=0.5", True),
        ("", False),
        ("identity", False),
        ("gzip;q=0", False),
        ("gzip;q=0.5, identity", False),
        ("gzip;q=lots", False),
        # Characters beyond the limit, and an element that it cuts, are omitted.
        ("gzip;q=1," + " " * (MAX_CHARACTERS - 20) + "," + "gzip;q=0.5", True),
        ("identity," + " " * (MAX_CHARACTERS - 15) + ",gzip;q=0.999", False),
        ("," * MAX_CHARACTERS + "gzip", False),
    ],
    ids=lambda value: str(value)[:30],
)
def test_gzip_is_chosen_only_if_the_client_prefers_it(accept_encoding, expected):
    assert choose_gzip(accept_encoding) is expected
