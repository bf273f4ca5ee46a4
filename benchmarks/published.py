"""Typical costs, compared with published measurements: what ``plan`` says of a model's name.

    python -m benchmarks.published [--rows] [--smoke]

``tests/data/published-speedups.csv`` has the speed-ups that others measured, each with its source. A row goes
through the command line of ``plan``, as a name, a load, a context and an acceptance length. The exit status
is 1 if a goal is missed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from csv import DictReader
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

from benchmarks.options import end, parsed, parser
from benchmarks.table import percent, print_table
from spec_decode_exporter.analysis.verdict import PAYING, Verdict
from spec_decode_exporter.analysis.window_evaluation import PROBABLY_PAYS
from spec_decode_exporter.cli.main import parse
from spec_decode_exporter.cli.plan import plan_of
from spec_decode_exporter.costs.model_architecture import target_model
from spec_decode_exporter.reports.plan.expected_speedup import SpeedupPlan

DATA: Final = Path(__file__).parents[1] / "tests" / "data" / "published-speedups.csv"
CONSUMER: Final = ("RTX", "Arc", "Apple", "Radeon", "GB GPU", "GPUs, not", "GPU, not", "V100")
SLOWER, FASTER = 0.97, 1.03
HIGH_LOAD, LONG_CONTEXT, MANY_GPUS = 32, 4_000, 4
MIN_INSIDE, MAX_FALSE, MAX_UNDECIDED, MIN_RIGHT = 0.90, 0.02, 0.35, 0.85
BANDS: Final = ((0.9, 1.0), (0.8, 0.9), (0.6, 0.8), (0.15, 0.6), (0.0, 0.15))
"""Shares of the possible speed-ups above 1 of verdicts ``unclear``."""


@dataclass(frozen=True)
class Row:
    """A published speed-up."""

    cells: dict[str, str]
    names_gpu: bool = False
    """True if ``plan`` gets the GPU too."""

    @cached_property
    def plan(self) -> SpeedupPlan:
        """What the command says."""
        its = self.cells
        words = [
            *("--model-name", its["served_name"], "--method", its["method"], "--tokens", its["tokens"]),
            *("--running", its["running"], "--context", its["context"], "--tensor-parallel", its["gpus"]),
            *("--acceptance-length", its["acceptance_length"]),
            *(("--gpu", its["gpu"]) if self.names_gpu else ()),
        ]
        return plan_of(parse(["plan", *words], {}))

    @property
    def truth(self) -> float:
        """The measured speed-up."""
        return float(self.cells["speedup"])

    @property
    def is_consumer(self) -> bool:
        """True unless vLLM, SGLang or TensorRT-LLM ran on GPUs of a datacentre."""
        return any(part in self.cells["gpu"] for part in CONSUMER)

    @property
    def is_inside(self) -> bool:
        """True if the bounds contain the truth."""
        lower, upper = self.plan.speedup_ratio_lower, self.plan.speedup_ratio_upper
        return lower is None or upper is None or lower <= self.truth <= upper

    @property
    def is_false(self) -> bool:
        """True if the verdict is contrary to the truth."""
        pays = self.plan.verdict in PAYING and self.truth < SLOWER
        return pays or (self.plan.verdict is Verdict.HARMFUL and self.truth > FASTER)

    @property
    def is_undecided(self) -> bool:
        """True without a verdict."""
        return self.plan.verdict is Verdict.UNCLEAR

    @property
    def share(self) -> float | None:
        """Share of the possible speed-ups above 1 if the verdict is ``unclear``."""
        return self.plan.pays_share_ratio if self.is_undecided else None


def rows(path: Path = DATA, *, names_gpu: bool = False) -> list[Row]:
    """Return the rows with an acceptance length of drafts that are no trees."""
    with path.open(encoding="utf-8", newline="") as file:
        return [
            Row(cells, names_gpu) for cells in DictReader(file) if cells["kind"] in {"measured", "fitted"}
        ]


KINDS: Final[dict[str, Callable[[Row], bool]]] = {
    "datacentre": lambda row: not row.is_consumer,
    "consumer": lambda row: row.is_consumer,
    "mixture, 4 GPUs or more": lambda row: (
        target_model(row.cells["served_name"]).architecture == "mixture_of_experts"
        and int(row.cells["gpus"]) >= MANY_GPUS
    ),
    "32 requests or more": lambda row: float(row.cells["running"]) >= HIGH_LOAD,
    "contexts of 4,000 or more": lambda row: float(row.cells["context"]) >= LONG_CONTEXT,
    **{
        method: lambda row, method=method: row.cells["method"] == method  # type: ignore[misc]
        for method in ("eagle", "eagle3", "mtp", "dflash", "ngram")
    },
}


@dataclass(frozen=True)
class Score:
    """Rows of one kind."""

    name: str
    rows: Sequence[Row]

    def share(self, holds: Callable[[Row], bool]) -> float | None:
        """Return the share of the rows for which something holds."""
        return sum(map(holds, self.rows)) / len(self.rows) if self.rows else None

    @property
    def cells(self) -> list[str]:
        """A row of the table."""
        shares = (self.share(each) for each in (_inside, _false, _undecided))
        return [self.name, str(len(self.rows)), *map(percent, shares)]


def _inside(row: Row) -> bool:
    return row.is_inside


def _false(row: Row) -> bool:
    return row.is_false


def _undecided(row: Row) -> bool:
    return row.is_undecided


def scores(known: Sequence[Row]) -> list[Score]:
    return [Score(name, [row for row in known if holds(row)]) for name, holds in KINDS.items()]


def band(known: Iterable[Row], low: float, high: float) -> list[Row]:
    """Return the rows of a band of shares; its upper end belongs to it."""
    return [row for row in known if row.share is not None and low < row.share <= high]


def missed(known: Sequence[Row]) -> Iterator[str]:
    """Yield the goals that the rows miss."""
    for each in scores(known)[:2]:
        inside, false, undecided = (each.share(one) or 0.0 for one in (_inside, _false, _undecided))
        if inside < MIN_INSIDE:
            yield f"{each.name}: inside {percent(inside)} %"
        if false > MAX_FALSE:
            yield f"{each.name}: false {percent(false)} %"
        if each.name == "datacentre" and undecided > MAX_UNDECIDED:
            yield f"{each.name}: undecided {percent(undecided)} %"
    likely = band(known, PROBABLY_PAYS, 1.0)
    if likely and sum(row.truth > 1 for row in likely) < MIN_RIGHT * len(likely):
        yield "probably pays: fewer than 85 % do"


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--rows", action="store_true", help="print each row too")
    arguments = parsed(options)
    known = rows()
    heads = ("measurements", "rows", "inside", "false", "undecided")
    print_table(heads, (each.cells for each in scores(known)))
    consumer = [row for row in rows(names_gpu=True) if row.is_consumer]
    print_table(heads, [Score("consumer, GPU named", consumer).cells])
    print_table(
        ("share above 1", "unclear", "truly pay"),
        (
            [f"{low:g} to {high:g}", str(len(found)), str(sum(row.truth > 1 for row in found))]
            for low, high in BANDS
            if (found := band(known, low, high))
        ),
    )
    if arguments.rows:
        print_table(("model", "GPU", "method", "load", "measured", "plan", "verdict"), map(_row, known))
    end(arguments, list(missed(known)))


def _row(row: Row) -> list[str]:
    its, plan = row.cells, row.plan
    ends = (plan.speedup_ratio, plan.speedup_ratio_lower, plan.speedup_ratio_upper)
    said = " ".join("-" if each is None else f"{each:.2f}" for each in ends)
    method, load = f"{its['method']} {its['tokens']}", f"{its['running']} x {its['context']}"
    mark = "" if row.is_inside else " outside"
    return [its["served_name"], its["gpu"], method, load, its["speedup"] + mark, said, plan.verdict.value]


if __name__ == "__main__":
    main()
