"""Threads for blocking work, a pool for each kind: a slow file system or a long list delays no other kind."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import Final, ParamSpec, TypeVar

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


class ThreadPool:
    """Threads for one kind of blocking work; each starts when it is needed."""

    def __init__(self, name: str, threads: int) -> None:
        """Run at most ``threads`` functions at a time."""
        self._executor = ThreadPoolExecutor(threads, name)

    async def run(
        self, function: Callable[Parameters, Result], *args: Parameters.args, **kwargs: Parameters.kwargs
    ) -> Result:
        """Return the result of a function that runs in a thread, in the caller's context."""
        call = partial(copy_context().run, function, *args, **kwargs)
        return await asyncio.get_running_loop().run_in_executor(self._executor, call)


TARGET_LISTS: Final = ThreadPool("target-lists", 2)
"""Parsing holds the GIL: more threads would delay the polls."""
CONFIGURATION: Final = ThreadPool("configuration", 1)
WEB_CONFIGURATION: Final = ThreadPool("web-configuration", 1)
PASSWORDS: Final = ThreadPool("passwords", 1)
STATE: Final = ThreadPool("state", 1)
DOCUMENTATION: Final = ThreadPool("documentation", 1)
