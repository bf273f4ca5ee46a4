"""The event loop that the commands run on."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from typing import Any, TypeVar

Result = TypeVar("Result")


def run_loop(coroutine: Coroutine[Any, Any, Result]) -> Result:
    """Run on uvloop where it is installed, else on asyncio's own loop."""
    if find_spec("uvloop") is None:
        return asyncio.run(coroutine)
    import uvloop

    result: Result = uvloop.run(coroutine)
    return result


class Unwaited(ThreadPoolExecutor):
    """Threads that nobody waits for when the program ends: what they still do is of no use then."""

    def shutdown(self, wait: bool = False, *, cancel_futures: bool = True) -> None:  # noqa: FBT001, FBT002
        """Let them be, whatever ``wait`` asks for."""
        del wait
        super().shutdown(wait=False, cancel_futures=cancel_futures)
