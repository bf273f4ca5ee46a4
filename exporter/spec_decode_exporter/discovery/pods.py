"""Targets of pods, by plain requests to the Kubernetes API: its client library is larger than all this."""

from __future__ import annotations

import os
import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from http import HTTPStatus
from itertools import chain
from pathlib import Path
from typing import Annotated, Final
from urllib.parse import urlencode

import msgspec
import structlog
from msgspec import Meta, Struct, field

from spec_decode_exporter.config.http_settings import Authorization, HttpSettings, TlsConfig
from spec_decode_exporter.config.target_settings import NAMESPACE, KubernetesDiscovery, Scrape, port_problem
from spec_decode_exporter.config.types import MAX_TARGETS
from spec_decode_exporter.core.files import read_bounded
from spec_decode_exporter.core.recurring import back_off
from spec_decode_exporter.core.tasks import TARGET_LISTS
from spec_decode_exporter.core.urls import host_and_port
from spec_decode_exporter.discovery.lists import (
    TargetDiscovery,
    ip_and_port,
    page_url,
    request_target,
)
from spec_decode_exporter.discovery.target import DiscoveryError, Target
from spec_decode_exporter.discovery.vllm_command_line import MAX_COMMAND_CHARACTERS, pod_speculation
from spec_decode_exporter.scrape.client import Client
from spec_decode_exporter.scrape.errors import PollError, StatusError
from spec_decode_exporter.scrape.server_info import ServedSpeculation

SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
SECONDS: Final = (
    30.0  # between two lists; up to a tenth less by chance, so that not all exporters ask together
)
PAGE: Final = 100  # pods of one response: some MB at most
MAX_PAGE_BYTES: Final = 8 * 2**20
_LIMITS: Final = {b"{": 300_000, b'"': 1_000_000}  # of a page: decoding holds the GIL, and keeps each value
MAX_PODS: Final = 50_000  # pods of a list. Those without targets are not kept.
MAX_PORTS: Final = 16  # ports of a pod, by its annotation or by the names of its containers' ports
_RETRY: Final = 1.0, 60.0  # seconds from a failed list to the next, at first and at most
_READY: Final[dict[str, object]] = {"type": "Ready", "status": "True"}
_FEWER: Final = "choose fewer by `namespaces` or `label_selector`"

_Listed = dict[
    str, tuple[str, tuple[Target, ...]]
]  # version and targets of each pod that has some, by its key
Environment = Mapping[str, str]
_Token = Annotated[str, Meta(max_length=2 * 2**10)]

_log = structlog.get_logger(__name__)


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
    # Kubernetes guarantees the patterns. The metadata of a list have no name.
    name: Annotated[str, Meta(pattern=r"^[a-z0-9.-]{1,253}\Z")] = ""
    namespace: Annotated[str, Meta(pattern=r"^[a-z0-9-]{1,63}\Z")] = ""
    resource_version: _Token = ""
    next_page: _Token = field(default="", name="continue")
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class _Status(Struct):
    phase: str = ""
    pod_ip: str = field(default="", name="podIP")
    conditions: list[dict[str, object]] | None = None


class Pod(Struct):
    """Pod of the core API, version v1."""

    metadata: _Metadata
    spec: _Spec = field(default_factory=_Spec)
    status: _Status = field(default_factory=_Status)

    @property
    def key(self) -> str:
        """Namespace and name."""
        return f"{self.metadata.namespace}/{self.metadata.name}"

    def annotation(self, name: str) -> str:
        """Return the value of ``prometheus.io/name``; empty if there is none."""
        return (self.metadata.annotations or {}).get(f"prometheus.io/{name}", "").strip()


class _PodList(Struct):
    metadata: _Metadata
    items: list[Pod] | None = None


