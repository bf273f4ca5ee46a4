"""Lint and test what a change touches, in 30 s: ``python -m tests.near [--since BRANCH] [--list]``.

Changed are the files that differ from the merge base with the main branch, in commits and in the working tree. Ruff
checks these files and mypy the whole project, beside the tests that ``ROWS`` names. Slow tests are left to ``make test``.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from tests.paths import CHECKOUT

PARENTS: Final = ("origin/main", "main")
"""Branches that a change starts from; the first that exists counts."""

ROWS: Final[Sequence[tuple[str, str]]] = (
    (r"(tests/(?!e2e/|contract/chart/)(?:.+/)?test_\w+\.py)", r"\1"),
    (r"tests/(unit/[a-z_]+|contract/(?!chart)[a-z]+|robustness|service)/.+", r"tests/\1"),
    (r"tests/(near|every|conftest)\.py", r"tests/unit/test_\1.py"),
    (r"tests/data/(pins)/.+", r"tests/contract/test_\1*.py"),
    (r"tests/data/(metrics|reports)/.+", r"tests/unit/\1"),
    (r"tests/data/plans/.+", r"tests/unit/reports"),
    (r"tests/data/alerts/.+", r"tests/contract/rules"),
    (r"tests/data/(pages|traces)/.+", r"tests/unit/scrape"),
    (r"exporter/spec_decode_exporter/(config)/.+", r"tests/unit/\1 + tests/unit/findings + tests/contract/docs/test_reference.py"),
    (r"exporter/spec_decode_exporter/scrape/engines\.py", r"tests/unit/scrape + tests/unit/history + tests/unit/views + tests/contract/docs"),
    (r"exporter/spec_decode_exporter/(?:analysis/figure_table|metrics/table)\.py", r"tests/unit/analysis/test_figure_table.py + tests/unit/metrics + tests/unit/views + tests/contract/docs"),
    (r"exporter/spec_decode_exporter/(\w+)/(?:.+/)?_*([a-z]\w*)\.py", r"tests/unit/\1/**/test_\2*.py | tests/unit/\1"),
    (r"exporter/spec_decode_exporter/(\w+)/.+", r"tests/unit/\1"),
    (r"exporter/spec_decode_exporter/__main__\.py", r"tests/unit/test_main.py"),
    (r"docs/changes/.+|docs/generate/(links|changelog)\.py|image/release_check\.py", r"tests/contract/test_release.py"),
    (r"(benchmarks|image)/.+", r"tests/unit/\1"),
    (r"config/(prometheus|alertmanager)/.+", r"tests/contract/rules"),
    (r"config/.+", r"tests/contract/test_stack.py"),
    (r"(grafana|docs)/.+", r"tests/contract/\1"),
    (r"[A-Z]+\.md", r"tests/contract/docs"),
    (r"helm/.+", r"tests/contract/test_chart_values.py"),
    (r"Dockerfile|\.dockerignore", r"tests/contract/test_supply_chain.py"),
    (r"\.github/.+|.+\.lock|pyproject\.toml|Makefile", r"tests/contract/test_supply_chain.py"),
)  # fmt: skip
"""A changed file, and its tests, by the first row that matches: groups with ``+`` between them, and after ``|`` what stands in
for a group that does not exist."""

ALL_SLOW: Final = 5
"""Exit status of pytest if no test is left without the slow ones."""
FAR: Final = 200
"""Changed files from which the base is probably another branch."""
MANY: Final = 8
"""Test files from which two processes are worth their start."""


def main() -> int:
    """Check the changes; return 1 if a check fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--since", help="what the change is compared with; without it, the main branch")
    parser.add_argument(
        "--list", action="store_true", help="print the changed files with their tests, and end"
    )
    arguments = parser.parse_args()
    changed = changed_files(arguments.since)
    if arguments.list:
        for path in changed:
            print(path, *tests_of(path))
        return 0
    tests = selected(changed)
    if len(changed) > FAR:
        print(
            f"{len(changed)} files differ: if the change began elsewhere, `make near SINCE=BRANCH` compares with that branch"
        )
    if any(path.startswith("exporter/") for path in changed) and not any(
        "docs/changes/" in path for path in changed
    ):
        print("no file in docs/changes: needed if users see the change")
    if not changed:
        print("nothing has changed")
        return 0
    for path in changed:
        if not tests_of(path):
            print(f"{path}: no test of its own; `make check` runs all")
    running = [(command, subprocess.Popen(command, cwd=CHECKOUT)) for command in commands(changed, tests)]
    failed = [" ".join(command) for command, process in running if process.wait() not in {0, ALL_SLOW}]
    print(*(f"failed: {command[:100]}" for command in failed), sep="\n", end="\n" if failed else "")
    return 1 if failed else 0


def changed_files(base: str | None = None) -> list[str]:
    """Return the paths that differ from the merge base, and those that git does not know yet."""
    bases = [base] if base else [name for name in PARENTS if _git("rev-parse", "--verify", "--quiet", name)]
    start = _git("merge-base", "HEAD", bases[0]) if bases else ["HEAD"]
    tracked = _git("diff", "--name-only", "--no-renames", *start)
    return sorted({*tracked, *_git("ls-files", "--others", "--exclude-standard")})


def _git(*words: str) -> list[str]:
    done = subprocess.run(["git", *words], cwd=CHECKOUT, capture_output=True, text=True, check=False)
    return done.stdout.split("\n")[:-1]


def tests_of(path: str) -> list[str]:
    """Return the tests of a changed file that exist."""
    for pattern, tests in ROWS:
        if match := re.fullmatch(pattern, path):
            groups = match.expand(tests).split("+")
            found = (filter(None, map(_existing, group.split("|"))) for group in groups)
            return [test for choices in found for test in next(choices, [])]
    return []


def _existing(pattern: str) -> list[str]:
    return sorted(str(path.relative_to(CHECKOUT)) for path in CHECKOUT.glob(pattern.strip()))


def selected(changed: Iterable[str]) -> list[str]:
    """Return the tests of all changed files; a folder stands for the files in it."""
    found = sorted({test for path in changed for test in tests_of(path)})
    return [test for test in found if not any(test.startswith(f"{other}/") for other in found)]


def commands(changed: Sequence[str], tests: Sequence[str]) -> Iterator[list[str]]:
    """Yield the commands that check a change; they may run side by side."""
    bin_ = Path(sys.executable).parent
    code = [path for path in changed if path.endswith(".py") and (CHECKOUT / path).exists()]
    if code:
        yield [f"{bin_}/ruff", "check", "--quiet", *code]
        yield [f"{bin_}/ruff", "format", "--check", "--quiet", *code]
        yield [f"{bin_}/mypy", "--no-error-summary"]
    if any(path.startswith("exporter/") for path in code):
        yield [f"{bin_}/lint-imports", "--no-logo"]
        yield [f"{bin_}/python", "-m", "tests.budgets"]
    if tests:
        files = sum(len(list((CHECKOUT / test).rglob("test_*.py"))) or 1 for test in tests)
        parallel = ["-n", "auto", "--dist", "worksteal"] if files > MANY else []
        yield [f"{bin_}/pytest", "-q", "-m", "not slow", *parallel, *tests]


if __name__ == "__main__":
    sys.exit(main())
