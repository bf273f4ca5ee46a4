"""Event loop of the commands."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from typing import Any, TypeVar

Result = TypeVar("Result")


def run_loop(coroutine: Coroutine[Any, Any, Result]) -> Result:
    """Run on uvloop if it is installed, else on asyncio's own loop."""
    if find_spec("uvloop") is None:
        return asyncio.run(coroutine)
    import uvloop

    result: Result = uvloop.run(coroutine)
    return result


class DetachedThreadPool(ThreadPoolExecutor):
    """Threads that do not delay the end of the program: a DNS look-up may hang for minutes."""

    def shutdown(self, wait: bool = False, *, cancel_futures: bool = True) -> None:  # noqa: FBT001, FBT002
        """Cancel waiting work and return, whatever ``wait`` is."""
        del wait
        super().shutdown(wait=False, cancel_futures=cancel_futures)
