"""Command line and tables of a benchmark. With ``--smoke`` it has so little work that it takes seconds.

A smoke run finds a benchmark that no longer fits the code. Its figures mean nothing: goals are not checked.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any


def parser(description: str | None) -> argparse.ArgumentParser:
    return argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )


def parsed(options: argparse.ArgumentParser, **smoke: Any) -> argparse.Namespace:
    """Parse the command line. With ``--smoke`` the defaults are ``smoke``; an option still overrides them."""
    options.add_argument("--smoke", action="store_true", help="little work: only check that it runs")
    arguments = options.parse_args()
    if arguments.smoke:
        options.set_defaults(**smoke)
        arguments = options.parse_args()
    return arguments


def end(arguments: argparse.Namespace, missed: Sequence[str]) -> None:
    """Print the missed goals, and end with status 1 if there are some; a smoke run has no goals."""
    if arguments.smoke or not missed:
        return
    print(*(f"missed: {goal}" for goal in missed), sep="\n")
    sys.exit(1)


def percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f}"


def print_table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a Markdown table, each row as soon as it is known."""
    for line in chain([heads, ["---", *["--:"] * (len(heads) - 1)]], rows):
        print(f"| {' | '.join(line)} |", flush=True)
    print()
