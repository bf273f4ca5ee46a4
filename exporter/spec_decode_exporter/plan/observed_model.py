"""Read the output of ``observe --format json`` for a plan of the same models."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pydantic import Field

from spec_decode_exporter.costs.cost import CostSource
from spec_decode_exporter.plan.model_config import ModelError
from spec_decode_exporter.reports.saved_snapshot import SavedSnapshot, SavedWindow, read_observation
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
    coverage: float = Field(exclude=True)
    """Share of steps with a draft, above 0."""
    cost: CostView | None = Field(exclude=True)
    """Cost of drafting; None if it was unknown or the method's typical cost."""

    def reached(self, number: int) -> Sequence[float]:
        """Return p_i of ``number`` positions, extrapolated beyond the last one by its mean decay."""
        known, before = self.positions[:number], sum(self.positions[:-1])
        decay = sum(self.positions[1:]) / before if before else self.positions[0]
        return [*known, *(known[-1] * min(decay, 1.0) ** more for more in range(1, number - len(known) + 1))]


def read(path: Path) -> ObservedModel:
    """Read an observation; of several reports, one a line, the last.

    Raises:
        SavedFileError: The file cannot be read, or is no observation.
        ModelError: It is not of exactly one model that drafts.
    """
    return measured(read_observation(path))


def measured(observation: SavedSnapshot) -> ObservedModel:
    """Return the merged engines of an observation.

    Raises:
        ModelError: No engine drafted, or models or numbers of draft tokens differ.
    """
    engines = [engine for engine in observation.engines if engine.windows and _tokens(engine.windows[-1])]
    kinds = {(engine.model_name, engine.method, _tokens(engine.windows[-1])) for engine in engines}
    if len(kinds) != 1:
        reason = "it is of several models, methods or K" if kinds else "nothing was drafted in it"
        raise ModelError(f"--measured: {reason}; observe servers of one model while they speculate")
    ((name, method, tokens),) = kinds
    windows = [engine.windows[-1] for engine in engines]
    counts = [window.counts for window in windows]
    drafts, drafted, steps = (
        sum(getattr(count, key) or 0 for count in counts)
        for key in ("drafts", "draft_tokens", "decode_steps")
    )
    rates = [window.generation_tokens_per_second or 0.0 for window in windows]
    columns = zip(*(count.position_accepted_tokens for count in counts), strict=True)
    accepted = [sum(column) for column in columns]
    costs = [engine.cost for engine in engines]
    is_known = all(cost and cost.source is not CostSource.TYPICAL for cost in costs)
    return ObservedModel(
        model_name=name,
        method=method,
        engines=len(engines),
        draft_tokens=tokens,
        draft_length_tokens=drafted / drafts,
        draft_acceptance_ratio=sum(accepted) / drafted if drafted else 0.0,
        generation_tokens_per_second=sum(rates) / len(rates),
        positions=tuple(min(count / drafts, 1.0) for count in accepted),
        coverage=min(drafts / steps, 1.0) if steps else 1.0,
        cost=costs[0] if is_known else None,
    )


def _tokens(window: SavedWindow) -> int:
    """Return K; 0 if nothing was drafted."""
    return len(window.counts.position_accepted_tokens) if window.counts.drafts else 0
