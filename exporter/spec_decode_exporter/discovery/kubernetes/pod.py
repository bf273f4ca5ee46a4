"""Pods as the Kubernetes API describes them."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from typing import TYPE_CHECKING, Final

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from spec_decode_exporter.discovery.vllm_command_line import pod_speculation

if TYPE_CHECKING:
    from spec_decode_exporter.scrape.poll.server_info import ServedSpeculation

MAX_ARGUMENTS: Final = 32 * 1024
"""Maximum characters of a pod's commands, arguments and variables that are searched for vLLM's flags."""


class _PodPart(BaseModel):
    """Part of a pod. Unknown fields are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore", alias_generator=to_camel, defer_build=True)


class _Port(_PodPart):
    name: str = ""
    container_port: int


class _Variable(_PodPart):
    # The reader drops too long values: Kubernetes has no limit, and one pod must not make the list
    # unreadable.
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
    # Kubernetes guarantees these patterns.
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
    """Pod of the core API, version v1."""

    metadata: _Metadata
    spec: _Spec = Field(default_factory=_Spec)
    status: _Status = Field(default_factory=_Status)

    @property
    def key(self) -> tuple[str, str]:
        """Namespace and name."""
        return self.metadata.namespace, self.metadata.name

    @property
    def is_running(self) -> bool:
        """True if a server may respond at the pod's address, also during deletion."""
        return self.status.phase == "Running" and bool(self.status.pod_ip)

    @property
    def is_ready(self) -> bool:
        """True if Kubernetes sends requests to the pod."""
        return any(each.type == "Ready" and each.status == "True" for each in self.status.conditions)

    def speculation(self) -> ServedSpeculation | None:
        """Return the speculation settings of the first container that has some."""
        left = MAX_ARGUMENTS
        for container in self.spec.containers:
            words = (*container.command, *container.args)
            environ = {variable.name: variable.value for variable in container.env if variable.value}
            left -= sum(map(len, chain(words, environ.values())))
            speculation = pod_speculation(words, environ) if left >= 0 else None
            if speculation is not None:
                return speculation
        return None
