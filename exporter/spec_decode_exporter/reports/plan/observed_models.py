"""Read the output of ``observe --format json`` for a plan of the same models."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from spec_decode_exporter.analysis.cost import CostSource
from spec_decode_exporter.core.files import read_bounded
from spec_decode_exporter.core.numbers import TooManyValuesError
from spec_decode_exporter.reports.plan.model_config import ModelError
from spec_decode_exporter.reports.plan.planned_depths import Drafts, continued
from spec_decode_exporter.reports.saved_snapshot import (
    MAX_BYTES,
    SavedEngine,
    SavedSnapshot,
    SavedWindow,
    parsed,
)
from spec_decode_exporter.views.engine_view import CostView


@dataclass(frozen=True, slots=True)
class ObservedModel:
    """Merged measurements of the engines that serve a model."""

    model_name: str
    method: str
    engines: int
    tokens: int
    """K, the number of draft tokens."""
    drafts: Drafts
    acceptance: float
    """Acceptance rate of the draft tokens."""
    draft_length: float
    """Mean number of tokens of a draft: below K if some are shorter."""
    tokens_per_second: float
    """Mean rate of generated tokens of one engine."""
    cost: CostView | None
    """Cost of drafting; None if it was unknown or the method's typical cost."""
    speedup: float | None = None
    """Speed-up by that cost; None without a cost."""
    lower: float | None = None
    upper: float | None = None
    """95 % bounds of the speed-up; None if unknown, and for several engines."""


def read(path: Path) -> ObservedModel:
    """Read an observation; of several reports, one a line, the last.

    Raises:
        ModelError: The file is no observation of exactly one model that drafts.
    """
    try:
        return measured(_observation(read_bounded(path, MAX_BYTES)))
    except OSError as error:
        raise ModelError(f"{path} cannot be read: {error.strerror or error}") from None
    except TooManyValuesError as error:
        raise ModelError(f"{path} cannot be read: {error}") from None
    except ModelError as error:
        raise ModelError(f"{path}: {error}") from None


def measured(observation: SavedSnapshot) -> ObservedModel:
    """Return the merged engines of an observation.

    Raises:
        ModelError: No engine drafted, or models or numbers of draft tokens differ.
    """
    drafting = [
        (engine, window)
        for engine in observation.engines
        for window in engine.windows[-1:]
        if window.counts.drafts and window.counts.position_accepted_tokens
    ]
    kinds = {
        (engine.model_name, engine.method, len(window.counts.position_accepted_tokens))
        for engine, window in drafting
    }
    if len(kinds) != 1:
        reason = "nothing was drafted in it" if not kinds else "it is of several models, methods or K"
        raise ModelError(f"{reason}; observe servers of one model while they speculate")
    ((name, method, tokens),) = kinds
    return _merged(drafting, name, method, tokens)


def _merged(
    drafting: Sequence[tuple[SavedEngine, SavedWindow]], name: str, method: str, tokens: int
) -> ObservedModel:
    windows = [window for _, window in drafting]
    drafts = _total(window.counts.drafts for window in windows)
    accepted = [sum(window.counts.position_accepted_tokens[at] for window in windows) for at in range(tokens)]
    drafted = _total(window.counts.draft_tokens for window in windows)
    steps = _total(window.counts.decode_steps for window in windows)
    rates = [window.generation_tokens_per_second or 0.0 for window in windows]
    cost, speedup = _cost([engine for engine, _ in drafting]), _speedup(windows, rates)
    only = windows[0].estimated_speedup_ratio if len(windows) == 1 and cost is not None else None
    return ObservedModel(
        model_name=name,
        method=method,
        engines=len(drafting),
        tokens=tokens,
        drafts=continued(
            [min(count / drafts, 1.0) for count in accepted],
            _decay(accepted, drafts),
            min(drafts / steps, 1.0) if steps else 1.0,
        ),
        acceptance=sum(accepted) / drafted if drafted else 0.0,
        draft_length=drafted / drafts,
        tokens_per_second=sum(rates) / len(drafting),
        cost=cost,
        speedup=speedup if cost is not None else None,
        lower=only.lower if only else None,
        upper=only.upper if only else None,
    )


def _total(counts: Iterable[int | None]) -> int:
    return sum(count or 0 for count in counts)


def _decay(accepted: Sequence[int], drafts: int) -> float:
    """Return the decay of the acceptance from position to position, as ``analysis.depth`` defines it."""
    before = sum(accepted[:-1])
    return accepted[0] / drafts if len(accepted) == 1 else (sum(accepted[1:]) / before if before else 0.0)


def _cost(engines: Sequence[SavedEngine]) -> CostView | None:
    """Return the cost of the first engine, if it is measured or configured for all."""
    known = [engine.cost for engine in engines if engine.cost and engine.cost.source != CostSource.TYPICAL]
    return known[0] if len(known) == len(engines) else None


def _speedup(windows: Sequence[SavedWindow], rates: Sequence[float]) -> float | None:
    """Return the speed-up of all engines: generated tokens over those expected without speculation."""
    ratios = [window.estimated_speedup_ratio.value for window in windows]
    plain = [rate / ratio for rate, ratio in zip(rates, ratios, strict=True) if ratio]
    without = sum(plain)
    return sum(rates) / without if len(plain) == len(windows) and without else None


def _observation(content: bytes) -> SavedSnapshot:
    """Parse an observation; a snapshot of the API, which has no length, is none."""
    try:
        found = parsed(content)
    except TooManyValuesError:
        raise
    except ValueError:
        found = None
    if found is None or found.seconds is None:
        raise ModelError(
            "it is nothing that spec-decode-exporter observe --format json of this version wrote"
        )
    return found
