"""Endpoint of the API: its path, parameters, models and handler."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from aiohttp import hdrs, web
from msgspec import Struct

from spec_decode_exporter.views.document import View
from spec_decode_exporter.web.api.problems import RequestError
from spec_decode_exporter.web.api.queries import ApiQuery, read

if TYPE_CHECKING:
    from aiohttp.typedefs import Handler


@dataclass(frozen=True, slots=True)
class Header:
    """A request header that an endpoint reads."""

    name: str
    description: str
    pattern: str
    """Regular expression of its value."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One path and method of the API. The OpenAPI document is generated from it."""

    path: str
    name: str
    """The ``operationId``."""
    summary: str
    respond: Callable[[web.Request, Any], Awaitable[web.StreamResponse]]
    query: type[ApiQuery] = ApiQuery
    model: type[View] | None = None
    """Model of the response."""
    problems: Sequence[int] = ()
    """Status codes of errors besides those of every endpoint."""
    body: type[Struct] | None = None
    """Record: one item of a ``POST`` body; None for ``GET``."""
    headers: Sequence[Header] = ()

    @property
    def methods(self) -> Sequence[str]:
        """HTTP methods."""
        return (hdrs.METH_POST,) if self.body else (hdrs.METH_GET, hdrs.METH_HEAD)

    @property
    def handler(self) -> Handler:
        """Handler that parses the query and converts errors to problems."""

        async def handle(request: web.Request) -> web.StreamResponse:
            try:
                return await self.respond(request, read(self.query, request.query))
            except RequestError as error:
                return error.response()

        return handle
