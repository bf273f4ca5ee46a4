"""Markdown tables of benchmarks."""

from __future__ import annotations

from collections.abc import Iterable


def percent(part: float, whole: float) -> str:
    """Return a share in percent, with one decimal."""
    return f"{100 * part / whole:.1f}"


def table(heads: list[str], rows: Iterable[list[str]]) -> None:
    """Print a table."""
    print(f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}")
    for row in rows:
        print(f"| {' | '.join(row)} |")
    print(flush=True)
