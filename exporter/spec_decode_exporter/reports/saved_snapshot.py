"""Saved snapshots of the API and observations, as far as ``recommend`` and ``plan`` read them."""

from __future__ import annotations

from pydantic import ConfigDict, ValidationError

from spec_decode_exporter.analysis.verdict import State, Verdict
from spec_decode_exporter.views.document import Estimated, View
from spec_decode_exporter.views.engine_view import CostView
from spec_decode_exporter.views.fleet_view import TargetView
from spec_decode_exporter.views.setting_view import SettingView
from spec_decode_exporter.views.window_view import CountsView


class Saved(View):
    """A part of a document; other fields are ignored."""

    model_config = ConfigDict(extra="ignore")


class SavedWindow(Saved):
    """Window of an engine."""

    counts: CountsView
    generation_tokens_per_second: float | None
    estimated_speedup_ratio: Estimated


class SavedEngine(Saved):
    """Engine of a target."""

    id: str
    target: str
    model_name: str
    engine: str
    state: State
    verdict: Verdict
    verdict_text: str
    method: str
    draft_model: str
    configured_tokens: int | None
    cost: CostView | None
    setting: SettingView
    windows: tuple[SavedWindow, ...]


class SavedSnapshot(Saved):
    """Engines of a snapshot or an observation."""

    engines: tuple[SavedEngine, ...]
    targets: tuple[TargetView, ...] = ()
    """Targets of an observation."""
    seconds: float | None = None
    """Length of an observation; None for a snapshot."""


def parsed(content: bytes) -> SavedSnapshot:
    """Parse a snapshot or an observation; of several, one a line, the last.

    Raises:
        ValidationError: It is neither.
    """
    try:
        return SavedSnapshot.model_validate_json(content)
    except ValidationError:
        return SavedSnapshot.model_validate_json(content.strip().rsplit(b"\n", 1)[-1])
