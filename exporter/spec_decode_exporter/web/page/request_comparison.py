"""Table of requests with and without speculation: time to first token and prefix cache."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from spec_decode_exporter.views.engine_view import BaselineView
from spec_decode_exporter.views.window_view import WindowView
from spec_decode_exporter.web.page.markup import Markup, joined, name, tag
from spec_decode_exporter.web.page.page_numbers import Format, duration, number, percent

_HEADS: Final = ("Mean request", "With", "Without")


def request_comparison(window: WindowView, baseline: BaselineView) -> Markup:
    """Return the table of an engine beside its baseline, and the source of the baseline."""
    heads = (tag("th", head, scope="col", class_=None if head == _HEADS[0] else "number") for head in _HEADS)
    rows = (_row(*row) for row in _rows(window, baseline))
    table = tag("table", tag("thead", tag("tr", *heads)), tag("tbody", *rows), class_="figures-table")
    return joined((table, tag("p", "Compared with ", name(baseline.name), ".", class_="note")))


def _rows(
    window: WindowView, baseline: BaselineView
) -> Iterator[tuple[str, float | None, float | None, Format]]:
    """Yield name, value with and without speculation, and format of each row."""
    first_token = window.time_to_first_token_seconds
    yield "Time to first token", first_token, baseline.time_to_first_token_seconds, duration
    yield "Prefix cache hits", window.prefix_cache_hit_ratio, baseline.prefix_cache_hit_ratio, percent


def _row(title: str, with_it: float | None, without: float | None, write: Format) -> Markup:
    cells = (tag("td", number(value, write), class_="number") for value in (with_it, without))
    return tag("tr", tag("th", title, scope="row"), *cells)
