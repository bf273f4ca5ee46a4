"""Look up host names by the system's resolver, in threads of its own.

A look-up without a response keeps its thread for 10 s or more. The event loop has few threads: six such names
would block all other look-ups, files, password checks and the end of the process.
"""

from __future__ import annotations

import asyncio
import socket
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

THREADS: Final = 32
"""Concurrent look-ups of configured names."""
THREADS_PER_LIST: Final = 4
"""Concurrent look-ups for all targets of one list."""


class Resolver:
    """Resolver with a limit of concurrent look-ups; further ones wait."""

    def __init__(self, threads: int) -> None:
        """Look up at most ``threads`` names concurrently. Threads start on demand."""
        self._threads = ThreadPoolExecutor(threads, "resolver")

    async def look_up(
        self, host: str, port: int, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[str]:
        """Return the distinct addresses of a host, in the order of the system.

        Raises:
            OSError: The name is unknown, or no name server responds.
            UnicodeError: The name is invalid.
        """
        if _is_address(host):
            return [host]
        look_up = partial(socket.getaddrinfo, host, port, family=family, type=socket.SOCK_STREAM)
        results = await self.run(look_up)
        return list(dict.fromkeys(str(address[0]) for *_, address in results))

    async def run(self, look_up: Callable[[], T]) -> T:
        """Run a look-up that does not use the system's resolver; return its result."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, look_up)


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


CONFIG_RESOLVER: Final = Resolver(THREADS)
"""Resolver of configured names, separate so that no list can block it."""
