"""Client of the Kubernetes API: list pods and watch them.

It uses plain requests, since a client library would be larger than the exporter. The API's guarantees:
https://kubernetes.io/docs/reference/using-api/api-concepts/#efficient-detection-of-changes.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from aiohttp import ClientResponse, ClientSession, ClientTimeout, DummyCookieJar, TCPConnector

from spec_decode_exporter.core.cooperative_yield import cooperatively
from spec_decode_exporter.core.files import size_text
from spec_decode_exporter.core.json_reader import Shape
from spec_decode_exporter.core.version import __version__
from spec_decode_exporter.discovery.kubernetes.api_objects import (
    ApiError,
    events_of,
    page_of,
    refusal_of,
    token_of,
    version_of,
)
from spec_decode_exporter.scrape.http import credentials
from spec_decode_exporter.scrape.http.response import MIN_PIECES, PIECE_BYTES

if TYPE_CHECKING:
    from spec_decode_exporter.discovery.kubernetes.api_access import Access

_ACCEPTED: Final = {
    "Accept": "application/json",
    # No decompression: a few bytes can become gigabytes.
    "Accept-Encoding": "identity",
}


_PAGE: Final = 100
"""Pods of one response: some MB at most."""

_MAX_PAGES: Final = 500
"""Maximum responses of a list: 50,000 pods."""
MAX_PAGE_BYTES: Final = 8 * 2**20
"""Maximum bytes of a response with pods."""
MAX_LINE_BYTES: Final = 4 * 2**20
"""Maximum bytes of a watch event; etcd limits objects to 1.5 MiB."""
_MAX_STATUS_BYTES: Final = 64 * 2**10
"""Maximum bytes of an error response."""
_LIST_TIMEOUT: Final = 30.0
_CONNECT_TIMEOUT: Final = 10.0
_GRACE: Final = 15.0


class PodsApi:
    """Running pods of one or all namespaces, selected by labels."""

    def __init__(self, session: ClientSession, access: Access, namespace: str, label_selector: str) -> None:
        """Select ``namespace``, or all if it is empty."""
        self._session = session
        self._access = access
        self._place, self._kind = (
            (f"namespace {namespace}", "Role") if namespace else ("all namespaces", "ClusterRole")
        )
        where = f"/namespaces/{namespace}" if namespace else ""
        self._url = f"{access.url}/api/v1{where}/pods"
        self._selected = {"fieldSelector": "status.phase=Running"}
        if label_selector:
            self._selected["labelSelector"] = label_selector

    async def listed(self, shape: Shape, put: Callable[[Any], None]) -> str:
        """Pass the parts in ``shape`` of each pod to ``put``; return the version to watch from.

        Pods are decoded one at a time: complete pods take many times the memory.

        Raises:
            ApiError: The API rejects the request, or its response is no list of pods.
            ExpiredError: The list took too long.
            PollError: The credentials are unreadable.
            aiohttp.ClientError, OSError, TimeoutError: There is no response.
        """
        more = ""
        for _ in range(_MAX_PAGES):
            metadata = await cooperatively(page_of(await self._page(more), shape, put))
            more = token_of(metadata, "continue")
            if not more:
                return version_of(metadata)
        raise ApiError(
            f"the list does not end after {_MAX_PAGES} responses of {_PAGE} pods; choose fewer by "
            "`namespaces` or `label_selector`, if `api_server` is the API server"
        )

    async def _page(self, more: str) -> bytes:
        """Return one response of a list: the first, or the one of the continuation token ``more``."""
        parameters = {"limit": str(_PAGE), **({"continue": more} if more else {})}
        body = bytearray()
        async with self._get("list", parameters, ClientTimeout(total=_LIST_TIMEOUT)) as answer:
            pieces = 0
            async for chunk, _ in answer.content.iter_chunks():
                body += chunk
                pieces += 1
                if len(body) > MAX_PAGE_BYTES:
                    raise ApiError(f"a response with {_PAGE} pods is larger than {size_text(MAX_PAGE_BYTES)}")
                # Chunks of a byte each cost a thousand times as much as their bytes.
                if pieces > MIN_PIECES + len(body) // PIECE_BYTES:
                    raise ApiError(f"a response with {_PAGE} pods comes in too many small pieces")
        return bytes(body)

    @asynccontextmanager
    async def watched(
        self, version: str, seconds: int, shape: Mapping[str, Shape]
    ) -> AsyncIterator[AsyncIterator[list[Any]]]:
        """Watch from ``version`` on, for ``seconds``; yield events with the parts in ``shape``.

        Raises:
            ApiError: As in ``listed``, and the same network errors.
            ExpiredError: The API no longer has the events since ``version``.
        """
        parameters = {
            "watch": "1",
            "resourceVersion": version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(seconds),
        }
        # Detects a silently lost connection when the watch should have ended.
        timeout = ClientTimeout(total=None, sock_connect=_CONNECT_TIMEOUT, sock_read=seconds + _GRACE)
        async with self._get("watch", parameters, timeout) as answer:
            yield _events(answer, shape)

    @asynccontextmanager
    async def _get(
        self, verb: str, parameters: Mapping[str, str], time_limit: ClientTimeout
    ) -> AsyncIterator[ClientResponse]:
        http = self._access.http
        tls = http.tls_config
        async with self._session.get(
            self._url,
            params={**self._selected, **parameters},
            # Files are read for each request: Kubernetes replaces tokens at runtime.
            headers={**_ACCEPTED, **credentials.headers(http)},
            ssl=credentials.ssl_context(http) if self._url.startswith("https:") else True,
            server_hostname=tls.server_name if tls else None,
            timeout=time_limit,
            allow_redirects=False,
        ) as answer:
            if answer.status != HTTPStatus.OK:
                raise self._refusal(verb, answer.status, await answer.content.read(_MAX_STATUS_BYTES))
            yield answer

    def _refusal(self, verb: str, status: int, body: bytes) -> ApiError:
        return refusal_of(status, body, self._needed(verb))

    def _needed(self, verb: str) -> str:
        """Return the error text for a missing permission, with the required Role."""
        return (
            f"to {verb} pods in {self._place} is not allowed; bind a {self._kind} with "
            'apiGroups: [""], resources: [pods], verbs: [list, watch]'
        )


@asynccontextmanager
async def session() -> AsyncIterator[ClientSession]:
    """Open a connection to the API. Proxies of the environment are ignored."""
    agent = {"User-Agent": f"spec-decode-exporter/{__version__}"}
    async with ClientSession(
        connector=TCPConnector(limit=1),
        cookie_jar=DummyCookieJar(),
        headers=agent,
        trust_env=False,
        auto_decompress=False,
    ) as opened:
        yield opened


async def _events(answer: ClientResponse, shape: Mapping[str, Shape]) -> AsyncIterator[list[Any]]:
    """Yield the events of a watch, one list for each read from the network."""
    rest = bytearray()
    async for chunk in answer.content.iter_any():
        searched = len(rest)
        rest += chunk
        end = rest.rfind(b"\n", searched) + 1
        if len(rest) - end > MAX_LINE_BYTES:
            raise ApiError("the watch holds a line that is too long")
        if end:
            lines = bytes(rest[:end]).split(b"\n")
            del rest[:end]
            yield await cooperatively(events_of(lines, shape))
