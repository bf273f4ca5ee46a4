"""Tables of benchmarks: Markdown, or columns of equal width."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def percent(share: float | None) -> str:
    """Return a share in percent."""
    return "-" if share is None else f"{100 * share:.1f}"


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], *, markdown: bool = True) -> str:
    """Return a table."""
    lines = [list(heads), *map(list, rows)]
    if markdown:
        lines.insert(1, ["---", *["--:"] * (len(heads) - 1)])
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)
    widths = [max(len(line[place]) for line in lines) for place in range(len(heads))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def print_table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a Markdown table."""
    print(f"{table(heads, rows)}\n", flush=True)
