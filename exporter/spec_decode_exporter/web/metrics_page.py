"""Share one rendering of the metrics per snapshot, format and encoding among all requests.

The pieces of a rendering are sent as they are, so a client that reads slowly takes no memory of its own.
The renderings in memory have a limit in bytes: the oldest ends with the connections that still read it.
"""

from __future__ import annotations

import asyncio
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from weakref import ref

from aiohttp import hdrs, web

from spec_decode_exporter.core.cooperative_yield import yield_to_event_loop
from spec_decode_exporter.core.single_flight import SHARED_SECONDS
from spec_decode_exporter.metrics.exposition import Exposition, compressed, each, joined, same_page

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from weakref import ReferenceType

    from spec_decode_exporter.metrics.negotiation import Format

MOST_BYTES: Final = 64 * 2**20
"""Bytes of all renderings that clients are being sent."""
SEND_SECONDS: Final = 30.0
"""Seconds for a client to read its answer."""


@dataclass(slots=True, eq=False, weakref_slot=True)
class Rendering:
    """A page in pieces, and the connections that are being sent it."""

    pieces: Sequence[bytes]
    size: int = field(init=False)
    readers: set[asyncio.Transport] = field(default_factory=set)

    def __post_init__(self) -> None:
        """Sum up the bytes."""
        self.size = sum(map(len, self.pieces))

    @contextmanager
    def read_by(self, transport: asyncio.Transport | None) -> Iterator[asyncio.Transport]:
        """Note that a connection is being sent it."""
        if transport is None:
            raise ConnectionResetError
        self.readers.add(transport)
        try:
            yield transport
        finally:
            self.readers.discard(transport)

    def end(self) -> None:
        """End the connections that are being sent it."""
        for transport in tuple(self.readers):
            transport.abort()
        self.readers.clear()


class _Variant:
    """The newest rendering in a format and an encoding."""

    def __init__(self) -> None:
        self.rendering: Rendering | None = None
        self.snapshot = 0
        """The number of the snapshot that it shows."""
        self.making = asyncio.Lock()
        self._dropping: asyncio.TimerHandle | None = None

    def keep(self, rendering: Rendering, snapshot: int) -> None:
        """Keep a rendering for as long as others may ask for it."""
        self.rendering, self.snapshot = rendering, snapshot
        if self._dropping is not None:
            self._dropping.cancel()
        self._dropping = asyncio.get_running_loop().call_later(SHARED_SECONDS, self._drop)

    def _drop(self) -> None:
        self.rendering = self._dropping = None


class SharedPage:
    """Renders what each request asks for, once for all who ask for the same."""

    def __init__(self, exposition: Exposition, most_bytes: int = MOST_BYTES) -> None:
        self._exposition = exposition
        self._most_bytes = most_bytes
        self._variants: dict[tuple[Format, bool], _Variant] = {}
        self._made: list[ReferenceType[Rendering]] = []
        """The oldest first. A rendering that is neither shared nor read is freed."""

    @property
    def alive(self) -> list[Rendering]:
        """The renderings that are shared or read, the oldest first."""
        return [rendering for reference in self._made if (rendering := reference()) is not None]

    async def rendering(self, snapshot: int, format_: Format, *, gzip: bool) -> Rendering:
        """Return the page of a snapshot, or of a newer one, in a format and an encoding.

        ``snapshot`` is the number of the snapshot; numbers grow.
        """
        variant = self._variants.setdefault((same_page(format_), gzip), _Variant())
        async with variant.making:
            # Who waited here while a newer snapshot was rendered gets that.
            if variant.rendering is None or variant.snapshot < snapshot:
                plain = self._plain(snapshot, format_)
                page = each(plain.pieces) if plain else self._exposition.render(format_)
                made = Rendering([piece async for piece in joined(compressed(page) if gzip else page)])
                self._make_room(made.size)
                self._made.append(ref(made))
                variant.keep(made, snapshot)
            assert variant.rendering is not None  # noqa: S101  it was made above, if it was not there
            return variant.rendering

    def _plain(self, snapshot: int, format_: Format) -> Rendering | None:
        """Return the same page without compression, if somebody asked for it."""
        variant = self._variants.get((same_page(format_), False))
        return variant.rendering if variant and variant.snapshot >= snapshot else None

    def _make_room(self, size: int) -> None:
        """End the oldest renderings for a new one of ``size`` bytes."""
        alive = self.alive
        while alive and sum(one.size for one in alive) + size > self._most_bytes:
            alive.pop(0).end()
        self._made = list(map(ref, alive))


async def send(request: web.Request, rendering: Rendering, headers: Mapping[str, str]) -> web.StreamResponse:
    """Send a rendering; end the connection of a client that does not read it in time."""
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
