"""Saved snapshots of the API and observations, as far as ``recommend`` and ``plan`` read them."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import ConfigDict, Field, field_validator

from spec_decode_exporter.analysis.verdict import State, Verdict
from spec_decode_exporter.core.numbers import Amount, TooManyValuesError, decode
from spec_decode_exporter.views.document import Estimated, View
from spec_decode_exporter.views.engine_view import CostView, CountsView, SettingView, UsedTokensView
from spec_decode_exporter.views.fleet_view import TargetView

MAX_BYTES: Final = 16 * 2**20
"""Maximum size of a document, in bytes."""
_MAX_VALUES: Final = 500_000
"""Maximum number of its JSON values."""


class Saved(View):
    """A part of a document; other fields are ignored."""

    model_config = ConfigDict(extra="ignore")


class SavedSpeedup(Estimated):
    """Speed-up by speculation; one in a million is a fault of the file."""

    value: Annotated[float, Field(ge=1e-6, le=1e6)] | None


class SavedWindow(Saved):
    """Window of an engine."""

    counts: CountsView
    generation_tokens_per_second: Amount | None
    estimated_speedup_ratio: SavedSpeedup

    @field_validator("counts")
    @classmethod
    def _possible(cls, counts: CountsView) -> CountsView:
        numbers = dict(counts)
        if any(
            number is not None and number < 0
            for number in (*numbers.pop("position_accepted_tokens"), *numbers.values())
        ):
            raise ValueError("a counter never decreases")
        return counts


class SavedCost(CostView):
    """Cost of drafting of an engine."""

    draft_cost_ratio: Amount
    fixed_cost_ratio: Amount


class SavedFinding(Saved):
    """Finding about an engine."""

    name: str
    text: str


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
    cost: SavedCost | None
    setting: SettingView
    used_tokens: tuple[UsedTokensView, ...] = ()
    findings: tuple[SavedFinding, ...] = ()
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
        TooManyValuesError: It has too many values.
        ValueError: It is neither.
    """
    try:
        return SavedSnapshot.model_validate(decode(content, _MAX_VALUES))
    except TooManyValuesError:
        raise
    except ValueError:
        return SavedSnapshot.model_validate(decode(content.strip().rsplit(b"\n", 1)[-1], _MAX_VALUES))
