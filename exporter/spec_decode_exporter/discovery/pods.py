"""Targets of pods: listed once, then watched for changes."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from http import HTTPStatus
from itertools import chain
from time import monotonic
from typing import Final

import structlog
from aiohttp import ClientError, ClientSession, ClientTimeout, DummyCookieJar

from spec_decode_exporter.config.target_settings import KubernetesDiscovery, Scrape, port_problem
from spec_decode_exporter.core.recurring import back_off
from spec_decode_exporter.core.tasks import TARGET_LISTS
from spec_decode_exporter.discovery.groups import MAX_TARGETS, ip_and_port, page_url, request_target
from spec_decode_exporter.discovery.kubernetes_api import (
    ApiStatus,
    ExpiredError,
    Pod,
    PodList,
    PodsApi,
    WatchEvent,
    decoded,
    lines,
    whole,
)
from spec_decode_exporter.discovery.target import DiscoveryError, LabelFilter, Target
from spec_decode_exporter.discovery.vllm_command_line import pod_speculation
from spec_decode_exporter.scrape.errors import PollError
from spec_decode_exporter.scrape.server_info import ServedSpeculation

KIND: Final = "kubernetes"
PAGE: Final = 100
"""Pods of one response: some MB at most."""
MAX_PODS: Final = 50_000
"""Pods of a list. Those without targets are not kept."""
MAX_PORTS: Final = 16
"""Ports of a pod, by its annotation or by the names of its containers' ports."""
MAX_ARGUMENTS: Final = 32 * 2**10
"""Characters of a pod's commands, arguments and variables that are searched for vLLM's flags."""
_WATCH_SECONDS: Final = (120, 180)
"""Range of a watch's duration, random each time, so that many exporters do not restart it together."""
_GRACE: Final = 15
"""Seconds after which a watch that should have ended is a silently lost connection."""
_REFRESH: Final = 1.0
"""Seconds between a change of the targets and the next watch: many changes are one change a second."""
_MAX_PAUSE: Final = 60.0
_TOO_SHORT: Final = 1.0
"""Seconds. A watch that ends earlier without a change is fruitless; any other ends the back-off."""
_MAX_FRUITLESS: Final = 2
"""Fruitless or expired watches in a row that are not reported: they follow from a restart of the API."""
_FEWER: Final = "choose fewer by `namespaces` or `label_selector`"

_Found = dict[str, tuple[Target, ...]]
"""Targets by pod."""

_log = structlog.get_logger(__name__)


