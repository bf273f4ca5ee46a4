"""Compare two measurements: differences with 95 % bounds, and traffic that makes the comparison unfair.

The measurements are independent, so the variance of a difference is the sum of both (``welch``). If only
bounds are known, as of a quantile, the distances to them take the place of t times the errors, each in its
own direction (Zou and Donner, *Construction of confidence limits about effect measures*, Statistics in
Medicine 27, 2008):

    lower = d - √((after - after's lower)² + (before's upper - before)²)        and upper the other way round
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from enum import StrEnum
from math import hypot
from typing import Annotated, Any, Final, NamedTuple, TypeVar

from pydantic import Field, PlainSerializer

from spec_decode_exporter.analysis.figure_table import COMPARED, Unit
from spec_decode_exporter.config.types import format_duration
from spec_decode_exporter.core.number_formats import percent, plain, plural, three_digits, within
from spec_decode_exporter.experiments.traffic import LOADS, TRAFFIC, Traffic, ratios
from spec_decode_exporter.figures.estimate import MIN_BOUND_REQUESTS
from spec_decode_exporter.figures.quantile import LATENCY_QUANTILES, Edges
from spec_decode_exporter.figures.student_t import welch
from spec_decode_exporter.reports.references import (
    Measured,
    MeasuredEngine,
    MeasuredFigure,
    MeasuredModel,
    ReferenceDocument,
)
from spec_decode_exporter.reports.text import TextStyle, json_text, render
from spec_decode_exporter.scrape.engines import Latency
from spec_decode_exporter.views.document import View, computed

DRAFT_TOKENS: Final = "draft_tokens"
"""Reason of the caution about another number of draft tokens; the others are parts of the traffic."""
_ABSENT: Final = "-"
Row = tuple[str, ...]
"""Cells of a row: name, value before and after, change with a star if it is significant, and bounds of it."""
Either = TypeVar("Either", MeasuredModel, MeasuredEngine)


class Outcome(StrEnum):
    """Change of the acceptance rate."""

    BETTER = "better"
    """It rose, statistically significant (95 %)."""
    SAME = "same"
    """Chance explains the difference, and it certainly fell by at most the threshold."""
    LOWER = "lower"
    """It fell, statistically significant (95 %), and certainly by at most the threshold."""
    FELL = "fell"
    """It certainly fell by more than the threshold."""
    UNCERTAIN = "uncertain"
    """A fall by more than the threshold is neither certain nor excluded: too few requests, or too near."""
    NOT_COMPARABLE = "not_comparable"
    """The number of draft tokens differs, which changes the acceptance rate by itself."""


_WORST_FIRST: Final = (
    Outcome.FELL,
    Outcome.NOT_COMPARABLE,
    Outcome.UNCERTAIN,
    Outcome.LOWER,
    Outcome.SAME,
    Outcome.BETTER,
)


class Caution(View):
    """A difference between the measurements beside the intended change."""

    reason: str
    before: float
    after: float
    text: str


class Difference(View):
    """A figure before and after, in its own unit. Bounds are null if one of the two has none."""

    before: MeasuredFigure
    after: MeasuredFigure
    change: float
    """After minus before."""
    lower: float | None
    upper: float | None
    beyond_chance: bool | None
    """Whether it is statistically significant (95 %)."""


def difference(before: MeasuredFigure, after: MeasuredFigure) -> Difference:
    """Return the difference of a figure."""
    change, distances = after.value - before.value, _distances(before, after)
    lower = upper = beyond = None
    if distances is not None:
        lower, upper = change - distances[0], change + distances[1]
        beyond = not lower <= 0 <= upper
    return Difference(
        before=before, after=after, change=change, lower=lower, upper=upper, beyond_chance=beyond
    )


def _distances(before: MeasuredFigure, after: MeasuredFigure) -> tuple[float, float] | None:
    """Return the distances of the bounds of a difference; None if a side has no bounds."""
    if before.standard_error is not None and after.standard_error is not None:
        errors = [before.standard_error, after.standard_error]
        _, half = welch(errors, [before.degrees or 1, after.degrees or 1])
        return half, half
    if before.lower is None or before.upper is None or after.lower is None or after.upper is None:
        return None
    return (
        hypot(after.value - after.lower, before.upper - before.value),
        hypot(after.upper - after.value, before.value - before.lower),
    )


def _described(its: Measured) -> dict[str, Any]:
    labels = its.model_dump(exclude={"measurement", "restarts", "broken_checks"})
    return {**labels, "draft_tokens": its.measurement.tokens, "counts": dict(its.measurement.counts)}


class Comparison(View):
    """Changes between two measurements of a model or an engine."""

    before: Annotated[MeasuredModel | MeasuredEngine, PlainSerializer(_described)]
    after: Annotated[MeasuredModel | MeasuredEngine, PlainSerializer(_described)]
    threshold: float = Field(exclude=True)
    """Tolerated fall of the acceptance rate, between 0 and 1."""

    @computed
    def quantities(self) -> dict[str, Difference]:
        """Figures that both have, by key."""
        before, after = (side.measurement.quantities for side in (self.before, self.after))
        return {key: difference(one, after[key]) for key, one in before.items() if key in after}

    @computed
    def position_acceptance_ratio(self) -> tuple[Difference | None, ...]:
        """Acceptance up to each position that both have."""
        return self._at_positions("position_acceptance_ratio")

    @computed
    def position_conditional_acceptance_ratio(self) -> tuple[Difference | None, ...]:
        """Conditional acceptance at each position that both have."""
        return self._at_positions("position_conditional_acceptance_ratio")

    @computed
    def latency_seconds(self) -> dict[Latency, dict[str, Difference]]:
        """Quantiles that both have, by latency and name."""
        before, after = (side.measurement.latency_seconds for side in (self.before, self.after))
        found: dict[Latency, dict[str, Difference]] = {}
        for latency, histogram in before.items():
            others = after[latency].quantiles if latency in after else {}
            for quantile, one in histogram.quantiles.items():
                other = others.get(quantile)
                if one is not None and other is not None:
                    found.setdefault(latency, {})[quantile.name] = difference(one, other)
        return found

    @computed
    def outcome(self) -> Outcome:
        """Change of the acceptance rate in a word."""
        change = self.acceptance
        if self._have_other_depths:
            return Outcome.NOT_COMPARABLE
        if change is None or change.lower is None or change.upper is None:
            return Outcome.UNCERTAIN
        if change.upper < -self.threshold:
            return Outcome.FELL
        if change.lower < -self.threshold:
            return Outcome.UNCERTAIN
        if not change.beyond_chance:
            return Outcome.SAME
        return Outcome.BETTER if change.change > 0 else Outcome.LOWER

    @computed
    def text(self) -> str:
        """Change of the acceptance rate in a sentence."""
        change = self.acceptance
        if change is None:
            return "Acceptance cannot be compared: nothing was drafted then, or nothing is now."
        levels = f"from {percent(change.before.value)} to {percent(change.after.value)}"
        threshold, moved = f"{self.threshold * 100:g}", "rose" if change.change > 0 else "fell"
        if self.outcome is Outcome.NOT_COMPARABLE:
            return f"Acceptance {moved} {levels}, but the number of draft tokens differs, and the rate depends on it: it cannot be compared. Compare the positions."
        if change.lower is None or change.upper is None:
            return f"Acceptance {moved} {levels}, but {MIN_BOUND_REQUESTS} requests of equal length must pass one after the other for bounds: measure for longer, or under more load."
        points, ends = change.change * 100, (change.lower * 100, change.upper * 100)
        if self.outcome is Outcome.SAME:
            return f"Acceptance is the same within chance, {levels}: {points:+.1f} points ({ends[0]:+.1f} to {ends[1]:+.1f}), certainly no fall of more than {threshold}."
        low, high = ends if points > 0 else (-ends[1], -ends[0])
        found = _WORDS[self.outcome].format(
            threshold=threshold, chance="beyond" if change.beyond_chance else "within"
        )
        return f"Acceptance {moved} by {abs(points):.1f} points ({low:.1f} to {high:.1f}), {levels}: {found}."

    @computed
    def cautions(self) -> tuple[Caution, ...]:
        """Conditions that differ by more than their limit, and by more than chance."""
        return tuple(self._cautions())

    @property
    def acceptance(self) -> Difference | None:
        """The acceptance rates, if both drafted."""
        return self.quantities.get("draft_acceptance_ratio")

    @property
    def changes(self) -> list[tuple[str, str, str]]:
        """Each changed property: its name and both values, empty if unknown."""
        pairs = ((key, getattr(self.before, key), getattr(self.after, key)) for key in _SETUP)
        return [(key, old, new) for key, old, new in pairs if old != new]

    def _at_positions(self, key: str) -> tuple[Difference | None, ...]:
        pairs = zip(*(getattr(side.measurement, key) for side in (self.before, self.after)), strict=False)
        return tuple(None if then is None or now is None else difference(then, now) for then, now in pairs)

    @property
    def _have_other_depths(self) -> bool:
        before, after = self.before.measurement.tokens, self.after.measurement.tokens
        return bool(before and after) and before != after

    def _cautions(self) -> Iterator[Caution]:
        if self._have_other_depths:
            yield _caution(DRAFT_TOKENS, self.before.measurement.tokens, self.after.measurement.tokens)
        before, after = map(_of_an_engine, (self.before, self.after))
        values = [{key: figure.value for key, figure in side.items()} for side in (after, before)]
        for part, work in ratios(*values):
            key, _, limit = TRAFFIC[part]
            if key not in before or key not in after:  # a part may be known by another figure
                continue
            if max(work, 1 / work) > limit and difference(before[key], after[key]).beyond_chance is not False:
                yield _caution(part, before[key].value, after[key].value)


_SETUP: Final = ("model_name", "method", "draft_model", "server_version")
_WORDS: Final[Mapping[Outcome, str]] = {
    Outcome.BETTER: "beyond chance",
    Outcome.LOWER: "beyond chance, but certainly by no more than {threshold}",
    Outcome.FELL: "more than {threshold}, and beyond chance",
    Outcome.UNCERTAIN: "{chance} chance, but whether it is a fall of more than {threshold} is not certain; measure for longer",
}
_OTHER_WORK: Final = "the work differs, and acceptance depends on the work."
_CAUTIONS: Final[Mapping[str, str]] = {
    DRAFT_TOKENS: "{0:.0f} tokens were drafted at a time, and {1:.0f} are now: the acceptance rate falls with their number, and latency differs for that reason too. Only positions can be compared.",
    Traffic.LOAD: "{0:.1f} requests ran on an engine in the mean, and {1:.1f} do now: latency and throughput differ for that reason.",
    Traffic.OUTPUT_TOKENS: f"Answers had {{0:.0f}} tokens in the mean, and have {{1:.0f}} now: {_OTHER_WORK}",
    Traffic.PROMPT_TOKENS: f"Prompts had {{0:.0f}} tokens in the mean, and have {{1:.0f}} now: {_OTHER_WORK}",
    Traffic.PREFIX_CACHE: "{0:.0%} of the prompt tokens were in the prefix cache, and {1:.0%} are now: the time to the first token differs for that reason, and the work may differ.",
    Traffic.COVERAGE: "{0:.0%} of the steps had a draft, and {1:.0%} have one now: compare the tokens per step, which count every step.",
}


def _caution(reason: str, before: float, after: float) -> Caution:
    text = _CAUTIONS[reason].format(before, after).replace("%", " %")
    return Caution(reason=reason, before=before, after=after, text=text)


def _of_an_engine(side: Measured) -> dict[str, MeasuredFigure]:
    """Return the figures; those of the load are of one engine in the mean."""
    number = side.engines if isinstance(side, MeasuredModel) else 1
    figures = side.measurement.quantities
    return {key: figure.divided(number) if key in LOADS else figure for key, figure in figures.items()}


class ModelComparison(Comparison):
    """Changes of a model, summed over its engines."""

    engines: tuple[Comparison, ...]
    """Engines that both sides have; empty if the model has one engine only."""


Measurements = Annotated[
    ReferenceDocument, PlainSerializer(lambda its: its.model_dump(mode="json", exclude={"engines", "models"}))
]
Models = tuple[Annotated[MeasuredModel, PlainSerializer(_described)], ...]


class ReferenceComparison(View):
    """Comparison with a reference, model by model. Ratios are between 0 and 1, times in seconds."""

    threshold: float
    before: Measurements
    after: Measurements
    models: tuple[ModelComparison, ...]
    only_before: Models
    """Models of the reference that were not measured now."""
    only_after: Models
    """Models that the reference lacks."""

    @computed
    def outcome(self) -> Outcome:
        """Worst outcome of a model; uncertain for one that is gone. An engine's counts if it fell."""
        found = {model.outcome for model in self.models}
        if any(engine.outcome is Outcome.FELL for model in self.models for engine in model.engines):
            return Outcome.FELL
        if self.only_before:
            found.add(Outcome.UNCERTAIN)
        return next((outcome for outcome in _WORST_FIRST if outcome in found), Outcome.UNCERTAIN)

    @computed
    def doubts(self) -> tuple[str, ...]:
        """Counter resets and contradictions, which make the figures of an engine doubtful."""
        times = ("while the reference was measured", "during this measurement")
        sides = zip((self.before, self.after), times, strict=True)
        return tuple(
            text for side, when in sides for engine in side.engines for text in _doubts(engine, when)
        )


