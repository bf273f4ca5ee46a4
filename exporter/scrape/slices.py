"""Work that pauses now and then, so that whoever does it can let others have their turn."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from typing import TypeAlias, TypeVar

Result = TypeVar("Result")

Pausing: TypeAlias = Generator[None, None, Result]
"""Work that yields where it may pause, and returns its result."""


def finish(work: Pausing[Result]) -> Result:
    """Do the work in one go."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]


async def giving_way(work: Pausing[Result]) -> Result:
    """Do the work; whatever else is ready on the event loop has its turn at every pause."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        await asyncio.sleep(0)
