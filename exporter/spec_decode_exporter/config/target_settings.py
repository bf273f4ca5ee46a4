"""Targets: configured servers, the methods of discovery, and the share of this exporter."""

from __future__ import annotations

import importlib.util
import re
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema, field_serializer

from spec_decode_exporter.config.comparison_settings import (
    BaselineSettings,
    CostSettings,
    ReferenceSettings,
    SpeculativeSettings,
)
from spec_decode_exporter.config.http_settings import HttpSettings
from spec_decode_exporter.config.mistakes import Mistake
from spec_decode_exporter.config.policy import Policy
from spec_decode_exporter.config.types import (
    Duration,
    Endpoint,
    LabelName,
    Labels,
    LocatedPath,
    NotEmpty,
    PageUrl,
    Printable,
    Section,
    excludes,
    matches,
    refuses,
    written_as,
)
from spec_decode_exporter.core.urls import MAX_PORT, PATH, address, model_of

POD_LABELS: Final = frozenset({"namespace", "pod"})
"""Labels of every pod's target, the same as in Prometheus' own series of the pod."""
NAMESPACE: Final = r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"  # name of a namespace in Kubernetes
_PORT: Final = re.compile(r"[0-9]{1,5}|(?=[a-z0-9-]*[a-z])[a-z0-9]([a-z0-9-]{0,13}[a-z0-9])?")
_KEY: Final = r"([a-z0-9.-]{1,253}/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?"
_VALUE: Final = r"([A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?"
_VALUES: Final = rf"\( *{_VALUE}( *, *{_VALUE})* *\)"
_WANTED: Final = rf" *(! *{_KEY}|{_KEY}( *(=|==|!=) *{_VALUE}| +(in|notin) *{_VALUES}| *[<>] *-?[0-9]+)?) *"
_SELECTOR: Final = rf"({_WANTED}(,{_WANTED})*)?"  # the syntax of Kubernetes' ``labels.Parse``


def port_problem(port: str) -> str | None:
    """Return the mistake in a pod's port, a number or a name; None if it is valid."""
    if not _PORT.fullmatch(port) or (port.isdecimal() and not 0 < int(port) <= MAX_PORT):
        return "is neither the number of a port, such as 8000, nor the name of one, such as http"
    return None


def default_name(url: str) -> str:
    """Return the name of a page's target: ``host:port``, and the model that the query names."""
    return "/".join(filter(None, (address(url), model_of(url))))


def _index(value: object) -> object:
    """Replace ``auto`` by the ordinal of this replica."""
    if value != "auto":
        return value
    host = socket.gethostname().partition(".")[0]
    match = re.fullmatch(r".*-([0-9]{1,6})", host)
    if match is None:
        problem = f"is auto, but the host name {host} does not end in `-` and a number as in a StatefulSet"
        raise ValueError(f"{problem}; set the number")
    return int(match[1])


def _list_file_problem(path: Path) -> str | None:
    """Return the mistake in a pattern that Prometheus does not accept."""
    if set("*?[") & set(str(path.parent)):
        return "has a wildcard before its last `/`; write one pattern for each directory"
    is_list = path.suffix.lower() in {".json", ".yml", ".yaml"}
    return None if is_list else "does not end in .json, .yml or .yaml"


# fmt: off
DnsName = Annotated[str, matches(r"[A-Za-z0-9_]([A-Za-z0-9_.-]{0,251}[A-Za-z0-9_.])?", "is not a DNS name, such as vllm.example.org")]
Namespace = Annotated[str, matches(NAMESPACE, "is not the name of a namespace, such as inference"), written_as(f"^{NAMESPACE}$")]
LabelSelector = Annotated[str, matches(_SELECTOR, "is not a selector of labels, such as app=vllm,tier in (chat, code)"), written_as(f"^({_SELECTOR})$")]
PodKey = Annotated[str, matches(_KEY, "is not the key of a pod's label or annotation, such as app.kubernetes.io/name")]
PodLabelName = Annotated[LabelName, refuses(lambda name: "is a label that every pod's target has; choose another name" if name in POD_LABELS else None)]
Port = Annotated[str, refuses(port_problem), WithJsonSchema({"type": ["string", "integer"], "title": "port"})]
"""The number of a port, or its name in the container."""


class TargetSettings(HttpSettings):
    """A vLLM server, with the HTTP settings of its polls."""

    url: PageUrl = Field(description="URL of its metrics page, http or https. The default path is `/metrics`. User and password belong under `basic_auth`.")
    name: Annotated[str, Field(min_length=1, max_length=200), Printable] | None = Field(default=None, description="Value of its label `target`; by default `host:port` of the URL, with `/NAME` for `?model=NAME`.")
    labels: Labels = Field(default_factory=dict, description="Labels of all its metrics, 64 at most, with values of up to 1,024 printable characters. Not `instance`, `job`, `le`, nor a label of the exporter's own metrics.")
    speculative: SpeculativeSettings | None = Field(default=None, description="Its speculation, if its metrics do not include it.")
    cost: CostSettings | None = Field(default=None, description="Its [`cost`](#cost), instead of the general one.")
    baseline: BaselineSettings | None = Field(default=None, description="Its [`baseline`](#baseline), instead of the general one.")
    reference: ReferenceSettings | None = Field(default=None, description="Its [`reference`](#reference), instead of the general one.")
    policy: Policy | None = Field(default=None, description="Its own thresholds of [`policy`](#policy). Each overrides the general one.")

    @property
    def called(self) -> str:
        """The value of its label ``target``."""
        return default_name(self.url) if self.name is None else self.name

    @field_serializer("policy", when_used="json")
    def _own_policy(self, policy: Policy | None) -> dict[str, Any] | None:
        """Write only the keys that are set: the defaults of the others do not apply."""
        return None if policy is None else policy.model_dump(mode="json", exclude_unset=True)


