"""Targets from the pods of a Kubernetes cluster."""

from __future__ import annotations

import asyncio
import errno
import os
import random
import ssl
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import structlog
from aiohttp import ClientError
from pydantic import ValidationError

from exporter.scrape.errors import PollError
from exporter.targets.kubernetes_api import (
    Access,
    ApiError,
    ExpiredError,
    PodsApi,
    own_namespace,
    refused,
    session,
)
from exporter.targets.pods import KIND, Pod, PodReader, UnusablePodError
from exporter.targets.protocol import DiscoveryError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from aiohttp import ClientSession

    from exporter.config.kubernetes_settings import KubernetesDiscovery
    from exporter.config.target_settings import Scrape
    from exporter.targets.target import Target

_WATCH_SECONDS: Final = (120, 180)
"""How long one watch lasts, drawn anew each time, so that many exporters do not begin anew together."""

_FIRST_PAUSE: Final = 1.0
_LONGEST_PAUSE: Final = 60.0
_MOST_DOUBLINGS: Final = 6
_TOO_SHORT: Final = 1.0
"""Seconds. A watch that ends sooner, without a word, would be begun again and again."""

_MOST_IN_VAIN: Final = 2
"""As many watches in a row may end so: one that broke, and one that says that its version is too old."""

_PLACES: Final = {None: "own namespace", "": "all namespaces"}

_log = structlog.get_logger(__name__)


class PodDiscovery:
    """The targets in one namespace, or in all. A look waits until they are others than before."""

    kind: Final = KIND

    def __init__(
        self,
        namespace: str | None,
        settings: KubernetesDiscovery,
        scrape: Scrape,
        chance: Callable[[], float] = random.random,
    ) -> None:
        """Watch ``namespace``, one of those in ``settings``; ``chance`` gives numbers from 0 to 1."""
        where = _PLACES.get(namespace, f"namespace {namespace}")
        self.name = " ".join(filter(None, (self.kind, where, settings.label_selector)))
        which = settings.api_server, settings.ports, settings.annotation_prefix, settings.only_ready
        self.key = f"{self.name} {which}"
        self._namespace = namespace
        self._settings = settings
        self._chance = chance
        self._pods = _Pods(self.name, PodReader(settings, scrape, self.name))
        self._version = ""
        self._failures = 0
        self._failed = False
        self._in_vain = 0

    @property
    def refresh(self) -> float:
        """Seconds to the next look: none, for a look waits by itself; after failures longer and longer."""
        if not self._failed:
            return 0.0
        pause = _FIRST_PAUSE * 2.0 ** min(self._failures - 1, _MOST_DOUBLINGS)
        return min(pause, _LONGEST_PAUSE) * (0.5 + self._chance() / 2)

    async def targets(self) -> Sequence[Target]:
        """List the pods at first; later on, watch them until a target comes, goes or changes.

        Raises:
            DiscoveryError: The API cannot be asked; the targets stay.
        """
        try:
            async with session() as opened:
                await self._look(self._api(opened))
        except (ApiError, PollError) as error:
            raise self._failure(str(error)) from None
        except TimeoutError:
            raise self._failure("the API server does not answer in time") from None
        except (ClientError, OSError) as error:
            raise self._failure(f"the API server cannot be reached: {_plainly(error)}") from None
        except ValidationError:
            raise self._failure("the API server answers something else than pods") from None
        except Exception:
            # Whoever catches it looks again at once, unless this counts as a failure too.
            self._failure("")
            raise
        self._failed = False
        return self._pods.targets()

    def _api(self, opened: ClientSession) -> PodsApi:
        access = Access.of(self._settings)
        namespace = own_namespace() if self._namespace is None else self._namespace
        return PodsApi(opened, access, namespace, self._settings.label_selector or "")

    def _failure(self, reason: str) -> DiscoveryError:
        self._failures += 1
        self._failed = True
        return DiscoveryError(reason)

    async def _look(self, api: PodsApi) -> None:
        """Return once it is known how the targets are now."""
        while self._version:
            try:
                if await self._watch(api):
                    return
            except (ExpiredError, ValidationError):
                self._version = ""
                if self._is_in_vain():
                    raise
        pods, self._version = await api.listed(Pod.model_validate)
        self._pods.replace(pods)

    async def _watch(self, api: PodsApi) -> bool:
        """Watch for as long as one watch lasts; return whether a target changed, or the API is back."""
        lowest, highest = _WATCH_SECONDS
        seconds = lowest + int((highest - lowest) * self._chance())
        begun = _now()
        async with api.watched(self._version, seconds) as events:
            if self._failed:
                return True
            # A connection that breaks is as good as one that ends: the next watch goes on where it was.
            with suppress(ClientError, OSError):
                async for together in events:
                    changed = self._take(together)
                    self._is_well()
                    if changed:
                        return True
        if _now() - begun >= _TOO_SHORT:
            self._is_well()
        elif self._is_in_vain():
            raise ApiError("the API server ends a watch as soon as it begins")
        return False

    def _is_well(self) -> None:
        self._failures = self._in_vain = 0

    def _is_in_vain(self) -> bool:
        """Count a watch that brought nothing; return whether another one at once would be too many."""
        self._in_vain += 1
        return self._in_vain > _MOST_IN_VAIN

    def _take(self, events: Iterable[Mapping[str, Any]]) -> bool:
        """Take what happened; return whether a target came, went or changed."""
        changed = False
        for event in events:
            kind, found = event.get("type"), event.get("object")
            if kind == "ERROR":
                raise refused(found)
            if kind == "BOOKMARK":
                self._version = _version(found) or self._version
                continue
            pod = Pod.model_validate(found)
            changed |= self._pods.remove(pod) if kind == "DELETED" else self._pods.put(pod)
            self._version = pod.metadata.resource_version or self._version
        return changed


