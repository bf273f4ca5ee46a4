"""Run every benchmark, one after the other; each prints a Markdown table.

    python -m benchmarks [--smoke] [NAME ...]

With ``--smoke`` each has so little work that it takes seconds. Ends with status 1 if a benchmark fails or
misses a goal. A smoke run skips a benchmark that lacks a program or a package, and says so.
"""

from __future__ import annotations

import subprocess
import sys
import time
from typing import Final

from benchmarks.console import parser

NAMES: Final = (
    *("arm_traffic", "cost", "coverage", "drifts", "drops", "end_to_end"),
    *("learned_cost", "published", "verdict_truth"),
)
MISSING: Final = ("not installed: ", "ModuleNotFoundError: No module named ")
"""Begins of the last line of a benchmark that lacks a program or a package."""
SMOKE_SECONDS: Final = 300.0
"""A smoke run that takes longer hangs."""


def main() -> int:
    options = parser(__doc__)
    options.add_argument("names", nargs="*", metavar="NAME", help="benchmarks; without a name, all")
    options.add_argument("--smoke", action="store_true", help="little work: only check that each runs")
    arguments = options.parse_args()
    chosen, failed = arguments.names or NAMES, list[str]()
    for name in chosen:
        print(f"\n## {name}\n", flush=True)
        begin = time.monotonic()
        status, reason = run(name, smoke=arguments.smoke)
        print(f"\n{name}: {time.monotonic() - begin:.0f} s", flush=True)
        if arguments.smoke and status and reason.startswith(MISSING):
            print(f"SKIPPED {name}: {reason}", flush=True)
        elif status:
            failed.append(f"{name}: {reason or status}")
    print(f"\n{len(failed)} of {len(chosen)} benchmarks failed." + "".join(f"\n- {one}" for one in failed))
    return 1 if failed else 0


def run(name: str, *, smoke: bool) -> tuple[int, str]:
    command = [sys.executable, "-m", f"benchmarks.{name}", *(["--smoke"] if smoke else [])]
    try:
        done = subprocess.run(
            command, stderr=subprocess.PIPE, text=True, check=False, timeout=SMOKE_SECONDS if smoke else None
        )
    except subprocess.TimeoutExpired:
        return 1, f"it took more than {SMOKE_SECONDS:g} s"
    sys.stderr.write(done.stderr)
    return done.returncode, (done.stderr.strip().splitlines() or [""])[-1]


if __name__ == "__main__":
    sys.exit(main())
