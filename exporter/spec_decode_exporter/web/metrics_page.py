"""Serve /metrics: one rendering per snapshot, format and encoding, shared by all requests.

The pieces of a rendering are sent without a copy, so slow clients take no additional memory. The renderings
in memory have a limit in bytes. Above it, the oldest is dropped, and the connections that read it are closed.
"""

from __future__ import annotations

import asyncio
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple
from weakref import ref

from aiohttp import hdrs, web

from spec_decode_exporter.core.tasks import yield_to_event_loop
from spec_decode_exporter.metrics.negotiation import choose_format, choose_gzip
from spec_decode_exporter.web.state import STATE
from spec_decode_exporter.web.streaming import SEND_SECONDS, compressed, each, joined

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from weakref import ReferenceType

    from spec_decode_exporter.metrics.negotiation import Format
    from spec_decode_exporter.metrics.page import MetricsPage
    from spec_decode_exporter.monitor.snapshot import Snapshot

SHARED_SECONDS: Final = 1.0
"""Seconds for which requests share a snapshot and its renderings."""
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
        self._expiry: asyncio.TimerHandle | None = None

    def share(self, rendering: Rendering, snapshot: int) -> None:
        """Share a rendering for ``SHARED_SECONDS``."""
        self.free()
        self.rendering, self.snapshot = rendering, snapshot
        self._expiry = asyncio.get_running_loop().call_later(SHARED_SECONDS, self.free)

    def free(self) -> None:
        """Free the rendering."""
        if self._expiry is not None:
            self._expiry.cancel()
        self.rendering = self._expiry = None


class SharedPage:
    """Cache of renderings by representation."""

    def __init__(self, page: MetricsPage, max_bytes: int = MAX_RENDERED_BYTES) -> None:
        self._page = page
        self._max_bytes = max_bytes
        self._variants: dict[tuple[bool, bool], _Variant] = {}
        self._renderings: list[ReferenceType[Rendering]] = []
        """Weak references, the oldest first: a rendering that is neither shared nor read is freed."""

    @property
    def alive(self) -> list[Rendering]:
        """Renderings that are shared or read, the oldest first."""
        return [rendering for reference in self._renderings if (rendering := reference()) is not None]

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


async def metrics(request: web.Request) -> web.StreamResponse:
    """Serve the metrics in the format and the encoding that the client prefers."""
    wanted = Representation(
        choose_format(_header(request, hdrs.ACCEPT)), choose_gzip(_header(request, hdrs.ACCEPT_ENCODING))
    )
    # The snapshot is not kept in a variable: a client that reads slowly would keep it in memory.
    rendering = await request.app[METRICS].rendering(await request.app[STATE].snapshot(), wanted)
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
