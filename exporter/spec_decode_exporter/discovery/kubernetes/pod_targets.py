"""Targets of pods, updated by lists and watch events."""

from __future__ import annotations

from collections.abc import Mapping
from time import monotonic
from typing import TYPE_CHECKING, Final, TypeAlias

import structlog

from spec_decode_exporter.core.recurring import TokenBucket
from spec_decode_exporter.discovery.group_reader import MAX_TARGETS
from spec_decode_exporter.discovery.kubernetes.api_objects import ApiError
from spec_decode_exporter.discovery.kubernetes.pod import Pod
from spec_decode_exporter.discovery.kubernetes.pod_reader import PodReader, UnusablePodError

if TYPE_CHECKING:
    from spec_decode_exporter.core.json_reader import Shape
    from spec_decode_exporter.discovery.target import Target

MAX_PODS: Final = 50_000
"""Maximum pods of a list. Pods without targets are not kept."""
_MAX_WARNINGS: Final = 100
"""Burst of log lines about unusable pods."""
_WARNING_INTERVAL: Final = 60.0
"""Seconds until one more log line after the burst."""
_FEWER: Final = "choose fewer by `namespaces` or `label_selector`"
Key: TypeAlias = tuple[str, str]
"""Namespace and name of a pod."""

_log = structlog.get_logger(__name__)


class PodTargets:
    """Targets by pod, and unusable pods."""

    def __init__(self, discovery: str, reader: PodReader) -> None:
        """Convert pods by ``reader``; log unusable ones as ``discovery``."""
        self._discovery = discovery
        self._reader = reader
        self._targets: dict[Key, tuple[Target, ...]] = {}
        self._number = 0
        self._unusable: dict[Key, str] = {}
        self._warnings = TokenBucket(_MAX_WARNINGS, _WARNING_INTERVAL, monotonic)

    @property
    def shape(self) -> Mapping[str, Shape]:
        """Parts of a pod that are read."""
        return self._reader.shape

    def targets(self) -> list[Target]:
        """Return the targets, sorted by pod: of two with the same name, the first keeps it."""
        # Joined keys: ten thousand are sorted in a third of the time.
        return [target for key in sorted(self._targets, key="\0".join) for target in self._targets[key]]

    def begin(self) -> PodList:
        """Return an empty list for ``replace``."""
        return PodList(self)

    def replace(self, pods: PodList) -> None:
        """Replace all pods by those of a complete list."""
        self._targets, self._number = pods.targets, pods.number
        self._unusable = {key: self._unusable[key] for key in pods.unusable}

    def put(self, pod: Pod) -> bool:
        """Add or update a pod; return whether a target changed.

        Raises:
            ApiError: There are too many targets.
        """
        before, targets = self._targets.get(pod.key, ()), self.read(pod)
        self._number += len(targets) - len(before)
        _check_number(self._number)
        if targets:
            self._targets[pod.key] = targets
        else:
            self._targets.pop(pod.key, None)
        return targets != before

    def remove(self, pod: Pod) -> bool:
        """Remove a deleted pod; return whether it was a target."""
        self._unusable.pop(pod.key, None)
        removed = self._targets.pop(pod.key, ())
        self._number -= len(removed)
        return bool(removed)

    def is_unusable(self, key: Key) -> bool:
        """Return whether a pod is logged as unusable."""
        return key in self._unusable

    def read(self, pod: Pod) -> tuple[Target, ...]:
        """Return the targets of a pod; log once why it is unusable."""
        try:
            targets = self._reader.targets(pod)
        except UnusablePodError as error:
            self._log_unusable(pod, str(error))
            return ()
        self._unusable.pop(pod.key, None)
        return targets

    def _log_unusable(self, pod: Pod, reason: str) -> None:
        """Log the reason once for each pod."""
        if self._unusable.get(pod.key) == reason or not self._warnings.take():
            return
        self._unusable[pod.key] = reason
        _log.warning("pod_left_out", discovery=self._discovery, pod="/".join(pod.key), reason=reason)


class PodList:
    """Targets of the pods in a list that is being received."""

    def __init__(self, pods: PodTargets) -> None:
        """Convert pods by ``pods``."""
        self._pods = pods
        self._received = 0
        self.targets: dict[Key, tuple[Target, ...]] = {}
        self.number = 0
        self.unusable: list[Key] = []

    def put(self, described: object) -> None:
        """Add the next pod of the API's response.

        Raises:
            ApiError: There are too many pods or targets.
            pydantic.ValidationError: The object is not a pod.
        """
        self._received += 1
        if self._received > MAX_PODS:
            raise ApiError(f"there are more than {MAX_PODS} pods; {_FEWER}")
        pod = Pod.model_validate(described)
        targets = self._pods.read(pod)
        self.number += len(targets)
        _check_number(self.number)
        if targets:
            self.targets[pod.key] = targets
        elif self._pods.is_unusable(pod.key):
            self.unusable.append(pod.key)


def _check_number(targets: int) -> None:
    if targets > MAX_TARGETS:
        raise ApiError(f"there are more than {MAX_TARGETS} targets; {_FEWER}")
