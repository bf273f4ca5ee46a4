"""Targets from the pods of a Kubernetes cluster."""

from __future__ import annotations

import asyncio
import errno
import os
import random
import ssl
from collections.abc import Mapping
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import structlog
from aiohttp import ClientError
from pydantic import ValidationError

from spec_decode_exporter.core.cooperative_yield import cooperatively
from spec_decode_exporter.core.token_bucket import TokenBucket
from spec_decode_exporter.discovery.group_reader import MAX_TARGETS
from spec_decode_exporter.discovery.kubernetes.api_objects import ApiError, ExpiredError, refused
from spec_decode_exporter.discovery.kubernetes.pods import KIND, Pod, PodReader, UnusablePodError
from spec_decode_exporter.discovery.kubernetes.pods_api import Access, PodsApi, own_namespace, session
from spec_decode_exporter.discovery.protocol import DiscoveryError
from spec_decode_exporter.scrape.poll_errors import PollError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from aiohttp import ClientSession

    from spec_decode_exporter.config.kubernetes_settings import KubernetesDiscovery
    from spec_decode_exporter.config.target_settings import Scrape
    from spec_decode_exporter.core.cooperative_yield import Pausing
    from spec_decode_exporter.core.json_reader import Shape
    from spec_decode_exporter.discovery.target import Target

_WATCH_SECONDS: Final = (120, 180)
"""How long one watch lasts, drawn anew each time, so that many exporters do not begin anew together."""

_BETWEEN_LOOKS: Final = 1.0
"""Seconds between a change of the targets and the next watch: a storm of changes is one change a second."""
_BETWEEN_LISTS: Final = (5.0, 60.0)
"""Seconds between two lists: at first, and at most, where versions expire again and again."""

_FIRST_PAUSE: Final = 1.0
_MAX_PAUSE: Final = 60.0
_MAX_DOUBLINGS: Final = 6
_TOO_SHORT: Final = 1.0
"""Seconds. A watch that ends sooner, without a word, would be begun again and again."""

_MAX_IN_VAIN: Final = 2
"""As many watches in a row may end so: one that broke, and one that says that its version is too old."""

MAX_PODS: Final = 50_000
"""The most pods of a list. Those without targets are not kept."""
_MAX_WARNINGS: Final = 100
_WARNING_INTERVAL: Final = 60.0
"""Log lines about pods that are left out at once, and the seconds after which there may be another."""

_FEWER: Final = "choose fewer by `namespaces` or `label_selector`"

