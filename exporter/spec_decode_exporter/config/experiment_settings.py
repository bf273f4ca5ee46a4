"""Experiments: targets that serve the same work in different ways, and the baseline of the comparison."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Annotated, Final, Self

from pydantic import AfterValidator, Field, model_validator

from spec_decode_exporter.config.errors import ProblemsError
from spec_decode_exporter.config.http_settings import Section
from spec_decode_exporter.config.labels import label_problem, printable
from spec_decode_exporter.config.values import NotEmpty, matches

OWN_LABELS: Final = frozenset({"name", "model_name", "method"})
"""Labels that match arms besides the labels of targets."""

Name = Annotated[
    str, matches(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", "is not a name: use up to 64 letters, digits, `_.-`")
]


def _matched(label: str) -> str:
    problem = None if label in OWN_LABELS else label_problem(label)
    if problem is not None:
        raise ValueError(f"{problem}; an arm is matched by name, model_name, method or a label of targets")
    return label


MatchLabel = Annotated[str, AfterValidator(_matched)]
MatchValue = Annotated[str, Field(min_length=1, max_length=256), AfterValidator(printable)]


class ArmSettings(Section):
    """The engines of one arm."""

    match: Annotated[Mapping[MatchLabel, MatchValue], NotEmpty] = Field(
        description="Labels that an engine of the arm must all have: `name` (of its target), `model_name`, "
        "`method` (`off` for an engine that does not speculate), or any label of its target. Two arms "
        "need a label in common with different values, so that no engine belongs to both."
    )


class ExperimentSettings(Section):
    """Arms that serve the same work in different ways, each compared with the baseline.

    See [experiments.md](../guide/experiments.md). One exporter must monitor all arms: experiments are
    rejected with `discovery.shard.count` above 1.
    """

    name: Name = Field(description="The value of the label `experiment`.")
    arms: Mapping[Name, ArmSettings] = Field(description="The arms by name, at least two.")
    baseline: Name = Field(description="The arm that the others are compared with.")

    @model_validator(mode="after")
    def _can_be_compared(self) -> Self:
        mistakes = [*self._too_few(), *self._overlapping()]
        if self.baseline not in self.arms:
            known = ", ".join(self.arms)
            mistakes.append((("baseline",), f"is not one of the arms; there are {known or 'none'}"))
        if mistakes:
            raise ProblemsError(mistakes)
        return self

    def _too_few(self) -> Iterator[tuple[tuple[str, ...], str]]:
        if len(self.arms) < 2:  # noqa: PLR2004  one arm has no counterpart
            yield ("arms",), "needs two arms or more, the baseline included"

    def _overlapping(self) -> Iterator[tuple[tuple[str, ...], str]]:
        """Yield each arm that may have an engine in common with an earlier arm."""
        for (first, one), (second, other) in combinations(self.arms.items(), 2):
            if not _exclude(one.match, other.match):
                message = (
                    f"may match the engines of `{first}`; give both a label in common with different values"
                )
                yield ("arms", second, "match"), message


def _exclude(one: Mapping[str, str], other: Mapping[str, str]) -> bool:
    return any(one[label] != other[label] for label in one.keys() & other.keys())


def unlike_names(experiments: Sequence[ExperimentSettings]) -> Iterator[tuple[tuple[int, str], str]]:
    """Yield each name that an earlier experiment has."""
    names: set[str] = set()
    for index, experiment in enumerate(experiments):
        if experiment.name in names:
            yield (index, "name"), "is also the name of another experiment; give each its own"
        names.add(experiment.name)
