"""Pods as Kubernetes describes them, and the targets that they are."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from itertools import chain
from typing import TYPE_CHECKING, Final

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from spec_decode_exporter.config.kubernetes_settings import port_problem
from spec_decode_exporter.discovery.label_limits import LabelFilter
from spec_decode_exporter.discovery.page_url import ip_and_port, page_url, request_target
from spec_decode_exporter.discovery.target import Target
from spec_decode_exporter.discovery.vllm_command_line import pod_speculation

if TYPE_CHECKING:
    from collections.abc import Collection

    from spec_decode_exporter.config.kubernetes_settings import KubernetesDiscovery
    from spec_decode_exporter.config.target_settings import Scrape
    from spec_decode_exporter.core.json_reader import Shape
    from spec_decode_exporter.discovery.label_limits import Labels
    from spec_decode_exporter.scrape.poll.server_info import ServedSpeculation

KIND: Final = "kubernetes"

MAX_PORTS: Final = 16
"""Ports that one pod may name, in its annotation or by the names of its containers' ports."""
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
MAX_ARGUMENTS: Final = 32 * 1024
"""Characters of the commands, arguments and variables of a pod that are searched for vLLM's flags."""
_READ_ANNOTATIONS: Final = ("port", "scheme", "path")


class UnusablePodError(Exception):
    """A pod that should be a target cannot be one; the text says why."""


class _PodPart(BaseModel):
    """A part of the API's answer. What is not of interest is passed over."""

    model_config = ConfigDict(frozen=True, extra="ignore", alias_generator=to_camel)


class _Port(_PodPart):
    name: str = ""
    container_port: int


class _Variable(_PodPart):
    # Absent if it is too long: Kubernetes has no bound for it, and one pod must not make the list unreadable.
    name: str = ""
    value: str | None = None


class _Container(_PodPart):
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    env: tuple[_Variable, ...] = ()
    ports: tuple[_Port, ...] = ()


class _Spec(_PodPart):
    containers: tuple[_Container, ...] = ()


class _Metadata(_PodPart):
    # Kubernetes guarantees these names: another one does not come from its API.
    name: str = Field(pattern=r"^[a-z0-9.-]{1,253}$")
    namespace: str = Field(pattern=r"^[a-z0-9-]{1,63}$")
    resource_version: str = ""
    labels: Mapping[str, str] = Field(default_factory=dict)
    annotations: Mapping[str, str] = Field(default_factory=dict)


class _Condition(_PodPart):
    type: str = ""
    status: str = ""


class _Status(_PodPart):
    phase: str = ""
    pod_ip: str = Field(default="", alias="podIP")
    conditions: tuple[_Condition, ...] = ()


class Pod(_PodPart):
    """A pod of the core API, version v1."""

    metadata: _Metadata
    spec: _Spec = Field(default_factory=_Spec)
    status: _Status = Field(default_factory=_Status)

    @property
    def key(self) -> tuple[str, str]:
        """Its namespace and its name."""
        return self.metadata.namespace, self.metadata.name

    @property
    def is_running(self) -> bool:
        """Whether it has an address that a server may answer at. One that is being deleted still has."""
        return self.status.phase == "Running" and bool(self.status.pod_ip)

    @property
    def is_ready(self) -> bool:
        """Whether Kubernetes would send requests to it."""
        return any(found.type == "Ready" and found.status == "True" for found in self.status.conditions)

    def speculation(self) -> ServedSpeculation | None:
        """Return how the first of its containers that says so speculates."""
        left = MAX_ARGUMENTS
        for container in self.spec.containers:
            words = (*container.command, *container.args)
            environ = {variable.name: variable.value for variable in container.env if variable.value}
            left -= sum(map(len, chain(words, environ.values())))
            found = pod_speculation(words, environ) if left >= 0 else None
            if found is not None:
                return found
        return None