Key: TypeAlias = tuple[str, str]
"""The namespace and the name of a pod."""

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
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """Watch ``namespace``, one of those in ``settings``; ``chance`` gives numbers from 0 to 1."""
        where = _PLACES.get(namespace, f"namespace {namespace}")
        self.name = " ".join(filter(None, (self.kind, where, settings.label_selector)))
        which = settings.api_server, settings.ports, settings.annotation_prefix, settings.only_ready
        self.key = f"{self.name} {which}"
        self._namespace = namespace
        self._settings = settings
        self._chance = chance
        self._sleep = sleep
        self._listed_at = -_BETWEEN_LISTS[1]
        self._between_lists = _BETWEEN_LISTS[0]
        self._pods = _Pods(self.name, PodReader(settings, scrape, self.name, self.key))
        self._version = ""
        self._failures = 0
        self._failed = False
        self._in_vain = 0

    @property
    def refresh(self) -> float:
        """Seconds to the next look, which waits by itself for a change; after failures longer and longer."""
        if not self._failed:
            return _BETWEEN_LOOKS
        pause = _FIRST_PAUSE * 2.0 ** min(self._failures - 1, _MAX_DOUBLINGS)
        return min(pause, _MAX_PAUSE) * (0.5 + self._chance() / 2)

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
        await self._rest()
        pods = self._pods.begin()
        self._version = await api.listed(self._pods.shape, pods.put)
        self._listed_at = _now()
        self._pods.replace(pods)

    async def _rest(self) -> None:
        """Wait where the last list was a moment ago: each costs the API server and us much."""
        shortest, longest = _BETWEEN_LISTS
        wait = self._listed_at + self._between_lists - _now()
        self._between_lists = min(self._between_lists * 2, longest) if wait > 0 else shortest
        if wait > 0:
            await self._sleep(wait)

    async def _watch(self, api: PodsApi) -> bool:
        """Watch for as long as one watch lasts; return whether a target changed, or the API is back."""
        lowest, highest = _WATCH_SECONDS
        seconds = lowest + int((highest - lowest) * self._chance())
        begun = _now()
        async with api.watched(self._version, seconds, self._pods.shape) as events:
            if self._failed:
                return True
            # A connection that breaks is as good as one that ends: the next watch goes on where it was.
            with suppress(ClientError, OSError):
                async for together in events:
                    changed = await cooperatively(self._take(together))
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
        return self._in_vain > _MAX_IN_VAIN

    def _take(self, events: Iterable[Mapping[str, Any]]) -> Pausing[bool]:
        """Take what happened; return whether a target came, went or changed."""
        changed = False
        for event in events:
            yield
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
    """The pods that are targets, and those that are left out."""

    def __init__(self, discovery: str, reader: PodReader) -> None:
        self._discovery = discovery
        self._reader = reader
        self._targets: dict[Key, tuple[Target, ...]] = {}
        self._number = 0
        self._left_out: dict[Key, str] = {}
        self._warnings = TokenBucket(_MAX_WARNINGS, _WARNING_INTERVAL, monotonic)

    @property
    def shape(self) -> Mapping[str, Shape]:
        """The parts of a pod that are read."""
        return self._reader.shape

    def targets(self) -> list[Target]:
        """Return the targets by the names of their pods: their order tells who keeps a name."""
        # As one text each, ten thousand are sorted in a third of the time.
        return [target for key in sorted(self._targets, key="\0".join) for target in self._targets[key]]

    def begin(self) -> _List:
        """Return an empty list, which ``replace`` takes when it is complete."""
        return _List(self)

    def replace(self, pods: _List) -> None:
        """Take these pods in the place of all that were known."""
        self._targets, self._number = pods.targets, pods.number
        self._left_out = {key: self._left_out[key] for key in pods.left_out}

    def put(self, pod: Pod) -> bool:
        """Take a pod as it is now; return whether that changes a target.

        Raises:
            ApiError: There are too many targets.
        """
        before, found = self._targets.get(pod.key, ()), self.read(pod)
        self._number += len(found) - len(before)
        _check_number(self._number)
        if found:
            self._targets[pod.key] = found
        else:
            self._targets.pop(pod.key, None)
        return found != before

    def remove(self, pod: Pod) -> bool:
        """Take it that a pod is gone; return whether it was a target."""
        self._left_out.pop(pod.key, None)
        gone = self._targets.pop(pod.key, ())
        self._number -= len(gone)
        return bool(gone)

    def is_left_out(self, key: Key) -> bool:
        """Return whether a pod is left out."""
        return key in self._left_out

    def read(self, pod: Pod) -> tuple[Target, ...]:
        """Return the targets of a pod; log once why it cannot be one."""
        try:
            targets = self._reader.targets(pod)
        except UnusablePodError as error:
            self._leave_out(pod, str(error))
            return ()
        self._left_out.pop(pod.key, None)
        return targets

    def _leave_out(self, pod: Pod, reason: str) -> None:
        """Log once why a pod is no target."""
        if self._left_out.get(pod.key) == reason or not self._warnings.take():
            return
        self._left_out[pod.key] = reason
        _log.warning("pod_left_out", discovery=self._discovery, pod="/".join(pod.key), reason=reason)


class _List:
    """Pods that are being listed, as targets."""

    def __init__(self, pods: _Pods) -> None:
        self._pods = pods
        self._seen = 0
        self.targets: dict[Key, tuple[Target, ...]] = {}
        self.number = 0
        self.left_out: list[Key] = []

    def put(self, described: object) -> None:
        """Take the next pod, as the API describes it.

        Raises:
            ApiError: There are too many.
            pydantic.ValidationError: It is not a pod.
        """
        self._seen += 1
        if self._seen > MAX_PODS:
            raise ApiError(f"there are more than {MAX_PODS} pods; {_FEWER}")
        pod = Pod.model_validate(described)
        found = self._pods.read(pod)
        self.number += len(found)
        _check_number(self.number)
        if found:
            self.targets[pod.key] = found
        elif self._pods.is_left_out(pod.key):
            self.left_out.append(pod.key)


def _check_number(targets: int) -> None:
    if targets > MAX_TARGETS:
        raise ApiError(f"there are more than {MAX_TARGETS} targets; {_FEWER}")


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
