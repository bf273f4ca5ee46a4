"""Values of the plan's flags: argparse repeats what is wrong with one."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from math import inf, isfinite
from typing import TypeVar

from spec_decode_exporter.reports.plan.gpu_memory import parse_memory

T = TypeVar("T")


def reader(parse: Callable[[str], T]) -> Callable[[str], T]:
    """Return a reader whose mistakes argparse repeats."""

    def checked(text: str) -> T:
        try:
            return parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return checked


def whole(least: int, most: int = 10**9) -> Callable[[str], int]:
    """Return a reader of whole numbers between two, both included."""

    def checked(text: str) -> int:
        number = int(text) if text.isascii() and text.isdigit() and len(text) < 11 else -1  # noqa: PLR2004
        if not least <= number <= most:
            raise argparse.ArgumentTypeError(f"{text!r} is no whole number from {least} to {most}")
        return number

    return checked


def ratio(most: float = inf) -> Callable[[str], float]:
    """Return a reader of finite numbers from 0 up to one, included."""

    def checked(text: str) -> float:
        number = _number(text)
        if not 0 <= number <= most:
            between = f"from 0 to {most:g}" if isfinite(most) else "of 0 or more"
            raise argparse.ArgumentTypeError(f"{text!r} is no number {between}")
        return number

    return checked


def share(text: str) -> float:
    """Return a share above 0 and up to 1."""
    number = ratio(1.0)(text)
    if not number:
        raise argparse.ArgumentTypeError(f"{text!r} of a GPU is nothing")
    return number


def memory(text: str) -> int:
    """Return the bytes of an amount of memory above 0."""
    size = reader(parse_memory)(text)
    if not size:
        raise argparse.ArgumentTypeError(f"a GPU has more memory than {text!r}")
    return size


def above_zero(text: str) -> float:
    """Return a finite number above 0."""
    number = ratio()(text)
    if not number:
        raise argparse.ArgumentTypeError(f"{text!r} tokens a second are none")
    return number


def _number(text: str) -> float:
    """Return a number that is finite; -1 for anything else."""
    try:
        number = float(text)
    except ValueError:
        return -1.0
    return number if isfinite(number) else -1.0
