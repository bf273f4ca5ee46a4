"""Kubernetes discovery: selection of the pods, and access to the API."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Final

from pydantic import AfterValidator, Field, WithJsonSchema

from spec_decode_exporter.config.http_settings import HttpSettings
from spec_decode_exporter.config.labels import LabelName
from spec_decode_exporter.config.values import Endpoint, NotEmpty, excludes, matches, written_as
from spec_decode_exporter.core.urls import MAX_PORT

POD_LABELS: Final = frozenset({"namespace", "pod"})
"""Labels of every pod's target, the same as in Prometheus' own series of the pod."""

_PORT: Final = re.compile(r"[0-9]{1,5}|(?=[a-z0-9-]*[a-z])[a-z0-9]([a-z0-9-]{0,13}[a-z0-9])?")

NAMESPACE: Final = r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"

Namespace = Annotated[
    str, matches(NAMESPACE, "is not the name of a namespace, such as inference"), written_as(NAMESPACE)
]

_KEY: Final = r"([a-z0-9.-]+/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?"
_VALUE: Final = r"([A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?"
_VALUES: Final = rf"\( *{_VALUE}( *, *{_VALUE})* *\)"
_WANTED: Final = rf" *(! *{_KEY}|{_KEY}( *(=|==|!=) *{_VALUE}| +(in|notin) *{_VALUES}| *[<>] *-?[0-9]+)?) *"
_SELECTOR: Final = rf"({_WANTED}(,{_WANTED})*)?"

LabelSelector = Annotated[
    str,
    matches(_SELECTOR, "is not a selector of labels, such as app=vllm,tier in (chat, code)"),
    written_as(_SELECTOR),
]
"""The syntax of Kubernetes' ``labels.Parse``."""

PodKey = Annotated[
    str,
    matches(
        r"([a-z0-9.-]{1,253}/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?",
        "is not the key of a pod's label or annotation, such as app.kubernetes.io/name",
    ),
]


def port_problem(port: str) -> str | None:
    """Return the mistake in a pod's port, a number or a name; None if it is valid."""
    if not _PORT.fullmatch(port) or (port.isdecimal() and not 0 < int(port) <= MAX_PORT):
        return "is neither the number of a port, such as 8000, nor the name of one, such as http"
    return None


def _port(port: str) -> str:
    problem = port_problem(port)
    if problem is not None:
        raise ValueError(problem)
    return port


Port = Annotated[str, AfterValidator(_port), WithJsonSchema({"type": ["string", "integer"], "title": "port"})]
"""The number of a port, or its name in the container."""


def _not_a_pod_label(name: str) -> str:
    if name in POD_LABELS:
        raise ValueError("is a label that every pod's target has; choose another name")
    return name


PodLabelName = Annotated[LabelName, AfterValidator(_not_a_pod_label)]


class KubernetesDiscovery(HttpSettings):
    """Pods of a Kubernetes cluster, listed and watched by its API. The HTTP keys are for the API.

    Without `api_server` the exporter uses the API of its own cluster, with the service account of its pod.
    See [Kubernetes discovery](../guide/kubernetes-discovery.md).
    """

    namespaces: tuple[Namespace, ...] = Field(
        default=(), description="The namespaces of the pods. By default, the exporter's own."
    )
    all_namespaces: Annotated[bool, excludes("namespaces")] = Field(
        default=False, description="Watch all namespaces. The service account then needs a ClusterRole."
    )
    label_selector: LabelSelector | None = Field(
        default=None,
        description="Label selector of the pods, as for `kubectl get pods --selector`. By default, all pods "
        "with a port of `ports`.",
    )
    ports: Annotated[tuple[Port, ...], NotEmpty] = Field(
        default=("8000",),
        description="The ports of the metrics pages, by number or by their name in the container. Each is a "
        "target. The pod's annotations `prometheus.io/port`, `/path` and `/scheme` override them.",
    )
    only_ready: bool = Field(
        default=False,
        description="Omit pods that are not ready. An overloaded server may be one of them.",
    )
    labels: Mapping[PodLabelName, PodKey] = Field(
        default_factory=dict,
        description="Further labels of the targets, besides `namespace` and `pod`: each with the label of "
        "the pod that holds its value.",
    )
    api_server: Endpoint | None = Field(
        default=None,
        description="The address of the API, for an exporter outside the cluster. `authorization` and "
        "`tls_config` are then required.",
    )

    @property
    def watched(self) -> tuple[str | None, ...]:
        """The namespaces to watch; empty text is all of them, None the exporter's own."""
        return ("",) if self.all_namespaces else self.namespaces or (None,)
