"""Choose format and encoding of the page from the Accept headers of a client.

The rules are RFC 9110's: the most specific range that matches a format decides its quality, and quality 0
excludes it. A client that accepts none of the formats gets the oldest, as Prometheus demands of targets. The
response repeats nothing of the request; it has one of the content types below.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple


class Format(IntEnum):
    """Formats of the page; of two with equal quality, the greater is the more capable."""

    TEXT_0_0_4 = 0
    TEXT_1_0_0 = 1
    OPENMETRICS_1_0_0 = 2

    @property
    def content_type(self) -> str:
        """The value of the Content-Type header."""
        return _OFFERS[self].content_type

    @property
    def is_open(self) -> bool:
        """True for OpenMetrics. The versions of the text format have the same bytes."""
        return self is Format.OPENMETRICS_1_0_0


@dataclass(frozen=True, slots=True)
class _AcceptedType:
    media_type: str
    version: str
    content_type: str
    other_names: frozenset[str]
    """Ranges without a version that name this version, instead of only allowing it."""


# The names are equal in every escaping scheme; the formats of version 1.0.0 must name one.
_OFFERS: Final = {
    Format.TEXT_0_0_4: _AcceptedType(
        "text/plain",
        "0.0.4",
        "text/plain; version=0.0.4; charset=utf-8",
        frozenset({"text/plain", "text/*", "*/*"}),
    ),
    Format.TEXT_1_0_0: _AcceptedType(
        "text/plain", "1.0.0", "text/plain; version=1.0.0; charset=utf-8; escaping=underscores", frozenset()
    ),
    Format.OPENMETRICS_1_0_0: _AcceptedType(
        "application/openmetrics-text",
        "1.0.0",
        "application/openmetrics-text; version=1.0.0; charset=utf-8; escaping=underscores",
        frozenset({"application/openmetrics-text", "application/*"}),
    ),
}

MAX_CHARACTERS: Final = 2_000
"""Maximum of characters read of a header, commas included; Prometheus sends about 400."""

_QUALITY: Final = re.compile(r"0?\.\d+|[01](\.\d*)?", re.ASCII)


class _Range(NamedTuple):
    """One element of an Accept header, such as ``text/plain;version=0.0.4;q=0.5``."""

    name: str
    version: str | None
    quality: float

    def specificity(self, offer: _AcceptedType) -> int:
        """Return the precision of the match: 3 version, 2 type, 1 ``type/*``, 0 ``*/*``, -1 no match."""
        if self.name == offer.media_type:
            return {None: 2, offer.version: 3}.get(self.version, -1)
        return {f"{offer.media_type.partition('/')[0]}/*": 1, "*/*": 0}.get(self.name, -1)

    def means(self, offer: _AcceptedType) -> bool:
        """Return whether the range names this version."""
        if self.version is None:
            return self.name in offer.other_names
        return (self.name, self.version) == (offer.media_type, offer.version)


def choose_format(accept: str) -> Format:
    """Return the format of the response; any text is a valid argument."""
    ranges = [parsed for element in _elements(accept) if (parsed := _parse(element))]
    ranked = [(*_preference(ranges, offer), format_) for format_, offer in _OFFERS.items()]
    quality, _, best = max(ranked)
    return best if quality > 0 else Format.TEXT_0_0_4


def choose_gzip(accept_encoding: str) -> bool:
    """Return whether to compress: gzip is accepted, with at least the quality of the plain page."""
    qualities: dict[str, float] = {}
    for parsed in map(_parse, _elements(accept_encoding)):
        if parsed:
            qualities[parsed.name] = max(parsed.quality, qualities.get(parsed.name, 0.0))
    gzip = qualities.get("gzip", qualities.get("*", 0.0))
    return gzip > 0 and gzip >= qualities.get("identity", 0.0)


def _elements(header: str) -> list[str]:
    """Return the elements of a header within the maximum of characters."""
    if len(header) <= MAX_CHARACTERS:
        return header.split(",")
    return header[: MAX_CHARACTERS + 1].split(",")[:-1]


def _preference(ranges: list[_Range], offer: _AcceptedType) -> tuple[float, bool]:
    """Return the quality of an offer, and whether the client names it; larger is better."""
    matches = [
        (specificity, range_.quality, range_.means(offer))
        for range_ in ranges
        if (specificity := range_.specificity(offer)) >= 0
    ]
    _, quality, meant = max(matches, default=(-1, 0.0, False))
    return quality, meant


def _parse(element: str) -> _Range | None:
    """Parse one element; None if it is empty or its quality is invalid."""
    name, *parameters = (part.strip().lower() for part in element.split(";"))
    values = {
        key.strip(): value.strip().strip('"') for key, _, value in (p.partition("=") for p in parameters)
    }
    quality = values.get("q", "1")
    if not name or not _QUALITY.fullmatch(quality):
        return None
    return _Range(name, values.get("version"), min(1.0, float(quality)))
