"""Recommended settings, as text, as vLLM's flag, or as JSON."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from spec_decode_exporter.analysis.measuring_schedule import NoMeasuring
from spec_decode_exporter.analysis.verdict import State
from spec_decode_exporter.core.number_formats import plural
from spec_decode_exporter.reports.exit_status import ExitStatus
from spec_decode_exporter.reports.saved_snapshot import SavedEngine
from spec_decode_exporter.reports.text import TextStyle, json_text, render
from spec_decode_exporter.views.measuring_view import MeasuringView, with_schedule

FORMATS: Final = ("text", "json", "vllm")
"""Values of ``--format``."""
BY_LOADS: Final = (None, NoMeasuring.NO_STEPS, NoMeasuring.CONSTANT_LOAD)
"""Results that the loads of other engines of the model may change."""
DONE: Final = frozenset({None, NoMeasuring.KNOWN, NoMeasuring.MEASURING})
"""Results that leave nothing to do but to restart, or to wait."""
_FIELDS: Final = {
    *("id", "target", "model_name", "engine", "method", "draft_model", "configured_tokens", "verdict"),
    *("setting", "warning", "used_tokens"),
}


def written(engines: Sequence[SavedEngine], form: str, style: TextStyle) -> str:
    """Return the settings of engines in a format, with a final newline. ``vllm`` has texts as comments."""
    if form == "json":
        return json_text({"engines": [each.model_dump(mode="json", include=_FIELDS) for each in engines]})
    template = "recommendation.md.jinja" if form == "text" else "recommended_flag.txt"
    return render(template, style, engines=engines, quote=shlex.quote)


class MeasuredTogether(NamedTuple):
    """Engines with the same model and setting, and the schedule that measures their cost."""

    engines: Sequence[SavedEngine]
    measuring: MeasuringView

    @property
    def name(self) -> str:
        """Names of the engines."""
        first = self.engines[0]
        if len(self.engines) == 1:
            return f"{first.target}, {first.model_name}, engine {first.engine}"
        targets = ", ".join(sorted({engine.target for engine in self.engines}))
        return f"{plural(len(self.engines), 'engine')} of {first.model_name}: {targets}"


def measured_together(engines: Iterable[SavedEngine]) -> list[MeasuredTogether]:
    """Return a schedule for each model and setting, by the loads of all its engines."""
    groups: dict[tuple[str, str, NoMeasuring | None, str], list[tuple[SavedEngine, MeasuringView]]] = {}
    for engine in engines:
        its = engine.measuring
        if its is not None and engine.state is not State.DISABLED:
            is_open = its.reason in BY_LOADS and its.present_config
            reason: NoMeasuring | None = None if is_open else its.reason or NoMeasuring.NO_TOKENS
            key = engine.model_name, its.present_config, reason, engine.id if reason else ""
            groups.setdefault(key, []).append((engine, its))
    found = []
    for group in groups.values():
        each, views = zip(*group, strict=True)
        highest = [engine.windows[-1].estimated_speedup_ratio.upper for engine in each if engine.windows]
        speedup = max((upper for upper in highest if upper is not None), default=None)
        found.append(MeasuredTogether(each, views[0] if len(views) == 1 else with_schedule(views, speedup)))
    return found


def written_measuring(engines: Sequence[SavedEngine], form: str, style: TextStyle) -> str:
    """Return the schedules that measure the cost of engines in a format, with a final newline."""
    together = measured_together(engines)
    if form == "json":
        groups = [
            {"engines": [engine.id for engine in each.engines], **each.measuring.model_dump(mode="json")}
            for each in together
        ]
        return json_text({"measuring": groups})
    template = "measuring.md.jinja" if form == "text" else "measuring_flag.txt"
    return render(template, style, together=together, quote=shlex.quote)


def measuring_status(engines: Sequence[SavedEngine]) -> ExitStatus:
    """Return GOOD if each engine that speculates has a schedule or needs none, else UNKNOWN."""
    reasons = [each.measuring.reason for each in measured_together(engines)]
    return ExitStatus.GOOD if reasons and DONE.issuperset(reasons) else ExitStatus.UNKNOWN


def recommendation_status(engines: Sequence[SavedEngine]) -> ExitStatus:
    """Return GOOD if the setting of every engine that speculates is known, else UNKNOWN."""
    speculating = [engine for engine in engines if engine.state is not State.DISABLED]
    known = speculating and all(engine.setting.tokens is not None for engine in speculating)
    return ExitStatus.GOOD if known else ExitStatus.UNKNOWN
