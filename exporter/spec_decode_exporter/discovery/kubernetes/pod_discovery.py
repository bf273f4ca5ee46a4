"""Discover targets from pods: list once, then watch for changes."""

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

from spec_decode_exporter.core.cooperative_yield import cooperatively
from spec_decode_exporter.discovery.kubernetes.api_access import Access, own_namespace
from spec_decode_exporter.discovery.kubernetes.api_objects import ApiError, ExpiredError, watch_error
from spec_decode_exporter.discovery.kubernetes.pod import Pod
from spec_decode_exporter.discovery.kubernetes.pod_reader import KIND, PodReader
from spec_decode_exporter.discovery.kubernetes.pod_targets import PodTargets
from spec_decode_exporter.discovery.kubernetes.pods_api import PodsApi, session
from spec_decode_exporter.discovery.target_discovery import DiscoveryError
from spec_decode_exporter.scrape.errors import PollError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from aiohttp import ClientSession

    from spec_decode_exporter.config.target_settings import KubernetesDiscovery, Scrape
    from spec_decode_exporter.core.cooperative_yield import Pausing
    from spec_decode_exporter.discovery.target import Target

_WATCH_SECONDS: Final = (120, 180)
"""Range of a watch's duration, random each time, so that many exporters do not restart it together."""

_MIN_REFRESH: Final = 1.0
"""Seconds between a change of the targets and the next watch: many changes are one change a second."""
_BETWEEN_LISTS: Final = (5.0, 60.0)
"""Minimum and maximum seconds between two lists, if versions expire repeatedly."""

_FIRST_PAUSE: Final = 1.0
_MAX_PAUSE: Final = 60.0
_MAX_DOUBLINGS: Final = 6
_TOO_SHORT: Final = 1.0
"""Seconds. A watch that ends earlier without an event counts as fruitless."""

_MAX_FRUITLESS: Final = 2
"""Consecutive fruitless watches: a broken connection, and one with an expired version."""


_PLACES: Final = {None: "own namespace", "": "all namespaces"}

_log = structlog.get_logger(__name__)


class PodDiscovery:
    """Targets in one or all namespaces. A refresh waits until they change."""

    kind: Final = KIND

    def __init__(
        self,
        namespace: str | None,
        settings: KubernetesDiscovery,
        scrape: Scrape,
        chance: Callable[[], float] = random.random,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """Watch ``namespace``, one of those in ``settings``; ``chance`` returns random numbers, 0 to 1."""
        place = _PLACES.get(namespace, f"namespace {namespace}")
        self.name = " ".join(filter(None, (self.kind, place, settings.label_selector)))
        options = settings.api_server, settings.ports, settings.only_ready
        self.key = f"{self.name} {options}"
        self._namespace = namespace
        self._settings = settings
        self._chance = chance
        self._sleep = sleep
        self._listed_at = -_BETWEEN_LISTS[1]
        self._between_lists = _BETWEEN_LISTS[0]
        self._pods = PodTargets(self.name, PodReader(settings, scrape, self.name, self.key))
        self._version = ""
        self._failures = 0
        self._failed = False
        self._fruitless = 0

    @property
    def refresh(self) -> float:
        """Seconds to the next refresh, which itself waits for a change; exponential after failures."""
        if not self._failed:
            return _MIN_REFRESH
        pause = _FIRST_PAUSE * 2.0 ** min(self._failures - 1, _MAX_DOUBLINGS)
        return min(pause, _MAX_PAUSE) * (0.5 + self._chance() / 2)

    async def targets(self) -> Sequence[Target]:
        """List the pods at first; later, watch them until a target changes.

        Raises:
            DiscoveryError: A request to the API failed; the previous targets stay.
        """
        try:
            async with session() as opened:
                await self._refresh(self._api(opened))
        except (ApiError, PollError) as error:
            raise self._failure(str(error)) from None
        except TimeoutError:
            raise self._failure("the API server does not answer in time") from None
        except (ClientError, OSError) as error:
            raise self._failure(f"the API server cannot be reached: {_plain_text(error)}") from None
        except ValidationError:
            raise self._failure("the API server answers something else than pods") from None
        except Exception:
            # Counted as a failure: the caller refreshes again, and must not do so without a pause.
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

    async def _refresh(self, api: PodsApi) -> None:
        """Wait for a change of the targets; list the pods if there is no version to watch from."""
        while self._version:
            try:
                if await self._watch(api):
                    return
            except (ExpiredError, ValidationError):
                self._version = ""
                if self._is_fruitless():
                    raise
        await self._wait_to_list()
        pods = self._pods.begin()
        self._version = await api.listed(self._pods.shape, pods.put)
        self._listed_at = _now()
        self._pods.replace(pods)

    async def _wait_to_list(self) -> None:
        """Wait if the last list was recent: each is expensive for the API server and the exporter."""
        minimum, maximum = _BETWEEN_LISTS
        wait = self._listed_at + self._between_lists - _now()
        self._between_lists = min(self._between_lists * 2, maximum) if wait > 0 else minimum
        if wait > 0:
            await self._sleep(wait)

    async def _watch(self, api: PodsApi) -> bool:
        """Watch once; return whether a target changed, or the API recovered."""
        lowest, highest = _WATCH_SECONDS
        seconds = lowest + int((highest - lowest) * self._chance())
        started = _now()
        async with api.watched(self._version, seconds, self._pods.shape) as events:
            if self._failed:
                return True
            # A broken connection is like a closed one: the next watch continues at the same version.
            with suppress(ClientError, OSError):
                async for batch in events:
                    changed = await cooperatively(self._apply(batch))
                    self._reset_failures()
                    if changed:
                        return True
        if _now() - started >= _TOO_SHORT:
            self._reset_failures()
        elif self._is_fruitless():
            raise ApiError("the API server ends a watch as soon as it begins")
        return False

    def _reset_failures(self) -> None:
        self._failures = self._fruitless = 0

    def _is_fruitless(self) -> bool:
        """Count a fruitless watch; return whether the maximum is exceeded."""
        self._fruitless += 1
        return self._fruitless > _MAX_FRUITLESS

    def _apply(self, events: Iterable[Mapping[str, Any]]) -> Pausing[bool]:
        """Apply watch events; return whether a target changed."""
        changed = False
        for event in events:
            yield
            kind, described = event.get("type"), event.get("object")
            if kind == "ERROR":
                raise watch_error(described)
            if kind == "BOOKMARK":
                self._version = _version(described) or self._version
                continue
            pod = Pod.model_validate(described)
            changed |= self._pods.remove(pod) if kind == "DELETED" else self._pods.put(pod)
            self._version = pod.metadata.resource_version or self._version
        return changed


def _version(described: object) -> str:
    match described:
        case {"metadata": {"resourceVersion": str(version)}}:
            return version
    return ""


def _plain_text(error: ClientError | OSError) -> str:
    """Return a text that is equal for equal errors: only a new reason is logged."""
    cause = getattr(error, "certificate_error", None) or getattr(error, "os_error", error)
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"its certificate is not to be trusted: {cause.verify_message}"
    number = cause.errno if isinstance(cause, OSError) and not isinstance(cause, ssl.SSLError) else None
    if number is not None and number in errno.errorcode:
        return os.strerror(number)
    return str(cause) or type(error).__name__


def _now() -> float:
    return asyncio.get_running_loop().time()
