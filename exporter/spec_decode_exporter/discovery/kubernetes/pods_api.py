"""Kubernetes' API, as far as discovery needs it: to list pods, and to watch them.

Plain requests do what is needed: a client library would be larger than the exporter. What the API promises:
https://kubernetes.io/docs/reference/using-api/api-concepts/#efficient-detection-of-changes.
"""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from aiohttp import ClientResponse, ClientSession, ClientTimeout, DummyCookieJar, TCPConnector

from spec_decode_exporter.config.http_settings import Authorization, HttpSettings, TlsConfig
from spec_decode_exporter.config.kubernetes_settings import NAMESPACE
from spec_decode_exporter.config.url import host_and_port
from spec_decode_exporter.core.bounded_file import read_bounded, size_text
from spec_decode_exporter.core.cooperative_yield import cooperatively
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
    from spec_decode_exporter.config.kubernetes_settings import KubernetesDiscovery

_ACCEPTED: Final = {
    "Accept": "application/json",
    # Nothing is unpacked: a few bytes can become gigabytes.
    "Accept-Encoding": "identity",
}

SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where Kubernetes puts a pod's credentials. It replaces the token in there before the old one expires."""

_PAGE: Final = 100
"""Pods in one response: some MB at most."""

_MAX_PAGES: Final = 500
"""Responses that a list may take: 50,000 pods."""
MAX_PAGE_BYTES: Final = 8 * 2**20
"""The most bytes of one response with pods."""
MAX_LINE_BYTES: Final = 4 * 2**20
"""The most bytes of one event of a watch; etcd keeps objects of at most 1.5 MiB."""
_MAX_STATUS_BYTES: Final = 64 * 2**10
"""The most bytes of a response that refuses."""
_LIST_TIMEOUT: Final = 30.0
_CONNECT_TIMEOUT: Final = 10.0
_GRACE: Final = 15.0
_MAX_NAMESPACE: Final = 1024


@dataclass(frozen=True, slots=True)
class Access:
    """Where the API is, and how to be let in."""

    url: str
    http: HttpSettings

    @classmethod
    def of(cls, settings: KubernetesDiscovery, environ: Mapping[str, str] = os.environ) -> Access:
        """Return the access that is configured; what is not, is that of the pod that this runs in.

        Raises:
            ApiError: This does not run in a pod.
        """
        if settings.api_server is not None:
            return cls(settings.api_server.rstrip("/"), settings.http)
        host, port = (environ.get(f"KUBERNETES_SERVICE_{part}", "") for part in ("HOST", "PORT"))
        if not host or not port:
            raise ApiError(
                "KUBERNETES_SERVICE_HOST is not set, so this is no pod of a cluster; configure `api_server`"
            )
        place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        try:
            host_and_port(place)
        except ValueError as error:
            raise ApiError(f"KUBERNETES_SERVICE_HOST and _PORT {error}; configure `api_server`") from None
        return cls(f"https://{place}", _as_the_pod(settings.http))


def _as_the_pod(http: HttpSettings) -> HttpSettings:
    """Add the credentials of the pod's service account where none are configured."""
    added: dict[str, object] = {}
    if http.authorization is None and http.basic_auth is None:
        added["authorization"] = Authorization(credentials_file=SERVICE_ACCOUNT / "token")
    if http.tls_config is None:
        added["tls_config"] = TlsConfig(ca_file=SERVICE_ACCOUNT / "ca.crt")
    return http.model_copy(update=added)


def own_namespace() -> str:
    """Return the namespace of the pod that this runs in.

    Raises:
        ApiError: This does not run in a pod, or in one without a service account's token.
    """
    path = SERVICE_ACCOUNT / "namespace"
    try:
        namespace = read_bounded(path, _MAX_NAMESPACE).decode("ascii").strip()
    except OSError as error:
        reason = error.strerror or error
        raise ApiError(f"{path}: cannot be read: {reason}; configure `namespaces`") from None
    except UnicodeDecodeError:
        namespace = ""
    if not re.fullmatch(NAMESPACE, namespace):
        raise ApiError(f"{path}: names no namespace; configure `namespaces`")
    return namespace


class PodsApi:
    """The pods of a namespace, or of all, that have some labels and run."""

    def __init__(self, session: ClientSession, access: Access, namespace: str, label_selector: str) -> None:
        """Ask about ``namespace``; of an empty one, about all of them."""
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
        """Give the parts in ``shape`` of each pod to ``put``; return the version to watch from.

        One pod is decoded at a time: as the API describes them, pods take many times the memory.

        Raises:
            ApiError: The API refuses, or answers something else.
            ExpiredError: It took too long to fetch all pages.
            PollError: The credentials cannot be read.
            aiohttp.ClientError, OSError, TimeoutError: There is no answer.
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
        """Return one response of a list: the first, or the one that the last named as its continuation."""
        asked = {"limit": str(_PAGE), **({"continue": more} if more else {})}
        body = bytearray()
        async with self._get("list", asked, ClientTimeout(total=_LIST_TIMEOUT)) as answer:
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
        """Watch from ``version`` on, for ``seconds``; yield the events, with the parts in ``shape``.

        Raises:
            ApiError: As in ``listed``, and the same errors of the network.
            ExpiredError: What happened since ``version`` is no longer known.
        """
        asked = {
            "watch": "1",
            "resourceVersion": version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(seconds),
        }
        # A connection that died without a word is noticed when the watch should have ended.
        patience = ClientTimeout(total=None, sock_connect=_CONNECT_TIMEOUT, sock_read=seconds + _GRACE)
        async with self._get("watch", asked, patience) as answer:
            yield _events(answer, shape)

    @asynccontextmanager
    async def _get(
        self, verb: str, asked: Mapping[str, str], patience: ClientTimeout
    ) -> AsyncIterator[ClientResponse]:
        http = self._access.http
        tls = http.tls_config
        async with self._session.get(
            self._url,
            params={**self._selected, **asked},
            # Files are read anew for each request: tokens are replaced while this runs.
            headers={**_ACCEPTED, **credentials.headers(http)},
            ssl=credentials.ssl_context(http) if self._url.startswith("https:") else True,
            server_hostname=tls.server_name if tls else None,
            timeout=patience,
            allow_redirects=False,
        ) as answer:
            if answer.status != HTTPStatus.OK:
                raise self._refusal(verb, answer.status, await answer.content.read(_MAX_STATUS_BYTES))
            yield answer

    def _refusal(self, verb: str, status: int, body: bytes) -> ApiError:
        return refusal_of(status, body, self._needed(verb))

    def _needed(self, verb: str) -> str:
        """Say which permission is missing, in the words of a Role."""
        return (
            f"to {verb} pods in {self._place} is not allowed; bind a {self._kind} with "
            'apiGroups: [""], resources: [pods], verbs: [list, watch]'
        )


@asynccontextmanager
async def session() -> AsyncIterator[ClientSession]:
    """Open a connection to the API. A proxy that the environment names is not used."""
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
    """Yield the events of a watch: those that came together, together."""
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