class _Pods:
    """The pods that are known, as targets."""

    def __init__(self, discovery: str, reader: PodReader) -> None:
        self._discovery = discovery
        self._reader = reader
        self._targets: dict[tuple[str, str], tuple[Target, ...]] = {}
        self._left_out: dict[tuple[str, str], str] = {}

    def targets(self) -> list[Target]:
        """Return the targets by the names of their pods: their order tells who keeps a name."""
        return [target for key in sorted(self._targets) for target in self._targets[key]]

    def replace(self, pods: Iterable[Pod]) -> None:
        """Take these pods in the place of all that were known."""
        gone = self._targets.keys() | self._left_out.keys()
        for pod in pods:
            self.put(pod)
            gone.discard(pod.key)
        for key in gone:
            self._forget(key)

    def put(self, pod: Pod) -> bool:
        """Take a pod as it is now; return whether that changes a target."""
        before = self._targets.get(pod.key, ())
        self._targets[pod.key] = self._read(pod)
        return self._targets[pod.key] != before

    def remove(self, pod: Pod) -> bool:
        """Take it that a pod is gone; return whether it was a target."""
        return bool(self._forget(pod.key))

    def _forget(self, key: tuple[str, str]) -> tuple[Target, ...]:
        self._left_out.pop(key, None)
        return self._targets.pop(key, ())

    def _read(self, pod: Pod) -> tuple[Target, ...]:
        try:
            targets = self._reader.targets(pod)
        except UnusablePodError as error:
            self._leave_out(pod, str(error))
            return ()
        self._left_out.pop(pod.key, None)
        return targets

    def _leave_out(self, pod: Pod, reason: str) -> None:
        """Say once why a pod is no target."""
        if self._left_out.get(pod.key) != reason:
            self._left_out[pod.key] = reason
            _log.warning("pod_left_out", discovery=self._discovery, pod="/".join(pod.key), reason=reason)


def _version(found: object) -> str:
    match found:
        case {"metadata": {"resourceVersion": str(version)}}:
            return version
    return ""


def _plainly(error: ClientError | OSError) -> str:
    """Say what went wrong, in the same words each time: only a new reason is logged."""
    cause = getattr(error, "certificate_error", None) or getattr(error, "os_error", error)
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"its certificate is not to be trusted: {cause.verify_message}"
    number = cause.errno if isinstance(cause, OSError) and not isinstance(cause, ssl.SSLError) else None
    if number is not None and number in errno.errorcode:
        return os.strerror(number)
    return str(cause) or type(error).__name__


def _now() -> float:
    return asyncio.get_running_loop().time()
