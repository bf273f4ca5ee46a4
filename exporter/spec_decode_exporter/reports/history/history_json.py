"""JSON of a history."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from spec_decode_exporter.core.version import __version__
from spec_decode_exporter.history.history_changes import changes, drops
from spec_decode_exporter.history.history_result import EngineHistoryResult, HistoryResult
from spec_decode_exporter.history.history_summary import (
    SlotSummary,
    band_name,
    best_tokens,
    by_hour,
    by_load,
    by_tokens,
    summary,
)
from spec_decode_exporter.history.slot_evaluation import SlotResult
from spec_decode_exporter.reports.history.setting_section import setting_model


def history_json(result: HistoryResult) -> str:
    """Return a history as ASCII JSON with a final newline."""
    every = [slot for engine in result.engines for slot in engine.slots]
    document = {
        "version": __version__,
        "source": result.source,
        "begin": result.begin,
        "end": result.end,
        "slot_seconds": result.slot_seconds,
        "incomplete": result.incomplete,
        "notes": list(result.notes),
        "fleet": _summaries(every),
        "engines": [_engine(engine) for engine in result.engines],
    }
    return json.dumps(document, indent=2).replace("\x7f", "\\u007f") + "\n"


def _engine(engine: EngineHistoryResult) -> dict[str, Any]:
    setting = setting_model(engine.setting)
    return {
        "target": engine.target,
        "labels": dict(engine.labels),
        "model_name": engine.model_name,
        "engine": engine.engine,
        "scrape_interval_seconds": engine.interval,
        "scrapes": engine.scrapes,
        **_summaries(engine.slots),
        "changes": [
            {**asdict(each), "name": each.name, "speedup_differs": each.speedup_differs}
            for each in changes(engine.slots)
        ],
        "drops": [{**asdict(each), "depth": each.depth} for each in drops(engine.events)],
        "baselines": [
            {"name": each.name, "seconds": each.seconds, "end": each.end} for each in engine.plain_periods
        ],
        "setting": None if setting is None else setting.model_dump(mode="json"),
        "slots": [_slot(slot) for slot in engine.slots],
    }


def _summaries(slots: Sequence[SlotResult]) -> dict[str, Any]:
    return {
        "summary": _summary(summary(slots)),
        "by_running_requests": {
            band_name(band): _with_best(members) for band, members in by_load(slots).items()
        },
        "by_hour_utc": {str(hour): _summary(summary(members)) for hour, members in by_hour(slots).items()},
        "by_draft_tokens": {str(each): _with_best(members) for each, members in by_tokens(slots).items()},
    }


def _with_best(slots: Sequence[SlotResult]) -> Mapping[str, Any]:
    best = best_tokens(slots)
    return {**_summary(summary(slots)), "best_tokens": None if best is None else asdict(best)}


def _summary(found: SlotSummary) -> dict[str, Any]:
    speedup = found.speedup
    saved = (
        None
        if speedup is None
        else dict(zip(("value", "lower", "upper"), speedup.saved_seconds, strict=True))
    )
    return {**asdict(found), "saved_decode_seconds": saved}


def _slot(slot: SlotResult) -> dict[str, Any]:
    estimates = {"speedup": slot.speedup, "acceptance_length": slot.acceptance_length}
    bounds = {name: None if its is None else its._asdict() for name, its in estimates.items()}
    return {**asdict(slot), **bounds}
