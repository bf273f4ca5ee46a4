"""Which of the models and engines of a reference are those that are measured now."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from spec_decode_exporter.analysis.comparison.comparison import Comparison, Outcome, compare
from spec_decode_exporter.reports.reference.reference_document import (
    MeasuredEngine,
    MeasuredModel,
    ReferenceDocument,
)

Either = TypeVar("Either", MeasuredModel, MeasuredEngine)


@dataclass(frozen=True, slots=True)
class EnginePair:
    """One engine, then and now."""

    before: MeasuredEngine
    after: MeasuredEngine
    comparison: Comparison


@dataclass(frozen=True, slots=True)
class ModelPair:
    """One model, then and now, over all its engines."""

    before: MeasuredModel
    after: MeasuredModel
    comparison: Comparison
    engines: tuple[EnginePair, ...]
    """Those that are there then and now; empty where the model has one alone."""


@dataclass(frozen=True, slots=True)
class Compared:
    """A reference, and what was held against it."""

    before: ReferenceDocument
    after: ReferenceDocument
    threshold: float
    models: tuple[ModelPair, ...]
    gone: tuple[MeasuredModel, ...]
    """Models of the reference that are not there now."""
    new: tuple[MeasuredModel, ...]
    """Models that the reference does not have."""

    @property
    def outcome(self) -> Outcome:
        """The worst that happened to a model or to one of its engines; of one that is gone nobody can say."""
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
    """Hold what was measured now against a reference, model by model and engine by engine.

    A model is known again by its name and its number of draft tokens, or by its name. If one is left over on
    either side, these are the same under another name, as a quantised model has.
    """
    pairs = _paired(
        before.models,
        after.models,
        (
            lambda model: (model.model_name, model.measurement.tokens),
            lambda model: model.model_name,
            _the_only,
        ),
    )
    return Compared(
        before,
        after,
        threshold,
        models=tuple(_model(one, two, before, after, threshold) for one, two in pairs),
        gone=_others(before.models, [one for one, _ in pairs]),
        new=_others(after.models, [two for _, two in pairs]),
    )


def _model(
    one: MeasuredModel,
    two: MeasuredModel,
    before: ReferenceDocument,
    after: ReferenceDocument,
    threshold: float,
) -> ModelPair:
    pairs = _paired(
        _engines_of(one, before),
        _engines_of(two, after),
        (lambda engine: (engine.target, engine.engine), _number),
    )
    several = one.engines > 1 or two.engines > 1
    engines = (
        EnginePair(then, now, compare(then.measurement, now.measurement, threshold)) for then, now in pairs
    )
    comparison = compare(one.measurement, two.measurement, threshold, engines=(one.engines, two.engines))
    return ModelPair(one, two, comparison, tuple(engines) if several else ())


def _engines_of(model: MeasuredModel, document: ReferenceDocument) -> list[MeasuredEngine]:
    return [
        engine
        for engine in document.engines
        if (engine.model_name, engine.measurement.tokens) == (model.model_name, model.measurement.tokens)
    ]


def _paired(
    before: Sequence[Either], after: Sequence[Either], keys: Sequence[Callable[[Either], Hashable]]
) -> list[tuple[Either, Either]]:
    """Pair what has the same key, and has it alone on either side; what is left by the next key."""
    pairs: list[tuple[Either, Either]] = []
    for key in keys:
        left = _alone(before, [one for one, _ in pairs], key)
        right = _alone(after, [two for _, two in pairs], key)
        pairs += [(left[name], right[name]) for name in left if name in right]
    return pairs


def _alone(
    items: Sequence[Either], taken: Sequence[Either], key: Callable[[Either], Hashable]
) -> dict[Hashable, Either]:
    """Return by their keys the items that are not taken, and of which each has its key for itself."""
    left = _others(items, taken)
    keys = list(map(key, left))
    return {name: item for name, item in zip(keys, left, strict=True) if keys.count(name) == 1}


def _others(items: Sequence[Either], taken: Sequence[Either]) -> tuple[Either, ...]:
    return tuple(item for item in items if not any(item is one for one in taken))


def _the_only(_: MeasuredModel) -> Hashable:
    return None


def _number(engine: MeasuredEngine) -> Hashable:
    return engine.engine
