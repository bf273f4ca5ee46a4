"""Send the same bytes to a port repeatedly: ``python -m tests.robustness.knock PORT FILE…``.

Each of 40 connections sends one of the files, reads the response and repeats; a closed connection is reopened. The
loop runs until the process ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from pathlib import Path

_CONNECTIONS = 40
_PAUSE = 0.02
"""Seconds between two attempts to connect."""


async def _knock(port: int, request: bytes) -> None:
    while True:
        with contextlib.suppress(
            OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError
        ):
            await _converse(port, request)
        await asyncio.sleep(_PAUSE)


async def _converse(port: int, request: bytes) -> None:
    """Send the request and read the response, until one has no Content-Length or the connection ends."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        while True:
            writer.write(request)
            await writer.drain()
            async with asyncio.timeout(5):
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                left = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0] or 0)
                while left > 0 and (piece := await reader.read(min(left, 2**16))):
                    left -= len(piece)
    finally:
        writer.close()


async def _main(port: int, requests: list[bytes]) -> None:
    await asyncio.gather(*(_knock(port, requests[number % len(requests)]) for number in range(_CONNECTIONS)))


if __name__ == "__main__":
    asyncio.run(_main(int(sys.argv[1]), [Path(file).read_bytes() for file in sys.argv[2:]]))
