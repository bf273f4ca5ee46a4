"""Verdicts and bounds of the speed-up, compared with the truth of a model of the server.

    python -m benchmarks.verdict_truth [--smoke] [--cells 144] [--seed 1]

``benchmarks/truth/`` has the model: step times of dense and mixture-of-experts targets with five kinds of
drafters on four GPUs, and requests whose counters the exporter's own code gets once a second. The truth is
the decode time per token without speculation over that with it, at the same running requests. The exit
status is 1 if a goal is missed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from benchmarks.console import end, parsed, parser, percent, print_table
from benchmarks.truth.cells import cells
from benchmarks.truth.sources import SOURCES, Recording, Reported, Source

PAYS = frozenset({"marginal", "healthy", "optimal"})
UNDECIDED = frozenset({"unclear", "insufficient"})
SLOWER, FASTER = 0.97, 1.03
"""Speed-ups between these count as none: neither verdict is wrong."""
MAX_FALSE = 0.02
MIN_INSIDE = 0.90


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one source says of a cell, and its truth."""

    truth: float
    reported: Reported

    @property
    def is_false_pays(self) -> bool:
        """True if the verdict says that it pays, and it is slower."""
        return self.reported.verdict in PAYS and self.truth < SLOWER

    @property
    def is_false_hurts(self) -> bool:
        """True if the verdict says that it hurts, and it is faster."""
        return self.reported.verdict == "harmful" and self.truth > FASTER

    @property
    def is_decided(self) -> bool:
        """True if there is a verdict."""
        return self.reported.verdict not in UNDECIDED

    @property
    def is_inside(self) -> bool | None:
        """True if the bounds contain the truth; None without bounds."""
        lower, upper = self.reported.lower, self.reported.upper
        return None if lower is None or upper is None else lower <= self.truth <= upper


@dataclass(frozen=True, slots=True)
class Score:
    """All cells of one source."""

    source: Source
    outcomes: tuple[Outcome, ...]

    def shares(self) -> dict[str, float | None]:
        """Return the share of each goal, by its name."""
        return {
            "false pays": _share(each.is_false_pays for each in self.outcomes),
            "false hurts": _share(each.is_false_hurts for each in self.outcomes),
            "truth inside": _share(each.is_inside for each in self.outcomes if each.is_inside is not None),
            "decided": _share(each.is_decided for each in self.outcomes),
        }

    def missed(self) -> list[str]:
        """Return the goals that it misses."""
        least = {"truth inside": MIN_INSIDE, "decided": self.source.decided_goal or 0.0}
        return [
            name
            for name, share in self.shares().items()
            if share is not None and (share < least[name] if name in least else share > MAX_FALSE)
        ]


def _share(held: Iterable[bool | None]) -> float | None:
    known = list(held)
    return sum(map(bool, known)) / len(known) if known else None


def score(source: Source, recordings: Sequence[Recording]) -> Score:
    """Return the score of a source, of the cells in which the exporter used it."""
    found = [(each.cell.truth, source.adapter(each)) for each in recordings]
    used = (Outcome(truth, each) for truth, each in found if each and each.source in source.labels)
    return Score(source, tuple(used))


HEADS = ("source of the cost", "cells", "false pays", "false hurts", "truth inside", "decided", "missed")


def row(scored: Score) -> list[str]:
    shares = map(percent, scored.shares().values())
    return [scored.source.name, str(len(scored.outcomes)), *shares, ", ".join(scored.missed()) or "none"]


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--cells", type=int, default=144)
    options.add_argument("--seed", type=int, default=1)
    arguments = parsed(options, cells=4)
    recordings = [Recording(cell) for cell in cells(arguments.seed, arguments.cells)]
    scores = [score(source, recordings) for source in SOURCES]
    slower = sum(recording.cell.truth < SLOWER for recording in recordings)
    print(f"{len(recordings)} cells, {slower} of them slower with speculation; shares in %.\n")
    print_table(HEADS, map(row, scores))
    end(arguments, [f"{each.source.name}: {goal}" for each in scores for goal in each.missed()])


if __name__ == "__main__":
    main()
