"""What one page of the API is."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from aiohttp import hdrs, web
from pydantic import BaseModel

from spec_decode_exporter.views.models import View
from spec_decode_exporter.web.api.problems import RequestError
from spec_decode_exporter.web.api.queries import ApiQuery, read

if TYPE_CHECKING:
    from aiohttp.typedefs import Handler


@dataclass(frozen=True, slots=True)
class Header:
    """A header that a page reads, where a client sends it."""

    name: str
    description: str
    pattern: str
    """What its value is."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One page of the API."""

    path: str
    name: str
    """Its ``operationId``."""
    summary: str
    answer: Callable[[web.Request, Any], Awaitable[web.StreamResponse]]
    query: type[ApiQuery] = ApiQuery
    model: type[View] | None = None
    """What is answered; of a stream, what the data of each event is."""
    content_type: str = "application/json"
    problems: Sequence[int] = ()
    """What it may be answered with besides what any request may be."""
    body: type[BaseModel] | None = None
    """What is sent to it by ``POST``, once or many times; what is sent to nobody is asked for by ``GET``."""
    headers: Sequence[Header] = ()
    streams: bool = False
    """True for an answer that goes on for as long as the client likes: it has limits of its own."""

    @property
    def methods(self) -> Sequence[str]:
        """How it is asked for."""
        return (hdrs.METH_POST,) if self.body else (hdrs.METH_GET, hdrs.METH_HEAD)

    @property
    def handler(self) -> Handler:
        """What serves it."""

        async def handle(request: web.Request) -> web.StreamResponse:
            try:
                return await self.answer(request, read(self.query, request.query))
            except RequestError as error:
                return error.answer()

        return handle
