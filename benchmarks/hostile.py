"""One hostile source next to nine good targets: the cost of each untrusted input to the installed program.

    python -m benchmarks.hostile [--seconds 10] [--row NAME] [--smoke]

The inputs are those of tests/robustness/inputs: the worst within the bounds, and some just beyond
one, each sent again and again. The row `connections` has slow, silent, greedy and many clients of the port,
each with bounds of its own. The exporter has the defaults, and the limit of engines of a sidecar with
128 MiB. The goals, on an idle machine: no gap above 2 s between two polls of a good target, /-/healthy under
0.5 s, /metrics under 1 s, 128 MiB at most.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from benchmarks import hostile_connections as connections
from benchmarks.options import parsed, parser
from tests.robustness.attacks import Trial, trials
from tests.robustness.scene import SIDECAR_MEMORY, Measured, watched

MAX_GAP = 2.0
"""Seconds between two polls of a good target; the interval is 1 s."""
MAX_HEALTHY = 0.5
"""Seconds for /-/healthy."""
MAX_METRICS = 1.0
"""Seconds for /metrics."""


def main() -> int:
    options = parser(__doc__)
    options.add_argument("--seconds", type=float, default=10.0, help="how long each input is sent")
    options.add_argument("--row", help="the row of the table; without one, all")
    arguments = parsed(options, seconds=1.0)
    chosen = [trial for trial in trials() if arguments.row in (None, trial.row)]
    if arguments.smoke:
        chosen = chosen[:1]
    print("| input | case | gap, s | /-/healthy, s | /metrics, s | memory, MiB |")
    print("|---|---|--:|--:|--:|--:|")
    found = list(_measured(chosen, arguments.seconds))
    missed = [(trial, misses(measured)) for trial, measured in found if misses(measured)]
    print(f"\n{len(found)} inputs; {len(missed)} miss a goal.")
    for trial, its in missed:
        print(f"- {trial.row}, {trial.case}: {', '.join(its)}")
    attacks = connections.ATTACKS if arguments.row in (None, connections.ROW) and not arguments.smoke else ()
    failed = list(map(_has_missed, attacks))
    return 1 if (missed or any(failed)) and not arguments.smoke else 0


def misses(measured: Measured) -> list[str]:
    """Return the names of missed goals."""
    times = (
        ("gap", measured.gap, MAX_GAP),
        ("/-/healthy", measured.healthy, MAX_HEALTHY),
        ("/metrics", measured.metrics, MAX_METRICS),
    )
    missed = [f"{name} {value:.2f} s" for name, value, most in times if value > most]
    if measured.resident > SIDECAR_MEMORY:
        missed.append(f"{measured.resident / 2**20:.0f} MiB")
    is_answered = not measured.healthy_failures and not measured.scrape_failures
    return missed if is_answered else [*missed, "not answered"]


def _has_missed(attack: connections.ConnectionAttack) -> bool:
    seen = connections.measured(attack)
    missed = connections.misses(attack, seen)
    print(
        connections.described(attack, seen), *(["missed:", ", ".join(missed)] if missed else []), flush=True
    )
    return bool(missed)


def _measured(chosen: Iterable[Trial], seconds: float) -> Iterator[tuple[Trial, Measured]]:
    for trial in chosen:
        with tempfile.TemporaryDirectory() as folder:
            measured = watched(trial.attack(), Path(folder), seconds)
        case = trial.case if trial.within else f"beyond: {trial.case}"
        times = " | ".join(f"{each:.2f}" for each in (measured.gap, measured.healthy, measured.metrics))
        print(f"| {trial.row} | {case} | {times} | {measured.resident / 2**20:.0f} |", flush=True)
        yield trial, measured


if __name__ == "__main__":
    sys.exit(main())
