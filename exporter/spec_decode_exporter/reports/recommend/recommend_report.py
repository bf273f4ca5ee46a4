"""Reports of recommended settings: for people, for vLLM's command line, and JSON."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Sequence
from typing import Final

from spec_decode_exporter.analysis.verdict import State
from spec_decode_exporter.reports.band_table import band_table
from spec_decode_exporter.reports.escape import cells, escaped, wrapped
from spec_decode_exporter.reports.exit_status import ExitStatus
from spec_decode_exporter.reports.parts import FigureTable
from spec_decode_exporter.reports.saved_snapshot import SavedEngine
from spec_decode_exporter.views.setting_view import SettingView

_PROSE: Final = 100
"""Columns of a line of prose."""
_DELETE: Final = "\x7f"
"""The only control character that ``json.dumps`` does not escape."""

FORMATS: Final = ("text", "json", "vllm")
"""Values of ``--format``."""


def written(engines: Sequence[SavedEngine], form: str) -> str:
    """Return the settings of engines in a format, with a final newline."""
    if form == "json":
        return _json(engines)
    if not engines:
        return "# No engine.\n"
    write = _text if form == "text" else _commented
    return "\n".join("".join(f"{line}\n" for line in write(engine)) for engine in engines)


def recommendation_status(engines: Sequence[SavedEngine]) -> ExitStatus:
    """Return GOOD if the setting of every engine that speculates is known, else UNKNOWN."""
    speculating = [engine for engine in engines if engine.state is not State.DISABLED]
    known = speculating and all(engine.setting.tokens is not None for engine in speculating)
    return ExitStatus.GOOD if known else ExitStatus.UNKNOWN


def _json(engines: Sequence[SavedEngine]) -> str:
    fields = ("id", "target", "model_name", "engine", "method", "draft_model", "configured_tokens", "verdict")
    settings = [
        {
            **{field: getattr(engine, field) for field in fields},
            "setting": engine.setting.model_dump(mode="json"),
        }
        for engine in engines
    ]
    return json.dumps({"engines": settings}, indent=2).replace(_DELETE, "\\u007f") + "\n"


def _name(engine: SavedEngine) -> str:
    return escaped(f"{engine.target}, {engine.model_name}, engine {engine.engine}")


def _text(engine: SavedEngine) -> Iterator[str]:
    """Yield the lines for people: what to set, the flag, the speed by load, and what to measure."""
    setting = engine.setting
    yield _name(engine)
    yield from _indented(engine.verdict_text)
    yield from _indented(setting.text)
    if setting.tokens is not None:
        yield ""
        yield from (f"  {line}" for line in _lines(engine))
    if setting.bands:
        yield ""
        yield from _table(band_table(setting.bands))
    for note in _notes(setting):
        yield ""
        yield from _indented(note)


def _commented(engine: SavedEngine) -> Iterator[str]:
    """Yield vLLM's flag; everything else is a comment."""
    for text in filter(None, (_name(engine), engine.setting.text, *_notes(engine.setting))):
        yield from (f"# {line}" for line in wrapped(text, _PROSE))
    if engine.setting.tokens is not None:
        yield from _lines(engine)


def _lines(engine: SavedEngine) -> Iterator[str]:
    """Yield vLLM's flag; the keys to change as a comment if its method or draft model is unknown."""
    setting = engine.setting
    if not setting.tokens:
        yield "# Start vLLM without --speculative-config."
    elif setting.complete:
        yield "# If your present setting has other keys, keep them."
        yield f"--speculative-config {shlex.quote(setting.speculative_config)}"
    else:
        yield "# Method or draft model is unknown. Change these keys of --speculative-config:"
        yield f"# {setting.speculative_config}"


def _notes(setting: SettingView) -> Iterator[str]:
    yield from (f"Warning: {each.text}" for each in setting.obstacles)
    if setting.measure:
        yield setting.measure


def _indented(text: str) -> Iterator[str]:
    return (f"  {line}" for line in wrapped(escaped(text), _PROSE))


def _table(table: FigureTable) -> Iterator[str]:
    rows = (table.columns, *table.rows)
    widths = [max(map(cells, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  " + "  ".join(
            " " * (width - cells(cell)) + cell for cell, width in zip(row, widths, strict=True)
        )
