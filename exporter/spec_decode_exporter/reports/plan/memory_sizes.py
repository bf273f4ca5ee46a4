"""Memory as people who buy GPUs write it: 80GB is 80 · 10^9 bytes, 80GiB is 80 · 2^30."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Final

GIGABYTE: Final = 10**9
MEGABYTE: Final = 10**6
GIBIBYTE: Final = 2**30

_PREFIXES: Final = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}
_MEMORY: Final = re.compile(
    r"(?P<number>[0-9]{1,12}(?:\.[0-9]{1,9})?)\s?(?P<prefix>[KMGT]?)(?P<binary>i?)B", flags=re.ASCII
)


def parse_memory(text: str) -> int:
    """Return the bytes in ``text``: ``80GB`` is 80 · 10^9, ``143771MiB`` is 143771 · 2^20.

    Raises:
        ValueError: It is no amount of memory; the message says what one looks like.
    """
    match = _MEMORY.fullmatch(text.strip())
    if text == "0":
        return 0
    if match is None or (match["binary"] and not match["prefix"]):
        raise ValueError(f"{text!r} is no amount of memory; write it as 80GB, 79.6GiB or 81559MiB")
    base = 1024 if match["binary"] else 1000
    return int(Fraction(match["number"]) * base ** _PREFIXES[match["prefix"]])


def gigabytes(size: float) -> str:
    """Write bytes in GB of 10^9 bytes, or MB: ``156 GB``, ``16.0 GB``, ``0.31 GB``, ``5.8 MB``."""
    unit, name = (GIGABYTE, "GB") if abs(size) >= GIGABYTE / 10 or not size else (MEGABYTE, "MB")
    value = size / unit
    digits = next((digits for digits, least in enumerate((100.0, 10.0)) if abs(value) >= least), 2)
    return f"{value:,.{digits}f} {name}"
