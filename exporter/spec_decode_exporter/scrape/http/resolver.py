"""Look up host names by the system's resolver, in threads that nothing else needs.

A look-up whose name server does not answer keeps its thread for 10 s or more. The event loop has few threads:
six such names hold up all other look-ups, files, password checks and the end of the process.
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
"""Look-ups at once of the names in the configuration."""
THREADS_PER_LIST: Final = 4
"""Look-ups at once of all targets of one list."""


class Resolver:
    """Looks up names, a few at a time; further look-ups wait."""

    def __init__(self, threads: int) -> None:
        """Look up ``threads`` names at once. A thread is only started when it is needed."""
        self._threads = ThreadPoolExecutor(threads, "resolver")

    async def look_up(
        self, host: str, port: int, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[str]:
        """Return the addresses of a host in the order of the system, each once.

        Raises:
            OSError: The name is not known, or no name server answers.
            UnicodeError: This cannot be a name.
        """
        if _is_address(host):
            return [host]
        look_up = partial(socket.getaddrinfo, host, port, family=family, type=socket.SOCK_STREAM)
        found = await self.run(look_up)
        return list(dict.fromkeys(str(address[0]) for *_, address in found))

    async def run(self, look_up: Callable[[], T]) -> T:
        """Return the result of a look-up by other means than the system's resolver."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, look_up)


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


CONFIG_RESOLVER: Final = Resolver(THREADS)
"""Looks up the names in the configuration, which no list can hold up."""
