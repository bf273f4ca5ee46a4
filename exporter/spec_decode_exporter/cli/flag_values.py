"""Values of flags: readers that raise an error with the text for argparse."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from math import inf, isfinite
from typing import TypeVar

from spec_decode_exporter.config.types import parse_duration
from spec_decode_exporter.reports.plan.gpu_memory import parse_memory

T = TypeVar("T")


def reader(parse: Callable[[str], T]) -> Callable[[str], T]:
    """Return a reader that turns the ValueError of ``parse`` into an error of argparse."""

    def checked(text: str) -> T:
        try:
            return parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return checked


def duration(text: str) -> float:
    """Return the seconds of a duration."""
    try:
        return parse_duration(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} {error}") from None


def whole(lower: int, upper: int = 10**9) -> Callable[[str], int]:
    """Return a reader of whole numbers between two, both included."""

    def checked(text: str) -> int:
        number = int(text) if text.isascii() and text.isdigit() and len(text) < 11 else -1  # noqa: PLR2004
        if not lower <= number <= upper:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {lower} to {upper}")
        return number

    return checked


def ratio(upper: float = inf) -> Callable[[str], float]:
    """Return a reader of finite numbers from 0 up to ``upper``, included."""

    def checked(text: str) -> float:
        number = _number(text)
        if not 0 <= number <= upper:
            between = f"from 0 to {upper:g}" if isfinite(upper) else "of 0 or more"
            raise argparse.ArgumentTypeError(f"{text!r} is not a number {between}")
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
        raise argparse.ArgumentTypeError(f"{text!r} is not more than 0")
    return number


def _number(text: str) -> float:
    """Return a finite number; -1 for any other text."""
    try:
        number = float(text)
    except ValueError:
        return -1.0
    return number if isfinite(number) else -1.0
