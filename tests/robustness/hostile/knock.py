"""Send the same bytes to a port repeatedly: ``python -m tests.robustness.hostile.knock PORT CONNECTIONS ADDRESS FILE…``.

Each connection sends one of the files, reads the response and repeats; a closed connection is reopened. The
loop runs until the process ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from pathlib import Path

_PAUSE = 0.02
"""Seconds between two attempts to connect."""
_PIECE = 2**16


async def _knock(port: int, request: bytes, address: str) -> None:
    while True:
        with contextlib.suppress(OSError, TimeoutError):
            await _converse(port, request, address)
        await asyncio.sleep(_PAUSE)


async def _converse(port: int, request: bytes, address: str) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(address, 0))
    try:
        while not reader.at_eof():
            writer.write(request)
            await writer.drain()
            async with asyncio.timeout(5):
                await _read_answer(reader)
    finally:
        writer.close()


async def _read_answer(reader: asyncio.StreamReader) -> None:
    """Read one response with a Content-Length, or until the connection closes."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        return
    left = next(
        (int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), 0
    )
    while left > 0 and (piece := await reader.read(min(left, _PIECE))):
        left -= len(piece)


async def _main(port: int, connections: int, address: str, requests: list[bytes]) -> None:
    await asyncio.gather(
        *(_knock(port, requests[number % len(requests)], address) for number in range(connections))
    )


if __name__ == "__main__":
    bodies = [Path(file).read_bytes() for file in sys.argv[4:]]
    asyncio.run(_main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], bodies))
