"""Polling with the HTTP clients that `docs/maintainers/decisions/0001-http-client.md` compares.

    python -m benchmarks.clients CLIENT LOOP URL...

polls each URL once a second until it is killed, on beats as the exporter; reads nothing of the pages.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from math import floor

import aiohttp

from spec_decode_exporter.config.schema import HttpSettings
from spec_decode_exporter.scrape.http.client import Client
from spec_decode_exporter.scrape.poll.poll_schedule import PHASES

Get = Callable[[str], Awaitable[object]]
INTERVAL = 1.0
TIMEOUT = 5.0
MAX_BODY = 16 * 2**20


@asynccontextmanager
async def own() -> AsyncIterator[Get]:
    """The exporter's own, one for each target."""
    client = Client(HttpSettings(), timeout=TIMEOUT, max_body=MAX_BODY)
    try:
        yield client.get
    finally:
        await client.close()


@asynccontextmanager
async def with_aiohttp() -> AsyncIterator[Get]:
    """aiohttp's, set up to be as light as it can be: one session a target, no cookies, no redirects."""
    connector = aiohttp.TCPConnector(limit=1, enable_cleanup_closed=False)
    async with aiohttp.ClientSession(
        connector=connector,
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=TIMEOUT),
        auto_decompress=False,
        read_bufsize=2**18,
    ) as session:

        async def get(url: str) -> bytes:
            async with session.get(url, allow_redirects=False) as answer:
                return await answer.read()

        yield get


CLIENTS = {"own": own, "aiohttp": with_aiohttp}


async def _poll(url: str, phase: float, client: str) -> None:
    loop = asyncio.get_running_loop()
    start = floor(loop.time()) + 1 + phase
    async with CLIENTS[client]() as get:
        for number in itertools.count():
            await asyncio.sleep(max(0.0, start + number * INTERVAL - loop.time()))
            await get(url)


async def _poll_all(client: str, urls: list[str]) -> None:
    await asyncio.gather(
        *(_poll(url, INTERVAL * (n % PHASES) / PHASES, client) for n, url in enumerate(urls))
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("client", choices=CLIENTS)
    parser.add_argument("loop", choices=("asyncio", "uvloop"))
    parser.add_argument("urls", nargs="+")
    arguments = parser.parse_args()
    polling = _poll_all(arguments.client, arguments.urls)
    if arguments.loop == "uvloop":
        import uvloop

        uvloop.run(polling)
    else:
        asyncio.run(polling)


if __name__ == "__main__":
    main()
