"""Durations and sizes in Prometheus' syntax, ``1h30m``, ``16MiB``; numbers of parameters, ``8B``."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Final

_MILLISECONDS: Final = {
    "y": 365 * 86_400_000,
    "w": 7 * 86_400_000,
    "d": 86_400_000,
    "h": 3_600_000,
    "m": 60_000,
    "s": 1000,
    "ms": 1,
}
"""Units from large to small, their order in a duration."""

_ONLY_WHOLE: Final = frozenset("ywd")
"""Units that are written only without a remainder: 36h, not 1d12h."""

_BYTES: Final = {"B": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}

_COUNTS: Final = {"": 1, "K": 10**3, "M": 10**6, "B": 10**9, "T": 10**12}

DURATION_PATTERN: Final = (
    "^(0|(?=[0-9])" + "".join(f"([0-9]{{1,12}}{unit})?" for unit in _MILLISECONDS) + ")$"
)
SIZE_PATTERN: Final = "^(0|[0-9]{1,12}(B|[KMGT]i?B))$"
PARAMETERS_PATTERN: Final = "^[0-9]{1,15}(\\.[0-9]{1,15})?[KMBTkmbt]?$"

_DURATION: Final = re.compile(
    "".join(f"(?:(?P<{unit}>[0-9]{{1,12}}){unit})?" for unit in _MILLISECONDS), flags=re.ASCII
)
_SIZE: Final = re.compile(r"(?P<number>[0-9]{1,12})(?:(?P<unit>[KMGT])i?)?B")
_PARAMETERS: Final = re.compile(
    r"(?P<number>[0-9]{1,15}(?:\.[0-9]{1,15})?)(?P<unit>[KMBT]?)", flags=re.ASCII | re.IGNORECASE
)


def parse_duration(text: str) -> float:
    """Return the seconds in ``text``, such as ``1h30m`` or ``500ms``; ``0`` needs no unit.

    Raises:
        ValueError: It is not a duration; the message has an example.
    """
    match = _DURATION.fullmatch(text)
    if text == "0":
        return 0.0
    if match is None or not text:
        raise ValueError("is not a duration; write a number with its unit, such as 500ms, 30s, 5m or 1h30m")
    counts = match.groupdict(default="0")
    return sum(int(counts[unit]) * size for unit, size in _MILLISECONDS.items()) / 1000


def format_duration(seconds: float) -> str:
    """Write ``seconds`` in Prometheus' syntax, rounded to a millisecond: ``30s``, ``5m``, ``1h30m``."""
    rest = round(seconds * 1000)
    written = ""
    for unit, size in _MILLISECONDS.items():
        if unit in _ONLY_WHOLE and rest % size:
            continue
        count, rest = divmod(rest, size)
        written += f"{count}{unit}" if count else ""
    return written or "0s"


def parse_size(text: str) -> int:
    """Return the bytes in ``text``, such as ``16MiB`` or ``16MB``: both are 16 * 2**20.

    Raises:
        ValueError: It is not a size; the message has an example.
    """
    if text == "0":
        return 0
    match = _SIZE.fullmatch(text)
    if match is None:
        raise ValueError("is not a size; write a whole number with its unit, such as 512KiB or 16MiB")
    return int(match["number"]) * _BYTES[match["unit"] or "B"]


def format_size(size: int) -> str:
    """Write ``size`` bytes in the largest unit that leaves no remainder: ``16MiB``."""
    for unit, factor in reversed(_BYTES.items()):
        if size and size % factor == 0:
            return f"{size // factor}{unit if unit == 'B' else unit + 'iB'}"
    return "0"


def parse_parameters(text: str) -> float:
    """Return the number of parameters in ``text``, such as ``8B``, ``500M``, ``1.5b`` or ``8000000000``.

    Raises:
        ValueError: It is not a number of parameters; the message has an example.
    """
    match = _PARAMETERS.fullmatch(text)
    if match is None:
        raise ValueError("is not a number of parameters; write it as 500M, 1.5B or 8000000000")
    return float(Decimal(match["number"]) * _COUNTS[match["unit"].upper()])


def format_parameters(count: float) -> str:
    """Write a number of parameters in the largest unit that is not above it: ``1.5B``."""
    unit, size = next(((unit, size) for unit, size in reversed(_COUNTS.items()) if count >= size), ("", 1))
    return f"{Decimal(f'{count / size:.15g}'):f}{unit}"