class PodDiscovery(TargetDiscovery):
    """Targets in one or all namespaces."""

    def __init__(self, namespace: str | None, settings: KubernetesDiscovery, scrape: Scrape) -> None:
        place = {None: "own namespace", "": "all namespaces"}.get(namespace, f"namespace {namespace}")
        name = " ".join(filter(None, ("kubernetes", place, settings.label_selector)))
        key = f"{name} {(settings.api_server, settings.ports, settings.only_ready)}"
        super().__init__("kubernetes", name, scrape, SECONDS, key)
        self._namespace, self._settings = namespace, settings
        self._listed, self._failures = _Listed(), 0
        self.chance: Callable[[], float] = random.random

    async def targets(self) -> Sequence[Target]:
        """List the pods; raise DiscoveryError if that fails, which leaves the previous targets."""
        self._failures += 1  # until the list has succeeded: it may raise anything
        self.refresh = back_off(self._failures, *_RETRY) * (0.5 + self.chance() / 2)
        self._listed = await self._list()
        self._failures, self.refresh = 0, SECONDS * (1.0 - self.chance() / 10)
        return [target for key in sorted(self._listed) for target in self._listed[key][1]]

    async def _list(self) -> _Listed:
        """List all pods, a page at a time."""
        server, http = access(self._settings)
        namespace = _own_namespace() if self._namespace is None else self._namespace
        pods = f"{server}/api/v1{f'/namespaces/{namespace}' if namespace else ''}/pods"
        wanted = {
            "fieldSelector": "status.phase=Running",
            "labelSelector": self._settings.label_selector or "",
        }
        client = Client(http, timeout=30.0, max_body=MAX_PAGE_BYTES)
        listed: _Listed = {}
        left, more = MAX_PODS, ""
        try:
            while left == MAX_PODS or more:
                answer = await client.get(f"{pods}?{urlencode({**wanted, 'limit': PAGE, 'continue': more})}")
                page = await TARGET_LISTS.run(self._read_page, answer.body, listed)
                left, more = left - max(PAGE, len(page.items or ())), page.metadata.next_page
                if left < 0:
                    raise DiscoveryError(f"has more than {MAX_PODS} pods, or the list has no end; {_FEWER}")
        except StatusError as error:
            raise _refusal(error, namespace) from None
        except PollError as error:
            raise DiscoveryError(str(error)) from None
        finally:
            await client.close()
        return listed

    def _read_page(self, body: bytes, listed: _Listed) -> _PodList:
        """Add the pods of a page to those ``listed``. A pod of the same version has the same targets."""
        if any(body.count(character) > limit for character, limit in _LIMITS.items()):
            raise DiscoveryError("the API server answers too many values at once")
        try:
            page = msgspec.json.decode(body, type=_PodList)
        except msgspec.ValidationError:
            raise DiscoveryError("the API server answers something else than pods") from None
        except (ValueError, RecursionError):
            raise DiscoveryError("the answer is not JSON; is `api_server` the API server?") from None
        if not page.metadata.resource_version:  # an empty answer of another server must not end all targets
            raise DiscoveryError("the list has no version; is `api_server` the API server?")
        for pod in page.items or ():
            version, targets = self._listed.get(pod.key, ("", ()))
            if not version or version != pod.metadata.resource_version:
                targets = self.of_pod(pod)
            listed |= {pod.key: (pod.metadata.resource_version, targets)} if targets else {}
        if sum(len(targets) for _, targets in listed.values()) > MAX_TARGETS:
            raise DiscoveryError(f"has more than {MAX_TARGETS} targets; {_FEWER}")
        return page

    def of_pod(self, pod: Pod) -> tuple[Target, ...]:
        """Return a target for each of the pod's ports; none if it does not run, or is unusable."""
        status = pod.status
        is_ready = any(_READY.items() <= one.items() for one in status.conditions or ())
        if status.phase != "Running" or not status.pod_ip or (self._settings.only_ready and not is_ready):
            return ()
        try:
            return tuple(self._targets(pod))
        except ValueError as error:
            if self._labels.is_new(f"{pod.key} {error}"):
                _log.warning("pod_left_out", discovery=self.name, pod=pod.key, reason=str(error))
            return ()

    def _targets(self, pod: Pod) -> Iterator[Target]:
        """Yield the targets; raise ValueError if the address or an annotation is unusable."""
        present = pod.metadata.labels or {}
        labels = {label: present[key] for label, key in self._settings.labels.items() if key in present}
        labels |= {"namespace": pod.metadata.namespace, "pod": pod.metadata.name}
        kept, speculation, ports = self._labels.kept(labels), _speculation(pod), self._ports(pod)
        scheme = pod.annotation("scheme") or self._scrape.scheme
        path = pod.annotation("path") or self._scrape.metrics_path
        for port in ports:
            try:  # annotations cannot change the host
                url = page_url(scheme, ip_and_port(pod.status.pod_ip, port), request_target(path))
            except ValueError as error:
                raise ValueError(f"its address with the scheme and path of its annotations {error}") from None
            name = pod.key + (f":{port}" if len(ports) > 1 else "")
            yield replace(self._target(url, name, kept), pod_arguments=speculation)

    def _ports(self, pod: Pod) -> Sequence[int]:
        """Return the distinct port numbers, in the order of the configuration or annotation."""
        # Split only up to the limit: an annotation may have 256 KiB.
        annotated = [port.strip() for port in pod.annotation("port").split(",", MAX_PORTS)]
        wanted = dict.fromkeys(filter(None, annotated[:MAX_PORTS])) or self._settings.ports
        declared = [port for container in pod.spec.containers or () for port in container.ports or ()]
        numbers: dict[int, None] = {}
        for port in wanted:
            if problem := port_problem(port):
                raise ValueError(f"the port of its annotation {problem}")
            named = (one.container_port for one in declared if one.name == port)
            numbers |= dict.fromkeys([int(port)] if port.isdecimal() else named)
        if len(annotated) > MAX_PORTS or len(numbers) > max(MAX_PORTS, len(self._settings.ports)):
            raise ValueError(f"it names more than {MAX_PORTS} ports; name fewer")
        return list(numbers)


def _speculation(pod: Pod) -> ServedSpeculation | None:
    """Return the speculation settings of the first container that has some."""
    left = MAX_COMMAND_CHARACTERS
    for container in pod.spec.containers or ():
        words = (*(container.command or ()), *(container.args or ()))
        environ = {variable.name: variable.value for variable in container.env or () if variable.value}
        left -= sum(map(len, chain(words, environ.values())))
        if left >= 0 and (found := pod_speculation(words, environ)):
            return found
    return None


def _refusal(error: StatusError, namespace: str) -> DiscoveryError:
    """Return the error for a rejected list, with the permission that is missing and the API's own words."""
    text = str(error)
    if error.status == HTTPStatus.UNAUTHORIZED:
        text += ": the API server does not accept the token"
    if error.status == HTTPStatus.FORBIDDEN:
        kind, place = ("Role", f"namespace {namespace}") if namespace else ("ClusterRole", "all namespaces")
        rule = 'apiGroups: [""], resources: [pods], verbs: [list]'
        text += f": to list pods in {place} is not allowed; bind a {kind} with {rule}"
    return DiscoveryError(text)


def access(settings: KubernetesDiscovery, environ: Environment = os.environ) -> tuple[str, HttpSettings]:
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
