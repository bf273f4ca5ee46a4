"""Read the output of ``observe --format json`` for a plan of the same models."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from pydantic import Field

from spec_decode_exporter.core.files import read_bounded
from spec_decode_exporter.core.numbers import TooManyValuesError
from spec_decode_exporter.costs.cost import CostSource
from spec_decode_exporter.reports.plan.model_sizes import ModelError
from spec_decode_exporter.reports.saved_snapshot import (
    MAX_BYTES,
    SavedEngine,
    SavedSnapshot,
    SavedWindow,
    parsed,
)
from spec_decode_exporter.views.document import View, at
from spec_decode_exporter.views.engine_view import CostView


class ObservedModel(View):
    """Merged measurements of the engines that serve a model."""

    model_name: str
    method: str = at("Empty if unknown.")
    engines: int
    draft_tokens: int = at("Maximum in a draft.")
    draft_length_tokens: float
    draft_acceptance_ratio: float
    generation_tokens_per_second: float = at("Mean of one engine.")
    positions: tuple[float, ...] = Field(exclude=True)
    """p_i, the share of drafts whose first i+1 tokens were accepted."""
    decay: float = Field(exclude=True)
    """Decay of p_i from position to position, as ``analysis.depth`` defines it."""
    coverage: float = Field(exclude=True)
    """Share of steps with a draft, above 0."""
    cost: CostView | None = Field(exclude=True)
    """Cost of drafting; None if it was unknown or the method's typical cost."""
    speedup: float | None = Field(exclude=True)
    """Speed-up by that cost; None without a cost."""
    speedup_bounds: tuple[float, float] | None = Field(exclude=True)
    """95 % bounds; None if unknown, and for several engines."""

    def reached(self, number: int) -> Sequence[float]:
        """Return p_i of ``number`` positions, extrapolated beyond the last one by the decay."""
        known, decay = self.positions[:number], min(max(self.decay, 0.0), 1.0)
        return [*known, *(known[-1] * decay**more for more in range(1, number - len(known) + 1))]


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
    engines = [its for its in observation.engines if its.windows and _drafted(its.windows[-1])]
    windows = [its.windows[-1] for its in engines]
    counts = [window.counts for window in windows]
    kinds = {(its.model_name, its.method, _drafted(its.windows[-1])) for its in engines}
    if len(kinds) != 1:
        reason = "nothing was drafted in it" if not kinds else "it is of several models, methods or K"
        raise ModelError(f"{reason}; observe servers of one model while they speculate")
    ((name, method, tokens),) = kinds
    drafts, drafted, steps = (
        _total(getattr(each, key) for each in counts) for key in ("drafts", "draft_tokens", "decode_steps")
    )
    accepted = [
        sum(column) for column in zip(*(each.position_accepted_tokens for each in counts), strict=True)
    ]
    before = sum(accepted[:-1])
    rates = [window.generation_tokens_per_second or 0.0 for window in windows]
    cost, only = _cost(engines), windows[0].estimated_speedup_ratio
    bounds = None
    if cost is not None and len(windows) == 1 and only.lower is not None and only.upper is not None:
        bounds = only.lower, only.upper
    return ObservedModel(
        model_name=name,
        method=method,
        engines=len(engines),
        draft_tokens=tokens,
        draft_length_tokens=drafted / drafts,
        draft_acceptance_ratio=sum(accepted) / drafted if drafted else 0.0,
        generation_tokens_per_second=sum(rates) / len(rates),
        positions=tuple(min(count / drafts, 1.0) for count in accepted),
        decay=accepted[0] / drafts if tokens == 1 else sum(accepted[1:]) / before if before else 0.0,
        coverage=min(drafts / steps, 1.0) if steps else 1.0,
        cost=cost,
        speedup=None if cost is None else _speedup(windows, rates),
        speedup_bounds=bounds,
    )


def _drafted(window: SavedWindow) -> int:
    """Return K; 0 if nothing was drafted."""
    return len(window.counts.position_accepted_tokens) if window.counts.drafts else 0


def _total(counts: Iterable[int | None]) -> int:
    return sum(count or 0 for count in counts)


def _cost(engines: Sequence[SavedEngine]) -> CostView | None:
    """Return the cost of the first engine, if it is measured or configured for all."""
    others = {
        CostSource.TYPICAL,
    }
    known = [engine.cost for engine in engines if engine.cost and engine.cost.source not in others]
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
