"""One row of the table of untrusted inputs: who controls an input, its four bounds, and inputs at the bounds."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

Kind: TypeAlias = Literal["socket", "file", "header", "label", "annotation", "environment"]

Read: TypeAlias = Callable[[bytes], Awaitable[object]]
"""Passes an input to the program's code; raises ``RejectedError`` if that code rejects it."""


class RejectedError(Exception):
    """Rejection of an input; the text is the reason in the log or in a response."""


@dataclass(frozen=True, slots=True)
class Row:
    """One untrusted input with its four bounds, for docs/maintainers/threat-model.md, the tests and the benchmark.

    Write each bound from the constant in the code, never as a literal number: the table cannot differ from it.
    """

    name: str
    """For example ``http_sd list``. Unique."""
    kind: Kind
    controlled_by: str
    """For example ``the server of discovery.http``."""
    bytes: str
    """The bound in bytes or characters."""
    items: str
    """The bound in items: groups, targets, labels, series, connections."""
    time: str
    """The bound in event-loop time: the size of a slice, a thread, a cap on the total."""
    addresses: str
    """The hosts, files or secrets that the input may make the program address; ``nothing`` if it cannot."""
    beyond_bounds: str
    """The effect of an input beyond the bounds, with the log event or the HTTP status."""
    read: Read
    worst: Mapping[str, Callable[[], bytes]]
    """By a description: the most expensive inputs within every bound. ``read`` accepts each."""
    beyond: Mapping[str, Callable[[], bytes]] = field(default_factory=dict)
    """By the name of the bound: inputs just beyond that one bound. ``read`` raises ``RejectedError`` for each."""
