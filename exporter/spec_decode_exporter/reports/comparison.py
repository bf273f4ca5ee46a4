"""Compare two observations: differences with 95 % bounds, and traffic that makes the comparison unfair.

The observations are independent, so the distances of the bounds to the values take the place of t times the
errors, each in its own direction (Zou and Donner, *Construction of confidence limits about effect measures*,
Statistics in Medicine 27, 2008):

    lower = d - √((after - after's lower)² + (before's upper - before)²)        and upper the other way round
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from enum import StrEnum
from math import hypot
from typing import Any, Final

from spec_decode_exporter.analysis.figure_table import COMPARED, Unit
from spec_decode_exporter.config.types import format_duration
from spec_decode_exporter.core.number_formats import percent
from spec_decode_exporter.experiments.traffic import LOADS, TRAFFIC, Traffic, ratios
from spec_decode_exporter.figures.estimate import MIN_BOUND_REQUESTS
from spec_decode_exporter.reports.exit_status import TONES, ExitStatus
from spec_decode_exporter.reports.observation_report import FORMATS
from spec_decode_exporter.reports.observation_view import Measured, ModelView
from spec_decode_exporter.reports.saved_snapshot import SavedSnapshot
from spec_decode_exporter.reports.text import TextStyle, json_text, moment, render
from spec_decode_exporter.views.document import View, computed

MAX_FALL: Final = 0.05  # fall of the acceptance rate that is tolerated
_RATE: Final = "draft_acceptance_ratio"
Row = tuple[str, ...]
"""Cells of a row: name, value before and after, change with a star if it is significant, and bounds of it."""


class Outcome(StrEnum):
    """Change of the acceptance rate, the worst first."""

    FELL = "fell"  # it certainly fell by more than the threshold
    NOT_COMPARABLE = "not_comparable"
    """The number of draft tokens differs, which changes the acceptance rate by itself."""
    UNCERTAIN = "uncertain"
    """A fall by more than the threshold is neither certain nor excluded: too few requests, or too near."""
    LOWER = "lower"  # it fell, statistically significant (95 %), and certainly by at most the threshold
    SAME = "same"  # chance explains the difference, and it certainly fell by at most the threshold
    BETTER = "better"  # it rose, statistically significant (95 %)


STATUS: Final = {
    **dict.fromkeys((Outcome.BETTER, Outcome.SAME, Outcome.LOWER), ExitStatus.GOOD),
    **dict.fromkeys((Outcome.UNCERTAIN, Outcome.NOT_COMPARABLE), ExitStatus.UNKNOWN),
    Outcome.FELL: ExitStatus.BAD,
}


class Difference(View):
    """A figure before and after, in its own unit. Bounds are null if one of the two has none."""

    before: Measured
    after: Measured
    change: float
    """After minus before."""
    lower: float | None = None
    upper: float | None = None

    @computed
    def beyond_chance(self) -> bool | None:
        """Whether it is statistically significant (95 %); null without bounds."""
        return None if self.lower is None or self.upper is None else not self.lower <= 0 <= self.upper


def difference(before: Measured, after: Measured) -> Difference:
    """Return the difference of a figure."""
    change = after.value - before.value
    if before.lower is None or before.upper is None or after.lower is None or after.upper is None:
        return Difference(before=before, after=after, change=change)
    down = hypot(after.value - after.lower, before.upper - before.value)
    up = hypot(after.upper - after.value, before.value - before.lower)
    return Difference(before=before, after=after, change=change, lower=change - down, upper=change + up)


_WORDS: Final[Mapping[Outcome, str]] = {
    Outcome.BETTER: "beyond chance",
    Outcome.LOWER: "beyond chance, but certainly by no more than {threshold}",
    Outcome.FELL: "more than {threshold}, and beyond chance",
    Outcome.UNCERTAIN: "{chance} chance, but whether it is a fall of more than {threshold} is not certain; measure for longer",
}
_SETUP: Final = ("model_name", "method", "draft_model", "server_version", "engines")
_FIGURES: Final = {"figures", "position_acceptance_ratio"}


class ModelComparison(View):
    """Changes of a model, summed over its engines."""

    before: ModelView
    after: ModelView

    @computed
    def figures(self) -> dict[str, Difference]:
        """Figures that both have, by key."""
        before, after = self.before.figures, self.after.figures
        return {key: difference(figure, after[key]) for key, figure in before.items() if key in after}

    @computed
    def position_acceptance_ratio(self) -> tuple[Difference | None, ...]:
        """Acceptance up to each position that both have."""
        pairs = zip(self.before.position_acceptance_ratio, self.after.position_acceptance_ratio, strict=False)
        return tuple(None if old is None or new is None else difference(old, new) for old, new in pairs)

    @computed
    def outcome(self) -> Outcome:
        """Change of the acceptance rate in a word."""
        if self.before.tokens and self.after.tokens and self.before.tokens != self.after.tokens:
            return Outcome.NOT_COMPARABLE
        change, fall = self.figures.get(_RATE), -MAX_FALL
        if change is None or change.lower is None or change.upper is None:
            return Outcome.UNCERTAIN
        if change.lower < fall:
            return Outcome.FELL if change.upper < fall else Outcome.UNCERTAIN
        if not change.beyond_chance:
            return Outcome.SAME
        return Outcome.BETTER if change.change > 0 else Outcome.LOWER

    @computed
    def text(self) -> str:
        """Change of the acceptance rate in a sentence."""
        change, outcome = self.figures.get(_RATE), self.outcome
        if change is None:
            return "Acceptance cannot be compared: nothing was drafted then, or nothing is now."
        levels = f"from {percent(change.before.value)} to {percent(change.after.value)}"
        limit, moved = f"{MAX_FALL * 100:g}", "rose" if change.change > 0 else "fell"
        if outcome is Outcome.NOT_COMPARABLE:
            return f"Acceptance {moved} {levels}, but {self.before.tokens} tokens were drafted at a time, and {self.after.tokens} are now: the rate and latency depend on that number. Only positions can be compared."
        if change.lower is None or change.upper is None:
            return f"Acceptance {moved} {levels}, but {MIN_BOUND_REQUESTS} requests of equal length must pass one after the other for bounds: measure for longer, or under more load."
        points, ends = change.change * 100, (change.lower * 100, change.upper * 100)
        if outcome is Outcome.SAME:
            return f"Acceptance is the same within chance, {levels}: {points:+.1f} points ({ends[0]:+.1f} to {ends[1]:+.1f}), certainly no fall of more than {limit}."
        low, high = ends if points > 0 else (-ends[1], -ends[0])
        words = _WORDS[outcome].format(threshold=limit, chance="beyond" if change.beyond_chance else "within")
        return f"Acceptance {moved} by {abs(points):.1f} points ({low:.1f} to {high:.1f}), {levels}: {words}."

    @computed
    def cautions(self) -> dict[str, str]:
        """Texts of conditions that differ by more than their limit, and by more than chance, by reason."""
        texts = dict[str, str]()
        before, after = map(_of_an_engine, (self.before, self.after))
        works = ({key: figure.value for key, figure in side.items()} for side in (after, before))
        for part, work in ratios(*works):
            key, _, limit = TRAFFIC[part]
            if key not in before or key not in after:  # a part may be known by another figure
                continue
            if max(work, 1 / work) > limit and difference(before[key], after[key]).beyond_chance is not False:
                text = _CAUTIONS[part].format(before[key].value, after[key].value)
                texts[part] = text.replace("%", " %")
        return texts

    @property
    def changes(self) -> list[tuple[str, str, str]]:
        """Each changed property: its name and both values, empty if unknown."""
        pairs = ((key, str(getattr(self.before, key)), str(getattr(self.after, key))) for key in _SETUP)
        return [(key.replace("_", " "), old, new) for key, old, new in pairs if old != new]


_OTHER_WORK: Final = "the work differs, and acceptance depends on the work."
_CAUTIONS: Final[Mapping[str, str]] = {
    Traffic.LOAD: "{0:.1f} requests ran on an engine in the mean, and {1:.1f} do now: latency and throughput differ for that reason.",
    Traffic.OUTPUT_TOKENS: f"Answers had {{0:.0f}} tokens in the mean, and have {{1:.0f}} now: {_OTHER_WORK}",
    Traffic.PROMPT_TOKENS: f"Prompts had {{0:.0f}} tokens in the mean, and have {{1:.0f}} now: {_OTHER_WORK}",
    Traffic.PREFIX_CACHE: "{0:.0%} of the prompt tokens were in the prefix cache, and {1:.0%} are now: the time to the first token differs for that reason, and the work may differ.",
    Traffic.COVERAGE: "{0:.0%} of the steps had a draft, and {1:.0%} have one now: compare the tokens per step, which count every step.",
}


def _of_an_engine(model: ModelView) -> dict[str, Measured]:
    """Return the figures; those of the load are of one engine in the mean."""
    loads = {
        key: Measured(**{name: part and part / model.engines for name, part in dict(figure).items()})
        for key, figure in model.figures.items()
        if key in LOADS
    }
    return {**model.figures, **loads}


class Comparison(View):
    """Comparison with a reference, another observation, model by model. Ratios are 0 to 1, times in seconds."""

    threshold: float = MAX_FALL
    before: SavedSnapshot
    after: SavedSnapshot
    models: tuple[ModelComparison, ...]
    only_before: tuple[ModelView, ...]
    """Models of the reference that are not there now."""
    only_after: tuple[ModelView, ...]
    """Models that the reference lacks."""

    @computed
    def outcome(self) -> Outcome:
        """Worst outcome of a model; uncertain at best if one is gone."""
        outcomes = [model.outcome for model in self.models]
        if self.only_before or not outcomes:
            outcomes.append(Outcome.UNCERTAIN)
        return min(outcomes, key=[*Outcome].index)


def compared(before: SavedSnapshot, after: SavedSnapshot) -> Comparison:
    """Compare an observation with an earlier one, model by model.

    Models match by name and number of draft tokens, then by name. If one model is left on each side, these
    two match: a quantized model has another name.
    """
    old, new, pairs = list(before.models), list(after.models), list[ModelComparison]()
    keys: tuple[Callable[[ModelView], Hashable], ...] = (
        lambda model: (model.model_name, model.tokens),
        lambda model: model.model_name,
        lambda _: None,
    )
    for key in keys:
        for model in tuple(old):
            alike = [[each for each in side if key(each) == key(model)] for side in (old, new)]
            if list(map(len, alike)) == [1, 1]:
                pairs.append(ModelComparison(before=model, after=alike[1][0]))
                old.remove(model)
                new.remove(alike[1][0])
    return Comparison(
        before=before,
        after=after,
        models=tuple(pairs),
        only_before=tuple(old),
        only_after=tuple(new),
    )


def tables(model: ModelComparison) -> Mapping[str, list[Row]]:
    """Return the rows of each table by its title."""
    sections: dict[str, list[Row]] = {}
    lines = [(each.compared, each) for each in COMPARED if each.compared and each.compared.section]
    for line, figure in sorted(lines, key=lambda each: each[0].place):
        if figure.key in model.figures:
            row = _row(line.name, model.figures[figure.key], figure.unit)
            sections.setdefault(line.section, []).append(row)
    positions = enumerate(model.position_acceptance_ratio)
    sections["Accepted up to and including each position"] = [
        _row(f"position {place}", each, Unit.SHARE) for place, each in positions if each
    ]
    return sections


def _row(name: str, change: Difference, unit: Unit) -> Row:
    """Return a row; a change of anything but a share is also written in percent of the value before."""
    write, before, after = FORMATS[unit], change.before.value, change.after.value

    def signed(value: float) -> str:
        return f"{'-' if value < 0 else '+'}{write(abs(value))}"

    relative = f" ({(after / before - 1) * 100:+.0f} %)" if before and unit is not Unit.SHARE else ""
    ends = [signed(end) for end in (change.lower, change.upper) if end is not None]
    star = " *" if change.beyond_chance else ""
    return name, write(before), write(after), f"{signed(change.change)}{relative}{star}", " to ".join(ends)


def as_text(comparison: Comparison, style: TextStyle) -> str:
    """Return a comparison as text, which is Markdown too."""
    tones = {outcome: TONES[status] for outcome, status in STATUS.items()}
    names = {"tables": tables, "tones": tones, "format_duration": format_duration, "moment": moment}
    return render("comparison.md.jinja", style, comparison=comparison, **names)


def as_json(comparison: Comparison) -> str:
    """Return a comparison as JSON; unknown is null. Of both sides it has what describes them."""
    left_out: dict[str, Any] = {
        "models": {"__all__": dict.fromkeys(("before", "after"), _FIGURES)},
        **{key: {"__all__": _FIGURES} for key in ("only_before", "only_after")},
        **{key: {"engines", "targets", "models"} for key in ("before", "after")},
    }
    return json_text(comparison.model_dump(mode="json", exclude=left_out))
