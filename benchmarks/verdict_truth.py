"""Verdicts and bounds of the speed-up, compared with the truth of a model of the server.

    python -m benchmarks.verdict_truth [--smoke] [--cells 144] [--seed 1] [--markdown]

``benchmarks/truth/`` has the model: step times of dense and mixture-of-experts targets with five kinds of
drafters on four GPUs, and requests whose counters the exporter's own code gets once a second. The truth is
the decode time per token without speculation over that with it, at the same running requests. The exit status
is 1 if a goal is missed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from benchmarks.table import percent, table
from benchmarks.truth.cells import Cell, cells
from benchmarks.truth.sources import SOURCES, NotAvailableError, Recording, Reported, Source

PAYS = frozenset({"marginal", "healthy", "optimal"})
HURTS = frozenset({"harmful"})
UNDECIDED = frozenset({"unclear", "insufficient"})
SLOWER, FASTER = 0.97, 1.03
"""Speed-ups between these count as none: neither verdict is wrong."""
MAX_FALSE = 0.02
MIN_INSIDE = 0.90
CELLS = 144
SMOKE_CELLS = 4


@dataclass(frozen=True, slots=True)
class Outcome:
    """One cell by one source."""

    cell: Cell
    truth: float
    reported: Reported

    @property
    def is_false_pays(self) -> bool:
        """True if the verdict says that it pays, and it is slower."""
        return self.reported.verdict in PAYS and self.truth < SLOWER

    @property
    def is_false_hurts(self) -> bool:
        """True if the verdict says that it hurts, and it is faster."""
        return self.reported.verdict in HURTS and self.truth > FASTER

    @property
    def is_decided(self) -> bool:
        """True if there is a verdict."""
        return self.reported.verdict not in UNDECIDED

    @property
    def is_bounded(self) -> bool:
        """True if the speed-up has bounds."""
        return self.reported.lower is not None

    @property
    def is_inside(self) -> bool:
        """True if the bounds contain the truth."""
        lower, upper = self.reported.lower, self.reported.upper
        return lower is not None and upper is not None and lower <= self.truth <= upper


@dataclass(frozen=True, slots=True)
class Score:
    """All cells of one source."""

    source: Source
    outcomes: tuple[Outcome, ...]
    elsewhere: int = 0
    """Cells in which the exporter used another source."""
    missing: str = ""
    """Reason if the exporter does not have the source."""

    def share(self, holds: Callable[[Outcome], bool], among: Iterable[Outcome] | None = None) -> float | None:
        """Return the share of outcomes for which a condition holds; None without outcomes."""
        chosen = self.outcomes if among is None else tuple(among)
        return sum(map(holds, chosen)) / len(chosen) if chosen else None

    @property
    def false_pays(self) -> float | None:
        """Share of cells with a false ``pays``."""
        return self.share(lambda outcome: outcome.is_false_pays)

    @property
    def false_hurts(self) -> float | None:
        """Share of cells with a false ``hurts``."""
        return self.share(lambda outcome: outcome.is_false_hurts)

    @property
    def inside(self) -> float | None:
        """Share of bounds that contain the truth."""
        bounded = (outcome for outcome in self.outcomes if outcome.is_bounded)
        return self.share(lambda outcome: outcome.is_inside, bounded)

    @property
    def decided(self) -> float | None:
        """Share of cells with a verdict."""
        return self.share(lambda outcome: outcome.is_decided)

    def missed(self) -> list[str]:
        """Return the goals that it misses."""
        goals = (
            ("false pays", self.false_pays, MAX_FALSE, False),
            ("false hurts", self.false_hurts, MAX_FALSE, False),
            ("truth inside", self.inside, MIN_INSIDE, True),
            ("decided", self.decided, self.source.decided_goal, True),
        )
        return [
            name
            for name, value, goal, is_least in goals
            if value is not None and goal is not None and (value < goal if is_least else value > goal)
        ]


def score(source: Source, recordings: Sequence[Recording]) -> Score:
    """Evaluate all cells by one source."""
    outcomes, elsewhere = [], 0
    for recording in recordings:
        try:
            result = source.adapter(recording)
        except NotAvailableError as error:
            return Score(source, (), missing=str(error))
        if result is None:
            continue
        if result.source not in source.labels:
            elsewhere += 1
            continue
        outcomes.append(Outcome(recording.cell, recording.cell.truth, result))
    return Score(source, tuple(outcomes), elsewhere)


HEADS = (
    "source of the cost",
    "cells",
    "false pays",
    "false hurts",
    "truth inside",
    "decided",
    "goals missed",
)


def row(scored: Score) -> list[str]:
    """Return the row of one source."""
    if scored.missing:
        return [scored.source.name, f"not available: {scored.missing}", *["-"] * 5]
    shares = (scored.false_pays, scored.false_hurts, scored.inside, scored.decided)
    return [
        scored.source.name,
        str(len(scored.outcomes)) + (f" (+{scored.elsewhere} by others)" if scored.elsewhere else ""),
        *map(percent, shares),
        ", ".join(scored.missed()) or "none",
    ]


def control(recordings: Iterable[Recording]) -> str:
    """Return the sentence about the bounds that need no cost."""
    known = [inside for each in recordings if (inside := each.length_is_inside) is not None]
    share = percent(sum(known) / len(known) if known else None)
    return f"Control, which needs no cost: the length is inside its bounds in {share} of {len(known)}."


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--smoke", action="store_true", help=f"{SMOKE_CELLS} cells, in seconds; no goals")
    parser.add_argument("--cells", type=int, default=CELLS)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", nargs="*", default=[], help="beginnings of the names of sources")
    parser.add_argument("--markdown", action="store_true", help="tables for docs/explanation/verdicts.md")
    options = parser.parse_args()
    number = SMOKE_CELLS if options.smoke else options.cells
    recordings = [Recording(cell) for cell in cells(options.seed, number)]
    chosen = [
        source
        for source in SOURCES
        if not options.only or any(source.name.startswith(each) for each in options.only)
    ]
    scores = [score(source, recordings) for source in chosen]
    slower = sum(recording.cell.truth < SLOWER for recording in recordings)
    print(f"{number} cells, {slower} of them slower with speculation; shares in %.\n")
    print(table(HEADS, map(row, scores), markdown=options.markdown), flush=True)
    print(f"\n{control(recordings)}")
    if not options.smoke and any(scored.missed() for scored in scores):
        sys.exit(1)


if __name__ == "__main__":
    main()
