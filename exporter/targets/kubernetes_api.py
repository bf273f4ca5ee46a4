"""Kubernetes' API, as far as discovery needs it: to list pods, and to watch them.

Plain requests do what is needed: a client library would be larger than the exporter. What the API promises:
https://kubernetes.io/docs/reference/using-api/api-concepts/#efficient-detection-of-changes.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from aiohttp import ClientResponse, ClientSession, ClientTimeout, DummyCookieJar, TCPConnector

from exporter import __version__
from exporter.config.http_settings import Authorization, HttpSettings, TlsConfig
from exporter.config.kubernetes_settings import NAMESPACE
from exporter.config.url import host_and_port
from exporter.scrape import credentials

if TYPE_CHECKING:
    from exporter.config.kubernetes_settings import KubernetesDiscovery

SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where Kubernetes puts a pod's credentials. It replaces the token in there before the old one expires."""

_PAGE: Final = 250
"""Pods in one answer: some MB at most."""

_MOST_PAGES: Final = 1000
"""Answers that a list may take: 250,000 pods, more than a cluster can have."""
_LARGEST_PAGE: Final = 32 * 2**20
_LONGEST_LINE: Final = 16 * 2**20
_LIST_TIMEOUT: Final = 30.0
_CONNECT_TIMEOUT: Final = 10.0
_GRACE: Final = 15.0
_LONGEST_REASON: Final = 300


Read = TypeVar("Read")


class ApiError(Exception):
    """The API did not give what was asked for. The text goes into the log; it holds no secret."""


class ExpiredError(ApiError):
    """What happened since the given version is no longer known: list anew."""


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
        namespace = path.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise ApiError(f"{path}: cannot be read: {error.strerror}; configure `namespaces`") from None
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

    async def listed(self, read: Callable[[Any], Read]) -> tuple[list[Read], str]:
        """Return all pods, and the version to watch from.

        Each is ``read`` at once: as the API describes it, a pod takes many times the memory.

        Raises:
            ApiError: The API refuses, or answers something else.
            ExpiredError: It took too long to fetch all pages.
            PollError: The credentials cannot be read.
            aiohttp.ClientError, OSError, TimeoutError: There is no answer.
        """
        pods: list[Read] = []
        more = ""
        for _ in range(_MOST_PAGES):
            page = await self._page(more)
            metadata = _mapping(page.get("metadata"))
            items, more = page.get("items") or [], metadata.get("continue") or ""
            if not isinstance(items, list) or not isinstance(more, str):
                raise ApiError("the answer is not a list of the API; is `api_server` the API server?")
            pods.extend(map(read, items))
            if not more:
                return pods, _version(metadata)
        raise ApiError(
            f"the list does not end after {_MOST_PAGES} answers with {len(pods)} pods; choose fewer by "
            "`namespaces` or `label_selector`, if `api_server` is the API server"
        )

    async def _page(self, more: str) -> dict[str, Any]:
        """Return one answer of a list: the first, or the one that the last named as its continuation."""
        asked = {"limit": str(_PAGE), **({"continue": more} if more else {})}
        body = bytearray()
        async with self._get("list", asked, ClientTimeout(total=_LIST_TIMEOUT)) as answer:
            async for chunk in answer.content.iter_any():
                body += chunk
                if len(body) > _LARGEST_PAGE:
                    raise ApiError(f"an answer of {_PAGE} pods is larger than {_LARGEST_PAGE >> 20} MiB")
        return _object(body)

    @asynccontextmanager
    async def watched(self, version: str, seconds: int) -> AsyncIterator[AsyncIterator[list[Any]]]:
        """Watch from ``version`` on, for so many seconds; yields what happens, as it comes.

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
            yield _events(answer)

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
            headers={"Accept": "application/json", **credentials.headers(http)},
            ssl=credentials.ssl_context(http) if self._url.startswith("https:") else True,
            server_hostname=tls.server_name if tls else None,
            timeout=patience,
            allow_redirects=False,
        ) as answer:
            if answer.status != HTTPStatus.OK:
                raise self._refusal(verb, answer.status, await answer.content.read(_LONGEST_LINE))
            yield answer

    def _refusal(self, verb: str, status: int, body: bytes) -> ApiError:
        if status == HTTPStatus.GONE:
            return ExpiredError("410 Gone")
        said = _said(body)
        if status == HTTPStatus.UNAUTHORIZED:
            return ApiError(f"401 Unauthorized: the API server does not accept the token{said}")
        if status == HTTPStatus.FORBIDDEN:
            return ApiError(f"403 Forbidden: {self._needed(verb)}{said}")
        return ApiError(f"status {status}{said}")

    def _needed(self, verb: str) -> str:
        """Say which permission is missing, in the words of a Role."""
        return (
            f"to {verb} pods in {self._place} is not allowed; bind a {self._kind} with "
            'apiGroups: [""], resources: [pods], verbs: [list, watch]'
        )


def refused(status: object) -> ApiError:
    """Return what the Status in the middle of a watch means."""
    found = _mapping(status)
    code, message = found.get("code"), str(found.get("message") or "")[:_LONGEST_REASON]
    if code == HTTPStatus.GONE or found.get("reason") == "Expired":
        return ExpiredError("410 Gone")
    return ApiError(f"the watch ended with status {code}: {message}")


@asynccontextmanager
async def session() -> AsyncIterator[ClientSession]:
    """Open a connection to the API. A proxy that the environment names is not used."""
    agent = {"User-Agent": f"spec-decode-exporter/{__version__}"}
    async with ClientSession(
        connector=TCPConnector(limit=1), cookie_jar=DummyCookieJar(), headers=agent, trust_env=False
    ) as opened:
        yield opened


async def _events(answer: ClientResponse) -> AsyncIterator[list[Any]]:
    """Yield the events of a watch: those that came together, together."""
    rest = b""
    async for chunk in answer.content.iter_any():
        *lines, rest = (rest + chunk).split(b"\n")
        if len(rest) > _LONGEST_LINE:
            raise ApiError("the watch holds a line that is too long")
        if lines:
            yield [_object(line) for line in lines if line.strip()]


def _object(body: bytes | bytearray) -> dict[str, Any]:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        raise ApiError("the answer is not JSON; is `api_server` the API server?") from None
    if not isinstance(found, dict):
        raise ApiError("the answer is not an object of the API; is `api_server` the API server?")
    return found


def _version(metadata: Mapping[str, Any]) -> str:
    version = metadata.get("resourceVersion")
    if not version or not isinstance(version, str):
        raise ApiError("the list has no version to watch from; is `api_server` the API server?")
    return version


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _said(body: bytes) -> str:
    """Return what the API's Status says, for the end of a sentence."""
    try:
        message = _object(body).get("message")
    except ApiError:
        return ""
    return f" ({message[:_LONGEST_REASON]})" if isinstance(message, str) and message.isprintable() else ""
