"""Kubernetes API: pods are listed page by page, then watched. Only the fields below are decoded.

It uses plain requests, since a client library would be larger than the exporter. The API's guarantees:
https://kubernetes.io/docs/reference/using-api/api-concepts/#efficient-detection-of-changes.
"""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Annotated, Final, TypeVar

import msgspec
from aiohttp import ClientResponse, ClientSession, ClientTimeout
from msgspec import Meta, Struct, field

from spec_decode_exporter.config.http_settings import Authorization, HttpSettings, TlsConfig
from spec_decode_exporter.config.target_settings import NAMESPACE, KubernetesDiscovery
from spec_decode_exporter.core.files import read_bounded, size_text
from spec_decode_exporter.core.urls import host_and_port
from spec_decode_exporter.core.version import __version__
from spec_decode_exporter.discovery.target import DiscoveryError
from spec_decode_exporter.scrape import credentials

SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Folder of a pod's credentials. Kubernetes replaces the token in it before the old one expires."""
PAGE: Final = 100
"""Pods of one response: some MB at most."""
MAX_PAGE_BYTES: Final = 8 * 2**20
MAX_LINE_BYTES: Final = 4 * 2**20
"""Bytes of a watch event; etcd limits objects to 1.5 MiB."""
_LIMITS: Final = {b"{": 300_000, b'"': 1_000_000}
"""Characters of a response: decoding holds the GIL, and keeps each value that is read."""
_PIECE: Final = 1024
"""Average bytes of the pieces of a response: pieces of a byte cost a thousand times as much."""
_MAX_REASON: Final = 300
_GRACE: Final = 15.0
"""Seconds after which a watch that should have ended is a silently lost connection."""
_HEADERS: Final = {
    "Accept": "application/json",
    "Accept-Encoding": "identity",  # a few compressed bytes can become gigabytes
    "User-Agent": f"spec-decode-exporter/{__version__}",
}
T = TypeVar("T")
_Token = Annotated[str, Meta(max_length=8 * 2**10)]


class ExpiredError(DiscoveryError):
    """The API no longer has the events since the given version: list again."""


class _Port(Struct, rename="camel"):
    container_port: int
    name: str = ""


class _Variable(Struct):
    name: str
    value: str | None = None


class _Container(Struct):
    command: list[str] | None = None
    args: list[str] | None = None
    env: list[_Variable] | None = None
    ports: list[_Port] | None = None


class _Spec(Struct):
    containers: list[_Container] | None = None


class _Metadata(Struct, rename="camel"):
    # Kubernetes guarantees the patterns. The metadata of a list and of a bookmark have no name.
    name: Annotated[str, Meta(pattern=r"^[a-z0-9.-]{1,253}\Z")] = ""
    namespace: Annotated[str, Meta(pattern=r"^[a-z0-9-]{1,63}\Z")] = ""
    resource_version: _Token = ""
    next_page: _Token = field(default="", name="continue")
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class _Condition(Struct):
    type: str
    status: str


class _Status(Struct):
    phase: str = ""
    pod_ip: str = field(default="", name="podIP")
    conditions: list[_Condition] | None = None


class Pod(Struct):
    """Pod of the core API, version v1."""

    metadata: _Metadata
    spec: _Spec = field(default_factory=_Spec)
    status: _Status = field(default_factory=_Status)

    @property
    def key(self) -> str:
        """Namespace and name."""
        return f"{self.metadata.namespace}/{self.metadata.name}"


class PodList(Struct):
    """Page of a list of pods."""

    metadata: _Metadata
    items: list[Pod] | None = None


class Event(Struct):
    """Event of a watch."""

    type: str
    object: msgspec.Raw
    """Pod, or the error that ends the watch."""


class ApiStatus(Struct):
    """Error of the API."""

    code: int = 0
    reason: str = ""
    message: str = ""


def decoded(body: bytes, kind: type[T]) -> T:
    """Decode a response or an event as a ``kind``.

    Raises:
        DiscoveryError: It is something else.
    """
    if any(body.count(character) > limit for character, limit in _LIMITS.items()):
        raise DiscoveryError("the API server answers too many values at once")
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError:
        raise DiscoveryError("the API server answers something else than pods") from None
    except (ValueError, RecursionError):
        raise DiscoveryError("the answer is not JSON; is `api_server` the API server?") from None


