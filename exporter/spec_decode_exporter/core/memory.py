"""Memory that the process has and does not use."""

from __future__ import annotations

from contextlib import suppress
from ctypes import CDLL


def return_memory() -> None:
    """Return unused memory to the system, if the library of C is glibc."""
    with suppress(AttributeError):
        CDLL(None).malloc_trim(0)
