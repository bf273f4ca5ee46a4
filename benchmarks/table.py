"""Tables of benchmarks, in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain


def percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f}"


def print_table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a Markdown table, each row as soon as it is known."""
    for line in chain([heads, ["---", *["--:"] * (len(heads) - 1)]], rows):
        print(f"| {' | '.join(line)} |", flush=True)
    print()
