"""Event loop of the commands."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from math import inf
from typing import Any, Final, TypeVar

ONE_INTERRUPT: Final = 0.5
"""Seconds within which signals are one interrupt."""

Result = TypeVar("Result")


def run_loop(coroutine: Coroutine[Any, Any, Result]) -> Result:
    """Run on uvloop if it is installed, else on asyncio's own loop."""
    if find_spec("uvloop") is None:
        return asyncio.run(coroutine)
    import uvloop

    result: Result = uvloop.run(coroutine)
    return result


def stop_on_signals(stop: asyncio.Event) -> None:
    """Set ``stop`` on SIGINT or SIGTERM; another signal cancels the present task.

    Signals within ``ONE_INTERRUPT`` are one: ``timeout`` signals the process and its group.
    """
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    first = -inf

    def interrupt() -> None:
        nonlocal first
        if loop.time() < first + ONE_INTERRUPT:
            return
        if stop.is_set() and task is not None:
            task.cancel()
        first = loop.time()
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, interrupt)


class DetachedThreadPool(ThreadPoolExecutor):
    """Threads that do not delay the end of the program: a DNS look-up may hang for minutes."""

    def shutdown(self, wait: bool = False, *, cancel_futures: bool = True) -> None:  # noqa: FBT001, FBT002
        """Cancel waiting work and return, whatever ``wait`` is."""
        del wait
        super().shutdown(wait=False, cancel_futures=cancel_futures)
