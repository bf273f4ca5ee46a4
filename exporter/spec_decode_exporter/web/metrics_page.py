"""Serve /metrics: one rendering of a snapshot, format and encoding, shared by all its readers."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from aiohttp import hdrs, web

from spec_decode_exporter.metrics.negotiation import Format, choose_format
from spec_decode_exporter.metrics.page import MetricsPage
from spec_decode_exporter.monitor.snapshot import Snapshot
from spec_decode_exporter.web.limits import accepts_gzip, in_turn, packed, sent
from spec_decode_exporter.web.state import STATE

MAX_RENDERED_BYTES: Final = 64 * 2**20  # bytes of all renderings that are shared or being sent


@dataclass(slots=True, eq=False)
class Rendering:
    """A rendered page, and the connections that read it."""

    pieces: Sequence[bytes]
    """Each as large as some milliseconds of rendering: a client that reads slowly takes no more memory."""
    snapshot: int  # number of the snapshot that it shows
    readers: set[asyncio.Transport] = field(default_factory=set)

    @property
    def size(self) -> int:
        """Bytes of its body."""
        return sum(map(len, self.pieces))


class SharedPage:
    """Renderings that are shared or being sent; above a limit in bytes, readers of the oldest are cut off."""

    def __init__(self, page: MetricsPage, max_bytes: int = MAX_RENDERED_BYTES) -> None:
        self._page, self._max_bytes = page, max_bytes
        self._locks: defaultdict[tuple[bool, bool], asyncio.Lock] = defaultdict(asyncio.Lock)
        self._newest: dict[tuple[bool, bool], Rendering] = {}
        self._alive: list[Rendering] = []  # oldest first

    @property
    def size(self) -> int:
        """Bytes of all renderings in memory."""
        return sum(rendering.size for rendering in self._alive)

    async def rendering(self, snapshot: Snapshot, format_: Format, *, gzip: bool) -> Rendering:
        """Return the page of the snapshot, or of a newer one, which another request has waited for."""
        wanted = format_.is_open, gzip
        async with self._locks[wanted]:
            newest = self._newest.get(wanted)
            if newest is None or newest.snapshot < snapshot.number:
                page = self._page.render(snapshot, format_)
                pieces = await packed(page) if gzip else [piece async for piece in page]
                newest = Rendering(pieces, snapshot.number)
                self._share(wanted, newest)
            return newest

    @contextmanager
    def read(self, rendering: Rendering, transport: asyncio.Transport) -> Iterator[None]:
        """Register a connection as a reader within the context."""
        rendering.readers.add(transport)
        try:
            yield
        finally:
            rendering.readers.discard(transport)
            self._free()

    def _share(self, wanted: tuple[bool, bool], new: Rendering) -> None:
        """Replace the shared rendering of this kind."""
        self._newest.pop(wanted, None)
        self._free()
        while self._alive and self.size + new.size > self._max_bytes:
            oldest = self._alive.pop(0)
            for transport in tuple(oldest.readers):
                transport.abort()
            self._newest = {key: each for key, each in self._newest.items() if each is not oldest}
        self._alive.append(new)
        self._newest[wanted] = new

    def _free(self) -> None:
        """Free renderings that are neither shared nor read."""
        shared = self._newest.values()
        self._alive = [each for each in self._alive if each.readers or each in shared]


METRICS: Final = web.AppKey("metrics", SharedPage)


async def metrics(request: web.Request) -> web.StreamResponse:
    """Serve the metrics in the format and the encoding that the client prefers."""
    shared, transport = request.app[METRICS], request.transport
    format_, gzip = choose_format(",".join(request.headers.getall(hdrs.ACCEPT, []))), accepts_gzip(request)
    # The snapshot is not kept in a variable: a client that reads slowly would keep it in memory.
    rendering = await shared.rendering(await request.app[STATE].snapshot(), format_, gzip=gzip)
    headers = {"Content-Type": format_.content_type, "Vary": "Accept, Accept-Encoding"}
    headers |= {"Content-Length": str(rendering.size), **({"Content-Encoding": "gzip"} if gzip else {})}
    response = web.Response(body=in_turn(rendering.pieces), headers=headers)
    if transport is None:  # the client has gone
        return response
    with shared.read(rendering, transport):
        return await sent(request, response)