def _doubts(engine: MeasuredEngine, when: str) -> Iterator[str]:
    name = f"{engine.model_name} on {engine.target} (engine {engine.engine})"
    if engine.restarts:
        yield f"{name}: its counters were reset {when}, {plural(engine.restarts, 'time')}."
    if engine.broken_checks:
        yield f"{name}: its counters contradicted each other {when}: {', '.join(engine.broken_checks)}."


def compared(before: ReferenceDocument, after: ReferenceDocument, threshold: float) -> ReferenceComparison:
    """Compare a measurement with a reference, model by model and engine by engine.

    Models match by name and number of draft tokens, then by name. If one model is left on each side, these
    two match: a quantized model has another name.
    """
    keys: tuple[Callable[[MeasuredModel], Hashable], ...] = (
        lambda model: (model.model_name, model.measurement.tokens),
        lambda model: model.model_name,
        lambda _: None,
    )
    pairs = _paired(before.models, after.models, keys)
    return ReferenceComparison(
        threshold=threshold,
        before=before,
        after=after,
        models=tuple(_model(*pair, before, after, threshold) for pair in pairs),
        only_before=_others(before.models, [old for old, _ in pairs]),
        only_after=_others(after.models, [new for _, new in pairs]),
    )


def _model(
    old: MeasuredModel,
    new: MeasuredModel,
    before: ReferenceDocument,
    after: ReferenceDocument,
    threshold: float,
) -> ModelComparison:
    keys: tuple[Callable[[MeasuredEngine], Hashable], ...] = (
        lambda engine: (engine.target, engine.engine),
        lambda engine: engine.engine,
    )
    several = old.engines > 1 or new.engines > 1
    pairs = _paired(_engines_of(old, before), _engines_of(new, after), keys) if several else []
    engines = tuple(Comparison(before=one, after=other, threshold=threshold) for one, other in pairs)
    return ModelComparison(before=old, after=new, threshold=threshold, engines=engines)


