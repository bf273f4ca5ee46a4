"""Serve /metrics: one rendering per snapshot, format and encoding, shared by all requests.

A rendering that was made early for a regular scrape is kept for it: see ``early_pages``.

The pieces of a rendering are sent without a copy, so slow clients take no additional memory. The renderings
in memory have a limit in bytes. Above it, the oldest is dropped, and the connections that read it are closed.
"""

from __future__ import annotations

import asyncio
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, Final, NamedTuple
from weakref import ref

from aiohttp import hdrs, web

from spec_decode_exporter.core.byte_stream import compressed, each, joined
from spec_decode_exporter.core.cooperative_yield import yield_to_event_loop
from spec_decode_exporter.core.single_flight import SHARED_SECONDS
from spec_decode_exporter.metrics.negotiation import choose_format, choose_gzip
from spec_decode_exporter.web.early_pages import EarlyPages
from spec_decode_exporter.web.server.client_address import client_address
from spec_decode_exporter.web.server.streaming import SEND_SECONDS
from spec_decode_exporter.web.state import STATE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from weakref import ReferenceType

    from spec_decode_exporter.core.clock import Clock
    from spec_decode_exporter.metrics.negotiation import Format
    from spec_decode_exporter.metrics.page import MetricsPage
    from spec_decode_exporter.monitor.snapshot import Snapshot

MAX_RENDERED_BYTES: Final = 64 * 2**20
"""Bytes of all renderings that are shared or being sent."""


class Representation(NamedTuple):
    """Form of a page that a client reads: a format, with or without compression."""

    format_: Format
    gzip: bool

    @property
    def headers(self) -> Mapping[str, str]:
        """Header lines of its response."""
        headers = {"Content-Type": self.format_.content_type, "Vary": "Accept, Accept-Encoding"}
        return {**headers, "Content-Encoding": "gzip"} if self.gzip else headers


@dataclass(slots=True, eq=False, weakref_slot=True)
class Rendering:
    """A rendered page in pieces, and the connections that read it."""

    pieces: Sequence[bytes]
    size: int = field(init=False)
    readers: set[asyncio.Transport] = field(default_factory=set)

    def __post_init__(self) -> None:
        """Sum up the bytes."""
        self.size = sum(map(len, self.pieces))

    @contextmanager
    def read_by(self, transport: asyncio.Transport | None) -> Iterator[asyncio.Transport]:
        """Register a connection as a reader within the context."""
        if transport is None:
            raise ConnectionResetError
        self.readers.add(transport)
        try:
            yield transport
        finally:
            self.readers.discard(transport)

    def abort_readers(self) -> None:
        """Close the connections that read it."""
        for transport in tuple(self.readers):
            transport.abort()
        self.readers.clear()


class _Variant:
    """The newest rendering of a representation."""

    def __init__(self) -> None:
        self.rendering: Rendering | None = None
        self.snapshot = 0
        """Number of the snapshot that it shows."""
        self.lock = asyncio.Lock()
        self.kept_until = -inf
        """Until then (monotonic), requests get the rendering although there may be a newer snapshot."""
        self._expiry: asyncio.TimerHandle | None = None

    def share(self, rendering: Rendering, snapshot: int) -> None:
        """Share a rendering for ``SHARED_SECONDS``."""
        self.rendering, self.snapshot = rendering, snapshot
        self.expire_after(SHARED_SECONDS)

    def expire_after(self, seconds: float) -> None:
        """Free the rendering after ``seconds``, or when it would expire anyway if that is later."""
        loop = asyncio.get_running_loop()
        moment = loop.time() + seconds
        if self._expiry is not None:
            moment = max(moment, self._expiry.when())
            self._expiry.cancel()
        self._expiry = loop.call_at(moment, self.free)

    def free(self) -> None:
        """Free the rendering."""
        if self._expiry is not None:
            self._expiry.cancel()
        self.rendering = self._expiry = None