class PodsApi:
    """Running pods of one or all namespaces, selected by labels."""

    def __init__(self, session: ClientSession, settings: KubernetesDiscovery, namespace: str | None) -> None:
        """Select ``namespace``: empty for all, None for the exporter's own.

        Raises:
            DiscoveryError: The process does not run in a pod, so the URL or the namespace is unknown.
        """
        server, self._http = access(settings)
        where = _own_namespace() if namespace is None else namespace
        self._place, self._role = (
            (f"namespace {where}", "Role") if where else ("all namespaces", "ClusterRole")
        )
        self._url = f"{server}/api/v1{f'/namespaces/{where}' if where else ''}/pods"
        selector = {"labelSelector": settings.label_selector} if settings.label_selector else {}
        self._selected = {"fieldSelector": "status.phase=Running", **selector}
        self._session = session

    async def page(self, more: str) -> bytes:
        """Return one response of a list: the first, or the one of the continuation token ``more``.

        Raises:
            DiscoveryError: The API rejects the request, or its response is too large.
            ExpiredError: The list took too long.
            PollError: The credentials are unreadable.
            aiohttp.ClientError, OSError: There is no response.
        """
        parameters = {"limit": str(PAGE), **({"continue": more} if more else {})}
        body = bytearray()
        pieces = 0
        async with self._get("list", parameters, ClientTimeout(total=30.0)) as answer:
            async for chunk, _ in answer.content.iter_chunks():
                body += chunk
                pieces += 1
                if len(body) > MAX_PAGE_BYTES:
                    limit = size_text(MAX_PAGE_BYTES)
                    raise DiscoveryError(f"a response with {PAGE} pods is larger than {limit}")
                if pieces > _PIECE + len(body) // _PIECE:
                    raise DiscoveryError(f"a response with {PAGE} pods comes in too many small pieces")
        return bytes(body)

    @asynccontextmanager
    async def watch(self, version: str, seconds: int) -> AsyncIterator[AsyncIterator[list[bytes]]]:
        """Watch from ``version`` on, for ``seconds``; yield the lines of each read from the network.

        Raises:
            DiscoveryError, PollError, aiohttp.ClientError, OSError: As in ``page``.
            ExpiredError: The API no longer has the events since ``version``.
        """
        parameters = {"watch": "1", "allowWatchBookmarks": "true"}
        parameters |= {"resourceVersion": version, "timeoutSeconds": str(seconds)}
        timeout = ClientTimeout(total=None, sock_connect=10.0, sock_read=seconds + _GRACE)
        async with self._get("watch", parameters, timeout) as answer:
            yield _lines(answer)

    @asynccontextmanager
    async def _get(
        self, verb: str, parameters: Mapping[str, str], limit: ClientTimeout
    ) -> AsyncIterator[ClientResponse]:
        tls = self._http.tls_config
        async with self._session.get(
            self._url,
            params={**self._selected, **parameters},
            # Files are read for each request: Kubernetes replaces tokens at runtime.
            headers={**_HEADERS, **credentials.headers(self._http)},
            ssl=credentials.ssl_context(self._http) if self._url.startswith("https:") else True,
            server_hostname=tls.server_name if tls else None,
            timeout=limit,
            allow_redirects=False,
        ) as answer:
            if answer.status != HTTPStatus.OK:
                raise self._refusal(verb, answer.status, await answer.content.read(64 * 2**10))
            yield answer

    def _refusal(self, verb: str, status: int, body: bytes) -> DiscoveryError:
        """Return the error for a status other than 200."""
        if status == HTTPStatus.GONE:
            return ExpiredError("410 Gone")
        text = f"status {status}"
        if status == HTTPStatus.UNAUTHORIZED:
            text = "401 Unauthorized: the API server does not accept the token"
        if status == HTTPStatus.FORBIDDEN:
            needed = f'{self._role} with apiGroups: [""], resources: [pods], verbs: [list, watch]'
            text = f"403 Forbidden: to {verb} pods in {self._place} is not allowed; bind a {needed}"
        try:
            message = decoded(body, ApiStatus).message[:_MAX_REASON]
        except DiscoveryError:
            message = ""
        return DiscoveryError(f"{text} ({message})" if message.isprintable() and message else text)


async def _lines(answer: ClientResponse) -> AsyncIterator[list[bytes]]:
    rest = bytearray()
    async for chunk in answer.content.iter_any():
        rest += chunk
        if b"\n" in chunk:
            *lines, last = bytes(rest).split(b"\n")
            rest[:] = last
            yield [line for line in lines if line.strip()]
        if len(rest) > MAX_LINE_BYTES:
            raise DiscoveryError("the watch holds a line that is too long")


def access(
    settings: KubernetesDiscovery, environ: Mapping[str, str] = os.environ
) -> tuple[str, HttpSettings]:
    """Return the URL of the API, and the settings of its requests; by default, those of this pod.

    Raises:
        DiscoveryError: The process does not run in a pod.
    """
    http = settings.http
    if settings.api_server is not None:
        return settings.api_server.rstrip("/"), http
    host, port = (environ.get(f"KUBERNETES_SERVICE_{part}", "") for part in ("HOST", "PORT"))
    place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    try:
        host_and_port(place)
    except ValueError as error:
        problem = f"{error}" if host else "is not set, so this is no pod of a cluster"
        raise DiscoveryError(f"KUBERNETES_SERVICE_HOST {problem}; configure `api_server`") from None
    added: dict[str, object] = {}
    if http.authorization is None and http.basic_auth is None:
        added["authorization"] = Authorization(credentials_file=SERVICE_ACCOUNT / "token")
    if http.tls_config is None:
        added["tls_config"] = TlsConfig(ca_file=SERVICE_ACCOUNT / "ca.crt")
    return f"https://{place}", http.model_copy(update=added)


def _own_namespace() -> str:
    path = SERVICE_ACCOUNT / "namespace"
    try:
        namespace = read_bounded(path, 1024).decode("ascii", "replace").strip()
    except OSError as error:
        reason = error.strerror or error
        raise DiscoveryError(f"{path}: cannot be read: {reason}; configure `namespaces`") from None
    if not re.fullmatch(NAMESPACE, namespace):
        raise DiscoveryError(f"{path}: names no namespace; configure `namespaces`")
    return namespace
