"""Recommended settings, as text, as vLLM's flag, or as JSON."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from typing import Final

from spec_decode_exporter.analysis.verdict import State
from spec_decode_exporter.reports.exit_status import ExitStatus
from spec_decode_exporter.reports.saved_snapshot import SavedEngine
from spec_decode_exporter.reports.text import TextStyle, json_text, render

FORMATS: Final = ("text", "json", "vllm")
"""Values of ``--format``."""
_WAYS: Final = "To know it"
"""Begin of the sentence with the ways to find out."""


def written(engines: Sequence[SavedEngine], form: str, style: TextStyle) -> str:
    """Return the settings of engines in a format, with a final newline. ``vllm`` has texts as comments."""
    if form == "json":
        left_out = {"state", "verdict_text"}
        return json_text({"engines": [each.model_dump(mode="json", exclude=left_out) for each in engines]})
    template = "recommendation.md.jinja" if form == "text" else "recommended_flag.txt"
    texts = [text for each in engines for text in (each.setting.measure, each.setting.text) if _WAYS in text]
    ways = list[str]()
    said: Callable[[str], str] = str
    if len(engines) > 1 and texts:
        ways, said = texts[0].partition(_WAYS)[2].partition(": ")[2].split("; or "), _without_ways
    alike: dict[tuple[str, str], list[SavedEngine]] = {}
    for engine in engines:
        key = _without_ways(engine.setting.text), engine.setting.speculative_config
        alike.setdefault(key, []).append(engine)
    names = {"quote": shlex.quote, "said": said, "first": _first_sentence, "alike": alike.values()}
    return render(template, style, engines=engines, ways=ways, **names)


def _first_sentence(text: str) -> str:
    """Return the begin of a text: of several engines the whole would be too long to read."""
    return text.partition(". ")[0].removesuffix(".")


def _without_ways(text: str) -> str:
    """Return a text up to the ways to find out: several engines have them in common, so they stand once."""
    return text.partition(_WAYS)[0].strip()


def recommendation_status(engines: Sequence[SavedEngine]) -> ExitStatus:
    """Return GOOD if the setting of every engine that speculates is known, else UNKNOWN."""
    speculating = [engine for engine in engines if engine.state is not State.DISABLED]
    known = speculating and all(engine.setting.tokens is not None for engine in speculating)
    return ExitStatus.GOOD if known else ExitStatus.UNKNOWN
