"""One row of the table of untrusted inputs: inputs at its bounds and beyond them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

Read: TypeAlias = Callable[[bytes], Awaitable[object]]
"""Passes an input to the program's code; raises ``RejectedError`` if that code rejects it."""


class RejectedError(Exception):
    """Rejection of an input; the text is the reason in the log or in a response."""


@dataclass(frozen=True, slots=True)
class Row:
    """One untrusted input, for the tests and the benchmark."""

    name: str
    """For example ``http_sd list``. Unique."""
    read: Read
    worst: Mapping[str, Callable[[], bytes]]
    """By a description: the most expensive inputs within every bound. ``read`` accepts each."""
    beyond: Mapping[str, Callable[[], bytes]] = field(default_factory=dict)
    """By the name of the bound: inputs just beyond that one bound. ``read`` raises ``RejectedError`` for each."""