def _engines_of(model: MeasuredModel, document: ReferenceDocument) -> list[MeasuredEngine]:
    key = model.model_name, model.measurement.tokens
    return [each for each in document.engines if (each.model_name, each.measurement.tokens) == key]


def _paired(
    before: Sequence[Either], after: Sequence[Either], keys: Sequence[Callable[[Either], Hashable]]
) -> list[tuple[Either, Either]]:
    """Pair items whose key is the same and unique on both sides; pair the rest by the next key."""
    pairs: list[tuple[Either, Either]] = []
    for key in keys:
        old, new = (
            _unique(before, [one for one, _ in pairs], key),
            _unique(after, [one for _, one in pairs], key),
        )
        pairs += [(old[name], new[name]) for name in old if name in new]
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


class _Format(NamedTuple):
    value: Callable[[float], str]
    change: Callable[[float], str]
    relative: bool = False
    """True if the change is also written in percent of the value before."""


_SHARE = _Format(percent, lambda value: f"{value * 100:+.1f}")
_TOKENS = _Format(plain, lambda value: f"{value:+.2f}")
_TIME = _Format(
    lambda value: f"{three_digits(value * 1000, 2)} ms",
    lambda value: three_digits(value * 1000, 2, signed=True),
    relative=True,
)
_NUMBER = _Format(
    lambda value: three_digits(value, 2), lambda value: three_digits(value, 2, signed=True), relative=True
)
_FORMATS: Final = {
    Unit.SHARE: _SHARE,
    Unit.FACTOR: _TOKENS,
    Unit.NUMBER: _NUMBER,
    Unit.TOKENS: _TOKENS,
    Unit.SECONDS: _TIME,
    Unit.PER_SECOND: _NUMBER,
    Unit.REQUESTS: _NUMBER,
}
_LATENCIES: Final = {
    Latency.TIME_TO_FIRST_TOKEN: "time to first token",
    Latency.TIME_PER_OUTPUT_TOKEN: "time per output token",
    Latency.END_TO_END: "end to end",
    Latency.QUEUE: "queue",
}
"""Latencies that users notice, without that of a decode step."""


