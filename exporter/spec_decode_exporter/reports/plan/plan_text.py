"""How a plan writes its figures: numbers of things, parameters, GPUs, rates that may be below 0."""

from __future__ import annotations

from typing import Final

from spec_decode_exporter.core import number_formats as numbers
from spec_decode_exporter.reports.plan.deployment_plan import Wanted
from spec_decode_exporter.reports.plan.memory_sizes import GIGABYTE

_UNITS: Final = (("T", 10**12), ("B", 10**9), ("M", 10**6))
_ROUNDED: Final = 0.9995
"""From this part of a unit on three digits are a whole one."""


def tokens(number: int) -> str:
    """Write a number of tokens: ``1 token``."""
    return _counted(number, "token")


def sequences(number: int) -> str:
    """Write a number of sequences: ``1 sequence``."""
    return _counted(number, "sequence")


def engines(number: int) -> str:
    """Write a number of engines: ``1 engine``."""
    return _counted(number, "engine")


def parameters(number: int) -> str:
    """Write how many weights there are: ``70.6B``, ``1B``, ``596M``."""
    unit, size = next(((unit, size) for unit, size in _UNITS if number >= _ROUNDED * size), _UNITS[-1])
    return f"{number / size:.3g}{unit}"


def gpus(wanted: Wanted) -> str:
    """Write the GPUs of one engine: ``4 x 80 GB``."""
    return f"{wanted.gpus.number} x {wanted.gpus.memory_bytes / GIGABYTE:.4g} GB"


def signed(value: float) -> str:
    """Write something a second that may be below 0."""
    return numbers.rate(value) if value >= 0 else f"-{numbers.rate(-value)}"


def kilobytes(size: float | None) -> str:
    """Write bytes in kB."""
    return numbers.ABSENT if size is None else f"{size / 1000:,.1f} kB"


def accepted_at(token_acceptance: float, number: int) -> float:
    """Return which share of so many draft tokens is accepted, at one acceptance of every token."""
    return sum(token_acceptance**position for position in range(1, number + 1)) / number


def acceptance(wanted: Wanted) -> str:
    """Write which acceptance the speed-ups are of."""
    if wanted.measured is not None:
        return "the observed acceptance"
    return f"the assumed acceptance of {wanted.acceptance:g}"


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