class PodReader:
    """Makes targets of pods."""

    def __init__(
        self, settings: KubernetesDiscovery, scrape: Scrape, discovery: str = KIND, key: str = ""
    ) -> None:
        """Take ports and labels as ``settings`` say; ask the targets as ``scrape`` says.

        Log dropped labels as ``discovery``; ``key`` distinguishes the namespace from all others.
        """
        self._key = key or discovery
        self._settings = settings
        self._scrape = scrape
        self._http = scrape.http
        self._most_ports = max(MAX_PORTS, len(settings.ports))
        self._filter = LabelFilter(discovery)

    @property
    def shape(self) -> Mapping[str, Shape]:
        """The parts of a pod that are read."""
        settings = self._settings
        own = (f"{settings.annotation_prefix}/{name}" for name in _READ_ANNOTATIONS)
        annotations = chain(settings.annotations.values(), own)
        return {
            **_SHAPE,
            "metadata": {
                "name": None,
                "namespace": None,
                "resourceVersion": None,
                "labels": dict.fromkeys(settings.labels.values()),
                "annotations": dict.fromkeys(annotations),
            },
        }

    def targets(self, pod: Pod) -> tuple[Target, ...]:
        """Return a target for each of the pod's ports; none while it does not run.

        Raises:
            UnusablePodError: Its address or its annotations cannot be used.
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
        """Return the numbers of the ports, each once, in the order in which they are named."""
        # Nothing beyond the limit is split: an annotation may have 256 KiB.
        annotated = self._annotation(pod, "port").split(",", MAX_PORTS)
        if len(annotated) > MAX_PORTS:
            raise UnusablePodError(_TOO_MANY_PORTS)
        wanted = dict.fromkeys(port.strip() for port in annotated if port.strip()) or self._settings.ports
        named = _named_ports(pod)
        found = dict.fromkeys(chain.from_iterable(_numbers(port, named) for port in wanted))
        if len(found) > self._most_ports:
            raise UnusablePodError(_TOO_MANY_PORTS)
        return list(found)

    def _url(self, pod: Pod, port: int) -> str:
        """Return the URL of the page at ``port``: the pod's own address, whatever its annotations say."""
        scheme = self._annotation(pod, "scheme") or self._scrape.scheme
        path = self._annotation(pod, "path") or self._scrape.metrics_path
        try:
            return page_url(scheme, ip_and_port(pod.status.pod_ip, port), request_target(path))
        except ValueError as error:
            raise UnusablePodError(
                f"its address with the scheme and path of its annotations {error}"
            ) from None

    def _annotation(self, pod: Pod, name: str) -> str:
        prefix = self._settings.annotation_prefix
        return pod.metadata.annotations.get(f"{prefix}/{name}", "").strip() if prefix else ""

    def _labels(self, pod: Pod) -> Labels:
        found = {
            **_picked(self._settings.annotations, pod.metadata.annotations),
            **_picked(self._settings.labels, pod.metadata.labels),
            "namespace": pod.metadata.namespace,
            "pod": pod.metadata.name,
        }
        return self._filter.kept(found)


def _named_ports(pod: Pod) -> Mapping[str, Collection[int]]:
    """Return the numbers of the containers' ports by their names: one pass, a pod may have thousands."""
    found: defaultdict[str, dict[int, None]] = defaultdict(dict)
    for container in pod.spec.containers:
        for port in container.ports:
            found[port.name][port.container_port] = None
    return found


def _numbers(port: str, named: Mapping[str, Collection[int]]) -> Collection[int]:
    """Return the number of a port; for a name, those of the containers' ports that are called so."""
    problem = port_problem(port)
    if problem is not None:
        raise UnusablePodError(f"the port of its annotation {problem}")
    return (int(port),) if port.isdecimal() else named.get(port, ())


def _picked(wanted: Mapping[str, str], there: Mapping[str, str]) -> dict[str, str]:
    return {label: there[key] for label, key in wanted.items() if key in there}
