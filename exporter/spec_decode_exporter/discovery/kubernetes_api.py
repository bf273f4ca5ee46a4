"""Requests for pods to the Kubernetes API. Only the fields below are decoded.

They are plain requests, since a client library would be larger than the exporter. The API's guarantees:
https://kubernetes.io/docs/reference/using-api/api-concepts/#efficient-detection-of-changes.
"""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Annotated, Final, NamedTuple, TypeVar

import msgspec
from aiohttp import ClientSession, ClientTimeout, StreamReader
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
MAX_PAGE_BYTES: Final = 8 * 2**20
MAX_LINE_BYTES: Final = 4 * 2**20
"""Bytes of a watch event; etcd limits objects to 1.5 MiB."""
_LIMITS: Final = {b"{": 300_000, b'"': 1_000_000}
"""Characters of a response: decoding holds the GIL, and keeps each value that is read."""
_PIECE: Final = 1024
"""Average bytes of the pieces of a response: pieces of a byte cost a thousand times as much."""
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


class WatchEvent(Struct):
    """Event of a watch."""

    type: str
    object: msgspec.Raw
    """Pod, or the error that ends the watch."""


class ApiStatus(Struct):
    """Error of the API."""

    code: Annotated[int, Meta(ge=0, le=999)] = 0
    message: str = ""

    def text(self) -> str:
        """Return the message, shortened and printable, in parentheses; empty if there is none."""
        return f" ({self.message[:300]})" if self.message and self.message.isprintable() else ""


def decoded(body: bytes, kind: type[T]) -> T:
    """Decode a response or an event as a ``kind``; raise DiscoveryError if it is something else."""
    if any(body.count(character) > limit for character, limit in _LIMITS.items()):
        raise DiscoveryError("the API server answers too many values at once")
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError:
        raise DiscoveryError("the API server answers something else than pods") from None
    except (ValueError, RecursionError):
        raise DiscoveryError("the answer is not JSON; is `api_server` the API server?") from None


class PodsApi(NamedTuple):
    """Running pods of a namespace: empty for all, None for the exporter's own."""

    session: ClientSession
    settings: KubernetesDiscovery
    namespace: str | None

    @asynccontextmanager
    async def request(self, limit: ClientTimeout, /, **parameters: str) -> AsyncIterator[StreamReader]:
        """Request the pods with the ``parameters`` that are not empty.

        Raises:
            DiscoveryError: The API rejects the request, or its URL or the namespace is unknown.
            ExpiredError: The API no longer has the events since a given version.
            PollError: The credentials are unreadable.
            aiohttp.ClientError, OSError: There is no response within ``limit``.
        """
        server, http = access(self.settings)
        where = _own_namespace() if self.namespace is None else self.namespace
        parameters |= {
            "fieldSelector": "status.phase=Running",
            "labelSelector": self.settings.label_selector or "",
        }
        async with self.session.get(
            f"{server}/api/v1{f'/namespaces/{where}' if where else ''}/pods",
            params={name: value for name, value in parameters.items() if value},
            # Files are read for each request: Kubernetes replaces tokens at runtime.
            headers={**_HEADERS, **credentials.headers(http)},
            ssl=credentials.ssl_context(http) if server.startswith("https:") else True,
            server_hostname=http.tls_config.server_name if http.tls_config else None,
            timeout=limit,
            allow_redirects=False,
        ) as answer:
            if answer.status != HTTPStatus.OK:
                body = await answer.content.read(64 * 2**10)
                raise _refusal(answer.status, body, "watch" if "watch" in parameters else "list", where)
            yield answer.content


def _refusal(status: int, body: bytes, verb: str, namespace: str) -> DiscoveryError:
    """Return the error for a status other than 200, with the permission that is missing."""
    if status == HTTPStatus.GONE:
        return ExpiredError("410 Gone")
    text = f"status {status}"
    if status == HTTPStatus.UNAUTHORIZED:
        text += ": the API server does not accept the token"
    if status == HTTPStatus.FORBIDDEN:
        kind, place = ("Role", f"namespace {namespace}") if namespace else ("ClusterRole", "all namespaces")
        rule = 'apiGroups: [""], resources: [pods], verbs: [list, watch]'
        text += f": to {verb} pods in {place} is not allowed; bind a {kind} with {rule}"
    try:
        return DiscoveryError(text + decoded(body, ApiStatus).text())
    except DiscoveryError:
        return DiscoveryError(text)


async def whole(content: StreamReader) -> bytes:
    """Return a response; raise DiscoveryError if it is too large or comes in too small pieces."""
    body, pieces = bytearray(), 0
    async for chunk, _ in content.iter_chunks():
        body += chunk
        pieces += 1
        if len(body) > MAX_PAGE_BYTES:
            raise DiscoveryError(f"a page of pods is larger than {size_text(MAX_PAGE_BYTES)}")
        if pieces > _PIECE + len(body) // _PIECE:
            raise DiscoveryError("a page of pods comes in too many small pieces")
    return bytes(body)


async def lines(content: StreamReader) -> AsyncIterator[list[bytes]]:
    """Yield the lines of each read from the network; raise DiscoveryError if one is too long."""
    rest = bytearray()
    async for chunk in content.iter_any():
        rest += chunk
        if b"\n" in chunk:
            *complete, last = bytes(rest).split(b"\n")
            rest[:] = last
            yield [line for line in complete if line.strip()]
        if len(rest) > MAX_LINE_BYTES:
            raise DiscoveryError("the watch holds a line that is too long")


def access(
    settings: KubernetesDiscovery, environ: Mapping[str, str] = os.environ
) -> tuple[str, HttpSettings]:
    """Return the URL and the HTTP settings of the API; by default, those of this pod."""
    http = settings.http
    if settings.api_server is not None:
        return settings.api_server.rstrip("/"), http
    host, port = (environ.get(f"KUBERNETES_SERVICE_{part}", "") for part in ("HOST", "PORT"))
    place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    try:
        host_and_port(place)
    except ValueError as error:
        problem = error if host else "is not set, so this is no pod of a cluster"
        raise DiscoveryError(f"KUBERNETES_SERVICE_HOST {problem}; configure `api_server`") from None
    own: dict[str, object] = {}
    if http.authorization is None and http.basic_auth is None:
        own["authorization"] = Authorization(credentials_file=SERVICE_ACCOUNT / "token")
    if http.tls_config is None:
        own["tls_config"] = TlsConfig(ca_file=SERVICE_ACCOUNT / "ca.crt")
    return f"https://{place}", http.model_copy(update=own)


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