TONES: Final = {
    Outcome.BETTER: "good",
    Outcome.SAME: "good",
    Outcome.LOWER: "unsure",
    Outcome.FELL: "bad",
}
"""Tone of an outcome; others are neutral."""


def tables(its: Comparison) -> Iterator[tuple[str, list[Row]]]:
    """Yield title and rows of each table, the most important first."""
    sections: dict[str, list[tuple[int, Row]]] = {}
    for figure in COMPARED:
        line, found = figure.compared, its.quantities.get(figure.key)
        if line is not None and line.section:
            rows = sections.setdefault(line.section, [])
            rows += [(line.place, _row(line.name, found, _FORMATS[figure.unit]))] if found else []
    (title, first), *others = sections.items()
    yield title, _in_order(first)
    yield "Accepted up to and including each position", _positions(its.position_acceptance_ratio)
    yield (
        "Accepted at each position, of those that got there",
        _positions(its.position_conditional_acceptance_ratio),
    )
    yield from ((title, _in_order(rows)) for title, rows in others)
    yield "Latency of requests, by the server's histograms", list(_latencies(its))


def _in_order(rows: list[tuple[int, Row]]) -> list[Row]:
    return [row for _, row in sorted(rows, key=lambda each: each[0])]


def _positions(differences: Sequence[Difference | None]) -> list[Row]:
    return [_row(f"position {place}", each, _SHARE) for place, each in enumerate(differences) if each]


