"""Convert pods to targets: ports, page URLs and labels."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from itertools import chain
from typing import TYPE_CHECKING, Final

from spec_decode_exporter.config.target_settings import port_problem
from spec_decode_exporter.discovery.label_limits import LabelFilter
from spec_decode_exporter.discovery.page_url import ip_and_port, page_url, request_target
from spec_decode_exporter.discovery.target import Target

if TYPE_CHECKING:
    from collections.abc import Collection

    from spec_decode_exporter.config.target_settings import KubernetesDiscovery, Scrape
    from spec_decode_exporter.core.json_reader import Shape
    from spec_decode_exporter.discovery.kubernetes.pod import Pod
    from spec_decode_exporter.discovery.label_limits import Labels

KIND: Final = "kubernetes"

MAX_PORTS: Final = 16
"""Maximum ports of a pod, by its annotation or by the names of its containers' ports."""
_TOO_MANY_PORTS: Final = f"it names more than {MAX_PORTS} ports; name fewer"


_SHAPE: Final[Mapping[str, Shape]] = {
    "spec": {
        "containers": (
            {
                "command": (None,),
                "args": (None,),
                "env": ({"name": None, "value": None},),
                "ports": ({"name": None, "containerPort": None},),
            },
        )
    },
    "status": {"phase": None, "podIP": None, "conditions": ({"type": None, "status": None},)},
}
_ANNOTATION_PREFIX: Final = "prometheus.io"
_READ_ANNOTATIONS: Final = ("port", "scheme", "path")


class UnusablePodError(Exception):
    """Pod that cannot be a target; the text is the reason."""


class PodReader:
    """Convert pods to targets."""

    def __init__(
        self, settings: KubernetesDiscovery, scrape: Scrape, discovery: str = KIND, key: str = ""
    ) -> None:
        """Use ports and labels of ``settings``, and the path, scheme and credentials of ``scrape``.

        Log dropped labels as ``discovery``; ``key`` identifies the namespace.
        """
        self._key = key or discovery
        self._settings = settings
        self._scrape = scrape
        self._http = scrape.http
        self._max_ports = max(MAX_PORTS, len(settings.ports))
        self._filter = LabelFilter(discovery)

    @property
    def shape(self) -> Mapping[str, Shape]:
        """Parts of a pod that are read."""
        settings = self._settings
        return {
            **_SHAPE,
            "metadata": {
                "name": None,
                "namespace": None,
                "resourceVersion": None,
                "labels": dict.fromkeys(settings.labels.values()),
                "annotations": dict.fromkeys(f"{_ANNOTATION_PREFIX}/{name}" for name in _READ_ANNOTATIONS),
            },
        }

    def targets(self, pod: Pod) -> tuple[Target, ...]:
        """Return a target for each of the pod's ports; none if the pod is not running.

        Raises:
            UnusablePodError: The address or the annotations are unusable.
        """
        if not pod.is_running or (self._settings.only_ready and not pod.is_ready):
            return ()
        ports = self._ports(pod)
        urls = [self._url(pod, port) for port in ports]
        labels, speculation = self._labels(pod), pod.speculation()
        return tuple(
            Target(
                url=url,
                name="/".join(pod.key) + (f":{port}" if len(ports) > 1 else ""),
                labels=labels,
                http=self._http,
                discovery=KIND,
                found_by=self._key,
                pod_arguments=speculation,
            )
            for port, url in zip(ports, urls, strict=True)
        )

    def _ports(self, pod: Pod) -> list[int]:
        """Return the distinct port numbers, in the order of the configuration or annotation."""
        # Split only up to the limit: an annotation may have 256 KiB.
        annotated = self._annotation(pod, "port").split(",", MAX_PORTS)
        if len(annotated) > MAX_PORTS:
            raise UnusablePodError(_TOO_MANY_PORTS)
        wanted = dict.fromkeys(port.strip() for port in annotated if port.strip()) or self._settings.ports
        named = _named_ports(pod)
        numbers = dict.fromkeys(chain.from_iterable(_numbers(port, named) for port in wanted))
        if len(numbers) > self._max_ports:
            raise UnusablePodError(_TOO_MANY_PORTS)
        return list(numbers)

    def _url(self, pod: Pod, port: int) -> str:
        """Return the URL of the page at ``port``; annotations cannot change the host."""
        scheme = self._annotation(pod, "scheme") or self._scrape.scheme
        path = self._annotation(pod, "path") or self._scrape.metrics_path
        try:
            return page_url(scheme, ip_and_port(pod.status.pod_ip, port), request_target(path))
        except ValueError as error:
            raise UnusablePodError(
                f"its address with the scheme and path of its annotations {error}"
            ) from None

    def _annotation(self, pod: Pod, name: str) -> str:
        return pod.metadata.annotations.get(f"{_ANNOTATION_PREFIX}/{name}", "").strip()

    def _labels(self, pod: Pod) -> Labels:
        labels = {
            **_picked(self._settings.labels, pod.metadata.labels),
            "namespace": pod.metadata.namespace,
            "pod": pod.metadata.name,
        }
        return self._filter.kept(labels)


def _named_ports(pod: Pod) -> Mapping[str, Collection[int]]:
    """Return the containers' port numbers by name, in one pass: a pod may have thousands."""
    named: defaultdict[str, dict[int, None]] = defaultdict(dict)
    for container in pod.spec.containers:
        for port in container.ports:
            named[port.name][port.container_port] = None
    return named


def _numbers(port: str, named: Mapping[str, Collection[int]]) -> Collection[int]:
    """Return the number of a port; for a name, the numbers of the containers' ports of that name."""
    problem = port_problem(port)
    if problem is not None:
        raise UnusablePodError(f"the port of its annotation {problem}")
    return (int(port),) if port.isdecimal() else named.get(port, ())


def _picked(wanted: Mapping[str, str], present: Mapping[str, str]) -> dict[str, str]:
    return {label: present[key] for label, key in wanted.items() if key in present}
