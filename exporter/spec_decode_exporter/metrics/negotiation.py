"""Which format and which encoding a client gets, from its Accept headers.

The rules are RFC 9110's: the most specific range that matches a format decides its quality, and quality 0
excludes it. A page is always sent: whoever accepts none of the formats gets the oldest, as Prometheus asks of
its targets. Nothing that a client sends is ever sent back; the content types below are all there are.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple


class Format(IntEnum):
    """The formats of the page; of two that a client likes equally, the greater is the more capable one."""

    TEXT_0_0_4 = 0
    TEXT_1_0_0 = 1
    OPENMETRICS_1_0_0 = 2

    @property
    def content_type(self) -> str:
        """The value of the Content-Type header."""
        return _OFFERS[self].content_type


@dataclass(frozen=True, slots=True)
class _Offer:
    media_type: str
    version: str
    content_type: str
    other_names: frozenset[str]
    """Ranges without a version that mean this version of the format, rather than merely allow it."""


# Our names are the same in every escaping scheme; the formats of version 1.0.0 must name one.
_OFFERS: Final = {
    Format.TEXT_0_0_4: _Offer(
        "text/plain",
        "0.0.4",
        "text/plain; version=0.0.4; charset=utf-8",
        frozenset({"text/plain", "text/*", "*/*"}),
    ),
    Format.TEXT_1_0_0: _Offer(
        "text/plain", "1.0.0", "text/plain; version=1.0.0; charset=utf-8; escaping=underscores", frozenset()
    ),
    Format.OPENMETRICS_1_0_0: _Offer(
        "application/openmetrics-text",
        "1.0.0",
        "application/openmetrics-text; version=1.0.0; charset=utf-8; escaping=underscores",
        frozenset({"application/openmetrics-text", "application/*"}),
    ),
}

MOST_CHARACTERS: Final = 2_000
"""Characters of a header that are read, the commas included; Prometheus sends about 400."""

_QUALITY: Final = re.compile(r"0?\.\d+|[01](\.\d*)?", re.ASCII)


class _Range(NamedTuple):
    """One element of an Accept header, such as ``text/plain;version=0.0.4;q=0.5``."""

    name: str
    version: str | None
    quality: float

    def specificity(self, offer: _Offer) -> int:
        """How exactly this range matches the offer: 3 its version, 2 its type, 1 ``type/*``, 0 ``*/*``."""
        if self.name == offer.media_type:
            return {None: 2, offer.version: 3}.get(self.version, -1)
        return {f"{offer.media_type.partition('/')[0]}/*": 1, "*/*": 0}.get(self.name, -1)

    def means(self, offer: _Offer) -> bool:
        """Whether the client speaks of this very version."""
        if self.version is None:
            return self.name in offer.other_names
        return (self.name, self.version) == (offer.media_type, offer.version)


def choose_format(accept: str) -> Format:
    """Return the format to answer with; any text at all is a valid argument."""
    ranges = [parsed for element in _elements(accept) if (parsed := _parse(element))]
    ranked = [(*_preference(ranges, offer), format_) for format_, offer in _OFFERS.items()]
    quality, _, best = max(ranked)
    return best if quality > 0 else Format.TEXT_0_0_4


def choose_gzip(accept_encoding: str) -> bool:
    """Return whether to compress: only if gzip is accepted, and liked no less than the plain page."""
    qualities: dict[str, float] = {}
    for parsed in map(_parse, _elements(accept_encoding)):
        if parsed:
            qualities[parsed.name] = max(parsed.quality, qualities.get(parsed.name, 0.0))
    gzip = qualities.get("gzip", qualities.get("*", 0.0))
    return gzip > 0 and gzip >= qualities.get("identity", 0.0)


def _elements(header: str) -> list[str]:
    """Return the elements of a header; those beyond the characters that are read are left out."""
    if len(header) <= MOST_CHARACTERS:
        return header.split(",")
    return header[: MOST_CHARACTERS + 1].split(",")[:-1]


def _preference(ranges: list[_Range], offer: _Offer) -> tuple[float, bool]:
    """Return the quality of an offer and whether the client means it; both are the larger, the better."""
    matches = [
        (specificity, range_.quality, range_.means(offer))
        for range_ in ranges
        if (specificity := range_.specificity(offer)) >= 0
    ]
    _, quality, meant = max(matches, default=(-1, 0.0, False))
    return quality, meant


def _parse(element: str) -> _Range | None:
    """Read one element; None for one that is empty or whose quality cannot be read."""
    name, *parameters = (part.strip().lower() for part in element.split(";"))
    values = {
        key.strip(): value.strip().strip('"') for key, _, value in (p.partition("=") for p in parameters)
    }
    quality = values.get("q", "1")
    if not name or not _QUALITY.fullmatch(quality):
        return None
    return _Range(name, values.get("version"), min(1.0, float(quality)))