class Scrape(HttpSettings):
    """HTTP settings for discovered servers, as in Prometheus' `scrape_config`."""

    scheme: Literal["http", "https"] = Field(default="http", description="Scheme of their URLs; the label `__scheme__` overrides it.")
    metrics_path: Annotated[str, matches(PATH, "is not a path; it begins with one `/`")] = Field(default="/metrics", description="Path of their pages; the label `__metrics_path__` overrides it.")


class HttpDiscovery(HttpSettings):
    """A server that lists targets, as in Prometheus' `http_sd_configs`. The HTTP keys are for it."""

    url: Endpoint = Field(description="URL of the list, http or https.")
    refresh_interval: Duration = Field(default=60.0, description="Time between two requests of the list.")


class DnsDiscovery(Section):
    """DNS names whose records are the targets, as for Prometheus' `dns_sd_configs`."""

    names: Annotated[tuple[DnsName, ...], NotEmpty] = Field(description="Names to resolve.")
    type: Literal["A", "AAAA", "SRV"] = Field(default="SRV", description="Type of the records. `SRV` needs the extra `dns`: `pip install 'spec-decode-exporter[dns]'`.")
    port: Annotated[int, Field(ge=1, le=MAX_PORT)] | None = Field(default=None, description="Port of the targets. Required for `A` and `AAAA`; an `SRV` record has its own.")
    refresh_interval: Duration = Field(default=30.0, description="Time between two resolutions.")

    def mistakes(self) -> Iterator[Mistake]:
        """Yield a package or a port that is missing, and a port that the record has."""
        if self.type == "SRV" and importlib.util.find_spec("dns") is None:
            yield ("type",), "SRV needs dnspython; run pip install 'spec-decode-exporter[dns]', or use A"
        if self.type == "SRV" and self.port is not None:
            yield ("port",), "is not used: an SRV record has the port; remove it, or set `type: A`"
        if self.type != "SRV" and self.port is None:
            yield ("port",), f"is missing; an {self.type} record has no port"


class KubernetesDiscovery(HttpSettings):
    """Pods of a Kubernetes cluster, listed by its API each 30 seconds. The HTTP keys are for the API.

    Without `api_server` the exporter uses the API of its own cluster, with the service account of its pod.
    See [Kubernetes discovery](../guide/kubernetes-discovery.md).
    """

    namespaces: tuple[Namespace, ...] = Field(default=(), description="Namespaces of the pods. By default, the exporter's own.")
    all_namespaces: Annotated[bool, excludes("namespaces")] = Field(default=False, description="Find pods in all namespaces. The service account then needs a ClusterRole.")
    label_selector: LabelSelector | None = Field(default=None, description="Label selector of the pods, as for `kubectl get pods --selector`. By default, all pods with a port of `ports`.")
    ports: Annotated[tuple[Port, ...], NotEmpty] = Field(default=("8000",), description="Ports of the metrics pages, by number or container port name. Each is a target. The pod's annotations `prometheus.io/port`, `/path` and `/scheme` override them.")
    only_ready: bool = Field(default=False, description="Omit pods that are not ready. An overloaded server may be one of them.")
    labels: Mapping[PodLabelName, PodKey] = Field(default_factory=dict, description="Labels of the targets in addition to `namespace` and `pod`: each with the pod label that holds its value.")
    api_server: Endpoint | None = Field(default=None, description="Address of the API, for an exporter outside the cluster; requires `authorization` and `tls_config`.")

    @property
    def watched(self) -> tuple[str | None, ...]:
        """The namespaces whose pods are listed; empty text is all of them, None the exporter's own."""
        return ("",) if self.all_namespaces else self.namespaces or (None,)


class ShardSettings(Section):
    """The part of the targets of this exporter, if several exporters share them.

    All exporters have the same configuration except for `index`. The hash of a target's address selects its
    exporter, as `hashmod` of Prometheus does for `__address__`.
    """

    count: Annotated[int, Field(ge=1, le=1000)] = Field(default=1, description="Number of exporters that share the targets.")
    index: Annotated[int, BeforeValidator(_index), Field(ge=0), WithJsonSchema({"type": ["integer", "string"], "title": "whole number or `auto`"})] = Field(default=0, description="Index of this exporter, from 0. `auto` is the number at the end of the host name, as in a StatefulSet.")

    def mistakes(self) -> Iterator[Mistake]:
        """Yield an index beyond the number of exporters."""
        if self.index >= self.count:
            yield ("index",), f"must be less than `count`, {self.count}; the first is 0"


class Discovery(Section):
    """Discovery of servers."""

    files: tuple[Annotated[LocatedPath, refuses(_list_file_problem)], ...] = Field(default=(), description="Files that list targets, in the format of Prometheus' `file_sd_configs`. The last part of a path may have wildcards. Changes apply without a reload.")
    http: tuple[HttpDiscovery, ...] = Field(default=(), description="Servers that list targets.")
    dns: tuple[DnsDiscovery, ...] = Field(default=(), description="DNS names whose records are the targets.")
    kubernetes: tuple[KubernetesDiscovery, ...] = Field(default=(), description="Pods of a Kubernetes cluster.")
    scrape: Scrape = Field(default_factory=Scrape, description="HTTP settings for discovered servers.")
    shard: ShardSettings = Field(default_factory=ShardSettings, description="Part of all targets, configured ones included, that this exporter monitors.")

    @property
    def ways(self) -> int:
        """The number of files, servers, names and clusters; 0 without discovery."""
        return len(self.files) + len(self.http) + len(self.dns) + len(self.kubernetes)
# fmt: on
