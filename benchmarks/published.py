"""Typical costs by published measurements, on the measurements of sources that were left out.

    python -m benchmarks.published [--smoke]

Each row of ``costs/published.csv`` is answered without the rows of
its source: the speed-up of its acceptance length at what drafting cost the others. Inside: the range has the
measured speed-up. A false answer says that speculation pays where it measurably does not, or the reverse.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from benchmarks.console import end, parsed, parser, percent, print_table
from spec_decode_exporter.analysis.window_evaluation import PROBABLY_PAYS, probably_pays
from spec_decode_exporter.costs.methods import ANY, KINDS
from spec_decode_exporter.costs.published import POWERS, PublishedStep, costs_near, published_steps

MEASURABLY: Final = 0.03
"""Difference of a speed-up from 1 that a published measurement shows."""
MIN_INSIDE, MAX_FALSE = 0.9, 0.02
HIGH_LOAD: Final = 32


class Answer(NamedTuple):
    """Speed-up that is expected of a published step."""

    step: PublishedStep
    lower: float
    upper: float
    paying: float
    """Share of the published costs at which its acceptance would pay."""

    @property
    def is_inside(self) -> bool:
        """True if the bounds contain the measured speed-up."""
        return self.lower <= self.step.speedup <= self.upper

    @property
    def is_false(self) -> bool:
        """True if the bounds are on one side of 1, and the speed-up measurably on the other."""
        pays_not, hurts_not = self.step.speedup < 1 - MEASURABLY, self.step.speedup > 1 + MEASURABLY
        return (self.lower > 1 and pays_not) or (self.upper < 1 and hurts_not)

    @property
    def is_sure(self) -> bool:
        """True if the bounds are on one side of 1."""
        return self.lower > 1 or self.upper < 1


def answer(step: PublishedStep, others: Iterable[PublishedStep]) -> Answer | None:
    """Return what the costs of other steps say of a step; None if too few published one."""
    kind = KINDS[step.method]
    like = [other for other in others if KINDS[other.method] == kind]
    if all(other.method != step.method for other in like):
        return None
    costs = costs_near(like, kind, step.running_requests)
    if costs is None:
        return None
    scale, length = step.draft_tokens ** POWERS[kind], step.acceptance_length
    upper, lower = (length / (1 + extra * scale) for extra in (costs.range.low, costs.range.high))
    return Answer(step, lower, upper, costs.paid_by((length - 1) / scale).ratio)


def left_out(steps: Sequence[PublishedStep]) -> Iterator[tuple[PublishedStep, Answer | None]]:
    """Yield each step with its answer by the sources of others."""
    known = published_steps(ANY)
    for step in steps:
        yield step, answer(step, [other for other in known if other.source != step.source])


@dataclass
class Counts:
    """Answers to a group of steps."""

    rows: int = 0
    answered: int = 0
    inside: int = 0
    false: int = 0
    sure: int = 0
    probable: int = 0
    """Answers that speculation probably pays."""
    right: int = 0
    """Those of them where it does."""

    def add(self, found: Answer | None) -> None:
        """Count an answer, or that there is none."""
        self.rows += 1
        if found is None:
            return
        probable = probably_pays(found.paying)
        self.answered += 1
        self.inside += found.is_inside
        self.false += found.is_false
        self.sure += found.is_sure
        self.probable += probable
        self.right += probable and found.step.speedup > 1

    @property
    def cells(self) -> list[str]:
        """Cells of a row of the table."""
        inside = percent(self.inside / self.answered if self.answered else None)
        counts = (self.sure, self.false, self.probable, self.right)
        return [str(self.rows), str(self.answered), inside, *map(str, counts)]


def counts_by_group(steps: Sequence[PublishedStep]) -> dict[str, Counts]:
    """Return the counts of all steps, by method, and by load."""
    found: dict[str, Counts] = {}
    for step, its in left_out(steps):
        load = "load 32 and more" if step.running_requests >= HIGH_LOAD else "load below 32"
        for group in ("all", step.method, load):
            found.setdefault(group, Counts()).add(its)
    return found


def missed(groups: Mapping[str, Counts]) -> Iterator[str]:
    """Yield the goals that the answers to all rows miss."""
    whole = groups["all"]
    if whole.inside < MIN_INSIDE * whole.answered:
        yield f"inside {percent(whole.inside / whole.answered)} %, at least {percent(MIN_INSIDE)}"
    if whole.false > MAX_FALSE * whole.answered:
        yield f"{whole.false} false answers, at most {percent(MAX_FALSE)} %"
    if whole.right < PROBABLY_PAYS * whole.probable:
        yield f'{whole.right} of {whole.probable} "probably pays" right, at least {percent(PROBABLY_PAYS)} %'


def main() -> None:
    arguments = parsed(parser(__doc__))
    groups = counts_by_group(published_steps(ANY))
    heads = ("measurements", "rows", "answered", "inside", "sure", "false", "probably pays", "right")
    print_table(heads, ([name, *its.cells] for name, its in groups.items()))
    end(arguments, list(missed(groups)))


if __name__ == "__main__":
    main()