class PodReader:
    """Convert pods to targets."""

    def __init__(
        self, settings: KubernetesDiscovery, scrape: Scrape, name: str = KIND, key: str = ""
    ) -> None:
        """Use ports and labels of ``settings``, and the path, scheme and credentials of ``scrape``.

        Log with ``name``, that of the discovery; ``key`` identifies it.
        """
        self._name, self._key = name, key or name
        self._settings, self._scrape, self._http = settings, scrape, scrape.http
        self._filter = LabelFilter(name)

    def targets(self, pod: Pod) -> tuple[Target, ...]:
        """Return a target for each of the pod's ports; none if it does not run, or is unusable."""
        status = pod.status
        is_ready = any(each.type == "Ready" and each.status == "True" for each in status.conditions or ())
        if status.phase != "Running" or not status.pod_ip or (self._settings.only_ready and not is_ready):
            return ()
        try:
            return tuple(self._targets(pod))
        except ValueError as error:
            if self._filter.is_new(f"{pod.key} {error}"):
                _log.warning("pod_left_out", discovery=self._name, pod=pod.key, reason=str(error))
            return ()

    def _targets(self, pod: Pod) -> Iterator[Target]:
        """Yield the targets; raise ValueError if the address or an annotation is unusable."""
        present = pod.metadata.labels or {}
        labels = {label: present[key] for label, key in self._settings.labels.items() if key in present}
        labels |= {"namespace": pod.metadata.namespace, "pod": pod.metadata.name}
        kept, speculation, ports = self._filter.kept(labels), _speculation(pod), self._ports(pod)
        for port in ports:
            yield Target(
                url=self._url(pod, port),
                name=pod.key + (f":{port}" if len(ports) > 1 else ""),
                labels=kept,
                http=self._http,
                discovery=KIND,
                found_by=self._key,
                pod_arguments=speculation,
            )

    def _url(self, pod: Pod, port: int) -> str:
        """Return the URL of a page; annotations cannot change the host."""
        scheme = _annotation(pod, "scheme") or self._scrape.scheme
        path = _annotation(pod, "path") or self._scrape.metrics_path
        try:
            return page_url(scheme, ip_and_port(pod.status.pod_ip, port), request_target(path))
        except ValueError as error:
            raise ValueError(f"its address with the scheme and path of its annotations {error}") from None

    def _ports(self, pod: Pod) -> Sequence[int]:
        """Return the distinct port numbers, in the order of the configuration or annotation."""
        # Split only up to the limit: an annotation may have 256 KiB.
        annotated = [port.strip() for port in _annotation(pod, "port").split(",", MAX_PORTS)]
        wanted = dict.fromkeys(filter(None, annotated[:MAX_PORTS])) or self._settings.ports
        declared = [port for container in pod.spec.containers or () for port in container.ports or ()]
        numbers: dict[int, None] = {}
        for port in wanted:
            if problem := port_problem(port):
                raise ValueError(f"the port of its annotation {problem}")
            named = (each.container_port for each in declared if each.name == port)
            numbers |= dict.fromkeys([int(port)] if port.isdecimal() else named)
        if len(annotated) > MAX_PORTS or len(numbers) > max(MAX_PORTS, len(self._settings.ports)):
            raise ValueError(f"it names more than {MAX_PORTS} ports; name fewer")
        return list(numbers)


def _annotation(pod: Pod, name: str) -> str:
    return (pod.metadata.annotations or {}).get(f"prometheus.io/{name}", "").strip()


def _speculation(pod: Pod) -> ServedSpeculation | None:
    """Return the speculation settings of the first container that has some."""
    left = MAX_ARGUMENTS
    for container in pod.spec.containers or ():
        words = (*(container.command or ()), *(container.args or ()))
        environ = {variable.name: variable.value for variable in container.env or () if variable.value}
        left -= sum(map(len, chain(words, environ.values())))
        found = pod_speculation(words, environ) if left >= 0 else None
        if found is not None:
            return found
    return None


