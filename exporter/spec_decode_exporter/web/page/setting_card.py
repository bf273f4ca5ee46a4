"""Recommended setting of an engine: vLLM's flag to copy, the speed by load, and what to measure."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from spec_decode_exporter.core.number_formats import number_range
from spec_decode_exporter.views.setting_view import LoadBandView, SettingView
from spec_decode_exporter.web.page.markup import Markup, joined, scrollable, sentences, tag
from spec_decode_exporter.web.page.page_numbers import NOTHING, number, times

_HEADS = ("Running requests", "Draft tokens now", "Speed now", "Verdict", "Recommended", "Speed")


def setting_content(setting: SettingView, advice: str = "") -> Markup | None:
    """Return the content of the card; None if there is nothing to set and nothing to measure.

    ``advice`` is the sentence that the page shows above the card; the card does not repeat it.
    """
    if setting.tokens is None and not setting.measure:
        return None
    return joined(_parts(setting, advice))


def _parts(setting: SettingView, advice: str) -> Iterator[Markup]:
    if setting.text != advice:
        yield tag("p", sentences(setting.text))
    if setting.speculative_config:
        yield _flag(setting)
    if setting.bands:
        yield _table(setting.bands)
    for obstacle in setting.obstacles:
        warning = joined((tag("strong", "Warning: "), sentences(obstacle.text)))
        yield tag("p", warning, class_="note", data_key=str(obstacle.name))
    if setting.measure:
        yield tag("p", sentences(setting.measure), class_="note")


def _flag(setting: SettingView) -> Markup:
    """Return the flag with a button that copies it; the keys alone if method or draft model is unknown."""
    text = setting.speculative_config
    if setting.complete:
        text = f"--speculative-config {shlex.quote(text)}"
    copied = tag(
        "div",
        tag("code", text),
        tag("button", "Copy", type="button", class_="copy chip"),
        class_="setting",
        data_key="setting-flag",
    )
    note = "If the present setting has other keys, keep them."
    if not setting.complete:
        note = "Method or draft model is unknown: change these keys of --speculative-config, keep the others."
    return joined((tag("p", note, class_="note"), copied))


def _table(bands: tuple[LoadBandView, ...]) -> Markup:
    head = tag("thead", tag("tr", *(tag("th", each, scope="col", class_="number") for each in _HEADS)))
    return scrollable(tag("table", head, tag("tbody", *map(_row, bands)), class_="bands"), "Speed by load")


def _row(band: LoadBandView) -> Markup:
    loads = number_range(band.first, band.last)
    cells = (
        str(band.present_tokens),
        number(band.present_speedup_ratio, times),
        NOTHING if band.verdict is None else str(band.verdict),
        str(band.tokens),
        number(band.speedup_ratio, times),
    )
    row = (tag("td", each, class_="number") for each in cells)
    return tag("tr", tag("th", loads, scope="row", class_="number"), *row, data_key=f"band-{band.first}")
