"""Parsers of client requests: queries and headers, after aiohttp's own parser."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from urllib.parse import parse_qsl

from aiohttp import hdrs
from aiohttp.base_protocol import BaseProtocol
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.http_parser import HttpRequestParser
from multidict import MultiDict

from spec_decode_exporter.metrics.negotiation import Format, choose_format, choose_gzip
from spec_decode_exporter.web.api import ENDPOINTS
from spec_decode_exporter.web.endpoint import RequestError, read
from spec_decode_exporter.web.query import PageQuery
from spec_decode_exporter.web.security import _credentials
from tests.robustness.fuzz.harness import Harness, sane

_HEADERS = (hdrs.ACCEPT, hdrs.ACCEPT_ENCODING, hdrs.AUTHORIZATION)
_LOOP = asyncio.new_event_loop()


def _received(target: bytes, headers: bytes = b""):
    """Return the request from aiohttp's parser; None if it rejects the request."""
    parser = HttpRequestParser(BaseProtocol(_LOOP), _LOOP, 2**16)
    try:
        messages, _, _ = parser.feed_data(b"GET %b HTTP/1.1\r\nHost: a\r\n%b\r\n" % (target, headers))
    except (HttpProcessingError, ValueError):
        return None
    return messages[0][0] if messages else None


def check_query(data: bytes) -> None:
    """Check the query of each path."""
    request = _received(b"/?" + data.replace(b" ", b"+"))
    if request is None:
        return
    try:
        query = request.url.query
    except ValueError:
        return
    _check_page(query)
    for endpoint in ENDPOINTS:
        try:
            read(endpoint.parameters, query)
        except RequestError as error:
            sane(error, 2**17)


def _check_page(query: Mapping[str, str]) -> None:
    asked = PageQuery.read(query)
    assert len(asked.text) <= 200
    assert len(asked.opened) <= 8
    for shown in (asked, asked.toggled("a"), asked.filtered("b")):
        again = MultiDict(parse_qsl(shown.href.removeprefix("./").removeprefix("?"), keep_blank_values=True))
        assert PageQuery.read(again).href == shown.href or len(shown.opened) > 8
    asked.matches([("target", "a"), ("model_name", "ß")])


def check_headers(data: bytes) -> None:
    """Check the headers, with a line of the data as value of each."""
    values = zip(_HEADERS, data.split(b"\n"), strict=False)
    request = _received(b"/", b"".join(b"%b: %b\r\n" % (name.encode(), value) for name, value in values))
    if request is None:
        return
    accept, encoding, authorization = (request.headers.get(name, "") for name in _HEADERS)
    assert choose_format(accept) in Format
    assert choose_gzip(encoding) in (True, False)
    given = _credentials(authorization)
    assert given is None or ":" not in given[0]
    if given is not None:
        given[0].encode("utf-8", "surrogateescape")


QUERY = Harness(
    check_query,
    (
        "q=", "engine=", "&", "%00", "%ed%a0%80", "+", "target=", "model=", "match=zone%3Deu", "verdict=", "window=5m",
        "group_by=model_name", "step=5s", "type=", "engine_id=", "since=19af3c1d2e0-17", "limit=", "model_name=",
    ),
)  # fmt: skip
HEADERS = Harness(
    check_headers,
    (
        "text/plain;version=0.0.4", "application/openmetrics-text", ";q=0.5", "*/*", "gzip", "identity", "Basic YTpi",
        "basic ", ", ", "\n", "=", '"', "1.0.0", "escaping=underscores",
    ),
)  # fmt: skip
