"""Change the behaviour of the core in one place at a time: the tests must fail each time.

    python -m tests.mutants [--jobs 2] [PART OF A FILE'S NAME …]

Each mutant of ``tests/data/mutants.yml`` runs the tests of its area in a copy of the checkout, up to the first failure.
Exit status 1 if one survives.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import yaml

from tests.paths import CHECKOUT, DATA

PACKAGE = Path("exporter/spec_decode_exporter")
TABLE = yaml.safe_load((DATA / "mutants.yml").read_text(encoding="utf-8"))
AREAS = TABLE["areas"]


class Mutant(NamedTuple):
    """One change, and the area whose tests must see it."""

    area: str
    file: str
    old: str
    new: str


MUTANTS = [Mutant(*row) for row in TABLE["mutants"]]


def survives(mutant: Mutant) -> bool:
    """Return whether the tests of the area pass with the change."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "project"
        ignored = shutil.ignore_patterns(".git", ".venv", ".e2e", "*_cache", "__pycache__", "node_modules")
        shutil.copytree(CHECKOUT, copy, ignore=ignored)
        path = copy / PACKAGE / mutant.file
        path.write_text(path.read_text().replace(mutant.old, mutant.new))
        tests = AREAS[mutant.area].split()
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
        done = subprocess.run(command, cwd=copy, capture_output=True, text=True, check=False)
        if done.returncode > 1:  # neither passed nor failed: the tests did not run
            raise SystemExit(f"{mutant.file}: the tests of {mutant.area} did not run:\n{done.stdout[-2000:]}")
        return done.returncode == 0


def main() -> None:
    """Run the mutants; print the fate of each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("parts", nargs="*")
    arguments = parser.parse_args()
    chosen = [each for each in MUTANTS if any(part in each.file for part in arguments.parts or [""])]
    for each in chosen:  # before the first one runs: all take an hour
        if (times := (CHECKOUT / PACKAGE / each.file).read_text().count(each.old)) != 1:
            raise SystemExit(f"{each.file}: `{each.old}` occurs {times} times, not once")
    with ThreadPoolExecutor(arguments.jobs) as pool:
        fates, survivors = pool.map(survives, chosen), 0
        for mutant, survived in zip(chosen, fates, strict=True):
            survivors += survived
            old, new = (text.strip().rpartition("\n")[2] for text in mutant[2:])
            print("SURVIVES" if survived else "seen", mutant.file, "|", old, "->", new, flush=True)
    print(f"{len(chosen)} mutants, {survivors} survive")
    raise SystemExit(survivors > 0)


if __name__ == "__main__":
    main()