class PodDiscovery:
    """Targets in one or all namespaces. A refresh waits until they change, or a watch ends."""

    def __init__(
        self,
        namespace: str | None,
        settings: KubernetesDiscovery,
        scrape: Scrape,
        chance: Callable[[], float] = random.random,
    ) -> None:
        """Watch ``namespace``, one of those in ``settings``; ``chance`` returns random numbers, 0 to 1."""
        place = {None: "own namespace", "": "all namespaces"}.get(namespace, f"namespace {namespace}")
        self.name = " ".join(filter(None, (KIND, place, settings.label_selector)))
        self.key = f"{self.name} {(settings.api_server, settings.ports, settings.only_ready)}"
        self.refresh = _REFRESH
        self._namespace, self._settings, self._chance = namespace, settings, chance
        self._reader = PodReader(settings, scrape, self.name, self.key)
        self._found: _Found = {}
        self._version = ""  # to watch from; empty if the pods must be listed
        self._failures = 0
        self._is_reported = False

    async def targets(self) -> Sequence[Target]:
        """List the pods at first; later, watch them until a target changes or the watch ends.

        Raises:
            DiscoveryError: A request to the API failed; the previous targets stay.
        """
        is_watch = bool(self._version)
        self._failures += 1  # until this refresh has succeeded: it may raise anything
        self.refresh = back_off(self._failures, _REFRESH, _MAX_PAUSE) * (0.5 + self._chance() / 2)
        try:
            # Proxies of the environment are ignored, and responses are not decompressed.
            async with ClientSession(cookie_jar=DummyCookieJar(), auto_decompress=False) as session:
                api = PodsApi(session, self._settings, self._namespace)
                await (self._watch(api) if self._version else self._list(api))
        except (DiscoveryError, PollError, ClientError, OSError) as error:
            is_expired = isinstance(error, ExpiredError)
            self._version = "" if is_expired else self._version
            self._is_reported = not (is_expired and is_watch) or self._failures > _MAX_FRUITLESS
            if self._is_reported:
                raise DiscoveryError(_reason(error)) from None
        else:
            self._failures, self._is_reported, self.refresh = self._failures - 1, False, _REFRESH
        return [target for key in sorted(self._found) for target in self._found[key]]

    async def _list(self, api: PodsApi) -> None:
        """List all pods, a page at a time; the targets are replaced only by a whole list."""
        found: _Found = {}
        left, more = MAX_PODS, ""
        while left == MAX_PODS or more:
            async with api.request(ClientTimeout(total=30), limit=str(PAGE), **{"continue": more}) as content:
                page = await TARGET_LISTS.run(self._read_page, await whole(content), found)
            left, more = left - max(PAGE, len(page.items or ())), page.metadata.next_page
            if left < 0:
                raise DiscoveryError(f"there are more than {MAX_PODS} pods, or the list has no end; {_FEWER}")
        if not page.metadata.resource_version:
            raise DiscoveryError("the list has no version to watch from; is `api_server` the API server?")
        self._found, self._version = found, page.metadata.resource_version

    def _read_page(self, body: bytes, found: _Found) -> PodList:
        page = decoded(body, PodList)
        found |= {pod.key: targets for pod in page.items or () if (targets := self._reader.targets(pod))}
        _check_number(found)
        return page

    async def _watch(self, api: PodsApi) -> None:
        """Watch until a target changes or the watch ends.

        Raises:
            ExpiredError: The watch ended as soon as it began: the pods are listed again, after a pause.
        """
        lowest, highest = _WATCH_SECONDS
        seconds = lowest + int((highest - lowest) * self._chance())
        started, changed = monotonic(), False
        async with api.request(
            ClientTimeout(total=None, sock_connect=10, sock_read=seconds + _GRACE),
            watch="1",
            allowWatchBookmarks="true",
            resourceVersion=self._version,
            timeoutSeconds=str(seconds),
        ) as content:
            if self._is_reported:
                return  # at once, so that the caller logs the recovery
            # A broken connection is like a closed one: the next watch continues at the same version.
            with suppress(ClientError, OSError):
                async for batch in lines(content):
                    if changed := await TARGET_LISTS.run(self._apply, batch):
                        break
        if changed or monotonic() - started >= _TOO_SHORT:
            self._failures = 1  # this one, which has not failed
        else:
            raise ExpiredError("the API server ends a watch as soon as it begins")

    def _apply(self, batch: Iterable[bytes]) -> bool:
        """Apply the events of a watch; return whether a target changed."""
        changed = False
        # Listed again if an event is unreadable: a watch from the same version would end there again.
        version, self._version = self._version, ""
        for event in (decoded(line, WatchEvent) for line in batch):
            if event.type == "ERROR":
                status = decoded(bytes(event.object), ApiStatus)
                kind = ExpiredError if status.code == HTTPStatus.GONE else DiscoveryError
                raise kind(f"the watch ended with status {status.code}{status.text()}")
            pod = decoded(bytes(event.object), Pod)
            version = pod.metadata.resource_version or version
            if event.type != "BOOKMARK":
                before = self._found.pop(pod.key, ())
                targets = () if event.type == "DELETED" else self._reader.targets(pod)
                self._found |= {pod.key: targets} if targets else {}
                changed |= targets != before
        _check_number(self._found)
        self._version = version
        return changed


def _check_number(found: _Found) -> None:
    if sum(map(len, found.values())) > MAX_TARGETS:
        raise DiscoveryError(f"there are more than {MAX_TARGETS} targets; {_FEWER}")


def _reason(error: Exception) -> str:
    """Return a text that is equal for equal errors: only a new reason is logged."""
    if isinstance(error, DiscoveryError | PollError):
        return str(error)
    cause = getattr(error, "certificate_error", None) or getattr(error, "os_error", error)
    return f"the API server cannot be reached: {str(cause) or 'no answer in time'}"