class SharedPage:
    """Cache of renderings by representation."""

    def __init__(self, page: MetricsPage, clock: Clock, max_bytes: int = MAX_RENDERED_BYTES) -> None:
        self._page = page
        self._clock = clock
        self._max_bytes = max_bytes
        self._variants: dict[tuple[bool, bool], _Variant] = {}
        self._renderings: list[ReferenceType[Rendering]] = []
        """Weak references, the oldest first: a rendering that is neither shared nor read is freed."""

    @property
    def alive(self) -> list[Rendering]:
        """Renderings that are shared or read, the oldest first."""
        return [rendering for reference in self._renderings if (rendering := reference()) is not None]

    def kept(self, wanted: Representation) -> Rendering | None:
        """Return the newest rendering while it is kept, whatever the snapshot; None otherwise."""
        variant = self._variant(wanted)
        return variant.rendering if self._clock.monotonic() < variant.kept_until else None

    def keep(self, wanted: Representation, seconds: float) -> None:
        """Serve the newest rendering for ``seconds``."""
        variant = self._variant(wanted)
        variant.kept_until = max(variant.kept_until, self._clock.monotonic() + seconds)
        variant.expire_after(seconds)

    def forget(self) -> None:
        """Keep no rendering any longer."""
        for variant in self._variants.values():
            variant.kept_until = -inf

    async def rendering(self, snapshot: Snapshot, wanted: Representation) -> Rendering:
        """Return the page of the snapshot, or of a newer one."""
        variant = self._variant(wanted)
        async with variant.lock:
            # A request that waited for the lock gets the newer snapshot that was rendered.
            if variant.rendering is None or variant.snapshot < snapshot.number:
                plain = self._plain(snapshot.number, wanted)
                page = each(plain.pieces) if plain else self._page.render(snapshot, wanted.format_)
                page = compressed(page) if wanted.gzip else page
                rendering = Rendering([piece async for piece in joined(page)])
                self._make_room(rendering.size)
                self._renderings.append(ref(rendering))
                variant.share(rendering, snapshot.number)
            assert variant.rendering is not None  # noqa: S101  it is rendered above if it was absent
            return variant.rendering

    def _variant(self, wanted: Representation) -> _Variant:
        return self._variants.setdefault((wanted.format_.is_open, wanted.gzip), _Variant())

    def _plain(self, snapshot: int, wanted: Representation) -> Rendering | None:
        """Return the same page without compression, if it was rendered."""
        variant = self._variants.get((wanted.format_.is_open, False))
        return variant.rendering if variant and variant.snapshot >= snapshot else None

    def _make_room(self, size: int) -> None:
        """Drop the oldest renderings for a new one of ``size`` bytes."""
        alive = self.alive
        while alive and sum(rendering.size for rendering in alive) + size > self._max_bytes:
            self._drop(alive.pop(0))
        self._renderings = list(map(ref, alive))

    def _drop(self, rendering: Rendering) -> None:
        rendering.abort_readers()
        for variant in self._variants.values():
            if variant.rendering is rendering:
                variant.free()


METRICS: Final = web.AppKey("metrics", SharedPage)
EARLY: Final = web.AppKey("early", EarlyPages)


def forget_pages(app: web.Application) -> None:
    """Render a new page for the next scrape: the configuration has changed."""
    app[EARLY].forget()
    app[METRICS].forget()


@dataclass(frozen=True, slots=True)
class _ScrapedPage:
    """The page as a scrape reads it."""

    app: web.Application
    wanted: Representation

    async def render(self) -> Rendering:
        """Render the page of the newest snapshot, or share it with other requests."""
        # Not kept in a variable: a client that reads slowly would keep the snapshot in memory.
        return await self.app[METRICS].rendering(await self.app[STATE].snapshot(), self.wanted)

    def keep(self, seconds: float) -> None:
        """Serve the newest rendering for ``seconds``."""
        self.app[METRICS].keep(self.wanted, seconds)


async def metrics(request: web.Request) -> web.StreamResponse:
    """Serve the metrics in the format and the encoding that the client prefers."""
    wanted = Representation(
        choose_format(_header(request, hdrs.ACCEPT)), choose_gzip(_header(request, hdrs.ACCEPT_ENCODING))
    )
    page, begin = _ScrapedPage(request.app, wanted), request.app[STATE].clock.monotonic()
    rendering = request.app[METRICS].kept(wanted) or await page.render()
    request.app[EARLY].scraped(client_address(request.transport), begin, page, rendering)
    return await _send(request, rendering, wanted.headers)


def _header(request: web.Request, name: str) -> str:
    """Return a header; join its values if it was sent several times."""
    return ",".join(request.headers.getall(name, []))


async def _send(request: web.Request, rendering: Rendering, headers: Mapping[str, str]) -> web.StreamResponse:
    """Send a rendering; close the connection of a client that does not read it in time."""
    response = web.StreamResponse(headers=headers)
    response.content_length = rendering.size
    transport = request.transport
    with suppress(ConnectionError), rendering.read_by(transport) as reader:
        await response.prepare(request)
        try:
            async with asyncio.timeout(SEND_SECONDS):
                for piece in rendering.pieces if request.method != hdrs.METH_HEAD else ():
                    await response.write(piece)
                    await yield_to_event_loop()
                await response.write_eof()
        except TimeoutError:
            reader.abort()
    return response