def _latencies(its: Comparison) -> Iterator[Row]:
    sides = [side.measurement.latency_seconds for side in (its.before, its.after)]
    for latency, name in _LATENCIES.items():
        for quantile in LATENCY_QUANTILES:
            found = its.latency_seconds.get(latency, {}).get(quantile.name)
            if found is not None:
                row = _row(f"{name} {quantile.name}", found, _TIME)
                yield _within(row, found, [side[latency].edges(quantile) for side in sides])


def _within(row: Row, found: Difference, edges: Sequence[Edges | None]) -> Row:
    """Write the edges of buckets that are far apart instead of the interpolated quantile."""
    name, *values, _, bounds = row
    wide = [its if its is not None and its.are_far_apart else None for its in edges]
    if not any(wide):
        return row
    texts = (
        value if its is None else within(*its, 1e-3, "ms") for value, its in zip(values, wide, strict=True)
    )
    moved = f"{'more' if found.change > 0 else 'less'} *" if found.beyond_chance else _ABSENT
    return name, *texts, moved, bounds


def _row(name: str, its: Difference, unit: _Format) -> Row:
    relative = (
        f" ({(its.after.value / its.before.value - 1) * 100:+.0f} %)"
        if unit.relative and its.before.value
        else ""
    )
    known = its.lower is not None and its.upper is not None
    return (
        name,
        unit.value(its.before.value),
        unit.value(its.after.value),
        f"{unit.change(its.change)}{relative}{' *' if its.beyond_chance else ''}",
        f"{unit.change(its.lower or 0.0)} to {unit.change(its.upper or 0.0)}" if known else _ABSENT,
    )


def as_text(its: ReferenceComparison, style: TextStyle) -> str:
    """Return a comparison as text, which is Markdown too."""
    return render(
        "comparison.md.jinja", style, its=its, tables=tables, tones=TONES, format_duration=format_duration
    )


def as_json(its: ReferenceComparison) -> str:
    """Return a comparison as JSON; unknown is null."""
    return json_text(its.model_dump(mode="json"))
