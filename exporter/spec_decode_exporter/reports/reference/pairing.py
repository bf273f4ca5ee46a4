"""Match models and engines of a reference with those measured now."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from spec_decode_exporter.reports.reference.comparison import Comparison, Outcome
from spec_decode_exporter.reports.reference_document import (
    MeasuredEngine,
    MeasuredModel,
    ReferenceDocument,
)

Either = TypeVar("Either", MeasuredModel, MeasuredEngine)


@dataclass(frozen=True, slots=True)
class EnginePair:
    """One engine, before and after."""

    before: MeasuredEngine
    after: MeasuredEngine
    comparison: Comparison


@dataclass(frozen=True, slots=True)
class ModelPair:
    """One model, before and after, with all its engines."""

    before: MeasuredModel
    after: MeasuredModel
    comparison: Comparison
    engines: tuple[EnginePair, ...]
    """Engines that both sides have; empty if the model has one engine only."""


@dataclass(frozen=True, slots=True)
class Compared:
    """A reference, and the comparison with it."""

    before: ReferenceDocument
    after: ReferenceDocument
    threshold: float
    models: tuple[ModelPair, ...]
    gone: tuple[MeasuredModel, ...]
    """Models of the reference that were not measured now."""
    new: tuple[MeasuredModel, ...]
    """Models that the reference lacks."""

    @property
    def outcome(self) -> Outcome:
        """Worst outcome of a model or an engine; uncertain for a model that is gone."""
        models = [pair.comparison.outcome for pair in self.models]
        engines = [each.comparison.outcome for pair in self.models for each in pair.engines]
        if Outcome.FELL in (*models, *engines):
            return Outcome.FELL
        if self.gone:
            models.append(Outcome.UNCERTAIN)
        return next((outcome for outcome in _WORST_FIRST if outcome in models), Outcome.UNCERTAIN)


_WORST_FIRST = (
    Outcome.NOT_COMPARABLE,
    Outcome.UNCERTAIN,
    Outcome.LOWER,
    Outcome.SAME,
    Outcome.BETTER,
)


def compared(before: ReferenceDocument, after: ReferenceDocument, threshold: float) -> Compared:
    """Compare a measurement with a reference, model by model and engine by engine.

    Models match by name and number of draft tokens, then by name. If one model is left on each side, these
    two match: a quantized model has another name.
    """
    pairs = _paired(
        before.models,
        after.models,
        (
            lambda model: (model.model_name, model.measurement.tokens),
            lambda model: model.model_name,
            _any_name,
        ),
    )
    return Compared(
        before,
        after,
        threshold,
        models=tuple(_model(left, right, before, after, threshold) for left, right in pairs),
        gone=_others(before.models, [left for left, _ in pairs]),
        new=_others(after.models, [right for _, right in pairs]),
    )


def _model(
    old: MeasuredModel,
    new: MeasuredModel,
    before: ReferenceDocument,
    after: ReferenceDocument,
    threshold: float,
) -> ModelPair:
    pairs = _paired(
        _engines_of(old, before),
        _engines_of(new, after),
        (lambda engine: (engine.target, engine.engine), _number),
    )
    several = old.engines > 1 or new.engines > 1
    engines = (
        EnginePair(left, right, Comparison(left.measurement, right.measurement, threshold))
        for left, right in pairs
    )
    comparison = Comparison(old.measurement, new.measurement, threshold, (old.engines, new.engines))
    return ModelPair(old, new, comparison, tuple(engines) if several else ())


def _engines_of(model: MeasuredModel, document: ReferenceDocument) -> list[MeasuredEngine]:
    return [
        engine
        for engine in document.engines
        if (engine.model_name, engine.measurement.tokens) == (model.model_name, model.measurement.tokens)
    ]


def _paired(
    before: Sequence[Either], after: Sequence[Either], keys: Sequence[Callable[[Either], Hashable]]
) -> list[tuple[Either, Either]]:
    """Pair items whose key is the same and unique on both sides; pair the rest by the next key."""
    pairs: list[tuple[Either, Either]] = []
    for key in keys:
        unique_before = _unique(before, [left for left, _ in pairs], key)
        unique_after = _unique(after, [right for _, right in pairs], key)
        pairs += [(unique_before[name], unique_after[name]) for name in unique_before if name in unique_after]
    return pairs


def _unique(
    items: Sequence[Either], taken: Sequence[Either], key: Callable[[Either], Hashable]
) -> dict[Hashable, Either]:
    """Return the items with a unique key, without those ``taken``, by key."""
    left = _others(items, taken)
    keys = list(map(key, left))
    return {name: item for name, item in zip(keys, left, strict=True) if keys.count(name) == 1}


def _others(items: Sequence[Either], taken: Sequence[Either]) -> tuple[Either, ...]:
    return tuple(item for item in items if not any(item is other for other in taken))


def _any_name(_: MeasuredModel) -> Hashable:
    return None


def _number(engine: MeasuredEngine) -> Hashable:
    return engine.engine
