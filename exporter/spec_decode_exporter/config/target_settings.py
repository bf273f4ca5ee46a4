"""Targets: configured servers, and the methods of discovery."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import (
    AfterValidator,
    Field,
    ValidationInfo,
    field_serializer,
    field_validator,
)

from spec_decode_exporter.config.baseline_settings import BaselineSettings
from spec_decode_exporter.config.cost_settings import CostSettings, SpeculativeSettings
from spec_decode_exporter.config.http_settings import HttpSettings, Section
from spec_decode_exporter.config.kubernetes_settings import KubernetesDiscovery
from spec_decode_exporter.config.labels import (
    MAX_LABEL_VALUE,
    MAX_LABELS,
    AtMostLabels,
    LabelName,
    LabelValue,
    printable,
)
from spec_decode_exporter.config.policy import Policy
from spec_decode_exporter.config.reference_settings import ReferenceSettings
from spec_decode_exporter.config.shard_settings import ShardSettings
from spec_decode_exporter.config.values import (
    Duration,
    Endpoint,
    LocatedPath,
    NotEmpty,
    Url,
    context_of,
    matches,
)
from spec_decode_exporter.core.urls import PATH, address
from spec_decode_exporter.core.urls import Url as ParsedUrl

_LIST_FILES: Final = frozenset({".json", ".yml", ".yaml"})
_WILDCARDS: Final = frozenset("*?[")


class TargetSettings(HttpSettings):
    """A vLLM server, with the HTTP settings of its polls."""

    url: Url = Field(
        description="The URL of its metrics page, http or https. The default path is `/metrics`. A user and "
        "a password belong under `basic_auth`."
    )
    name: Annotated[str, Field(min_length=1, max_length=200), AfterValidator(printable)] | None = Field(
        default=None,
        validate_default=True,
        description="The value of its label `target`; by default `host:port` of the URL.",
    )
    labels: Annotated[Mapping[LabelName, LabelValue], AtMostLabels] = Field(
        default_factory=dict,
        description=f"Labels of all its metrics, {MAX_LABELS} at most, with values of up to "
        f"{MAX_LABEL_VALUE:,} printable characters. Not `instance`, `job`, `le`, nor a label of "
        "the exporter's own metrics.",
    )
    speculative: SpeculativeSettings | None = Field(
        default=None, description="Its speculation, if its metrics do not include it."
    )
    cost: CostSettings | None = Field(
        default=None,
        description="Its cost of drafting, as under [`cost`](#cost). It replaces the general one as a whole.",
    )
    baseline: BaselineSettings | None = Field(
        default=None,
        description="The source of its baseline, as under [`baseline`](#baseline). It replaces the general "
        "one as a whole.",
    )
    reference: ReferenceSettings | None = Field(
        default=None,
        description="The acceptance rate to compare it with, as under [`reference`](#reference). It replaces "
        "the general one as a whole.",
    )
    policy: Policy | None = Field(
        default=None,
        description="Its own thresholds, as under [`policy`](#policy). Each overrides the general one.",
    )

    @property
    def called(self) -> str:
        """The value of its label ``target``."""
        return self.name if self.name is not None else address(self.url)

    @field_serializer("policy", when_used="json")
    def _own_policy(self, policy: Policy | None) -> dict[str, Any] | None:
        """Write only the keys that are set: the defaults of the others do not apply."""
        return None if policy is None else policy.model_dump(mode="json", exclude_unset=True)

    # Validators of fields, not of the model: another mistake in the target would hide these.
    @field_validator("url")
    @classmethod
    def _only_once(cls, url: str, info: ValidationInfo) -> str:
        """Reject a URL that another target of the same configuration has."""
        context = context_of(info)
        if context is not None and not context.take("url", ParsedUrl.of(url)):
            raise ValueError("is also the address of another target; remove one of the two")
        return url

    @field_validator("name")
    @classmethod
    def _own_name(cls, name: str | None, info: ValidationInfo) -> str | None:
        """Reject a name that another target has. Without a name, its URL gives the name."""
        context, url = context_of(info), info.data.get("url")
        called = name if name is not None or url is None else address(url)
        if context is None or called is None or context.take("name", called):
            return name
        if name is None:
            raise ValueError(f"is missing: its address makes it a second target with the name {called}")
        raise ValueError(f"makes it a second target with the name {called}; give each its own `name`")


class Scrape(HttpSettings):
    """HTTP settings for discovered servers, as in Prometheus' `scrape_config`."""

    scheme: Literal["http", "https"] = Field(
        default="http",
        description="The scheme of their URLs; the label `__scheme__` overrides it.",
    )
    metrics_path: Annotated[str, matches(PATH, "is not a path; it begins with one `/`")] = Field(
        default="/metrics",
        description="The path of their pages; the label `__metrics_path__` overrides it.",
    )


def _list_file(path: Path) -> Path:
    """Accept the patterns that Prometheus accepts: wildcards in the last part, and a known suffix."""
    if _WILDCARDS & set(str(path.parent)):
        raise ValueError("has a wildcard before its last `/`; write one pattern for each directory")
    if path.suffix.lower() not in _LIST_FILES:
        raise ValueError("does not end in .json, .yml or .yaml")
    return path


class HttpDiscovery(HttpSettings):
    """A server that lists targets, as in Prometheus' `http_sd_configs`. The HTTP keys are for it."""

    url: Endpoint = Field(description="The URL of the list, http or https.")
    refresh_interval: Duration = Field(default=60.0, description="The time between two requests of the list.")


DnsName = Annotated[
    str,
    matches(
        r"[A-Za-z0-9_]([A-Za-z0-9_.-]{0,251}[A-Za-z0-9_.])?", "is not a DNS name, such as vllm.example.org"
    ),
]


class DnsDiscovery(Section):
    """DNS names whose records are the targets, as for Prometheus' `dns_sd_configs`."""

    names: Annotated[tuple[DnsName, ...], NotEmpty] = Field(description="The names to resolve.")
    type: Literal["A", "AAAA", "SRV"] = Field(
        default="SRV",
        validate_default=True,
        description="The type of the records. `SRV` needs the extra `dns`: "
        "`pip install 'spec-decode-exporter[dns]'`.",
    )
    port: Annotated[int, Field(ge=1, le=65535)] | None = Field(
        default=None,
        validate_default=True,
        description="The port of the targets. Required for `A` and `AAAA`; an `SRV` record has its own.",
    )
    refresh_interval: Duration = Field(default=30.0, description="The time between two resolutions.")

    @field_validator("type")
    @classmethod
    def _can_be_asked(cls, value: str) -> str:
        if value == "SRV" and importlib.util.find_spec("dns") is None:
            raise ValueError("SRV needs dnspython; run pip install 'spec-decode-exporter[dns]', or use A")
        return value

    @field_validator("port")
    @classmethod
    def _port_if_needed(cls, value: int | None, info: ValidationInfo) -> int | None:
        kind = info.data.get("type")
        if kind == "SRV" and value is not None:
            raise ValueError("is not used: an SRV record has the port; remove it, or set `type: A`")
        if kind in {"A", "AAAA"} and value is None:
            raise ValueError(f"is missing; an {kind} record has no port")
        return value


class Discovery(Section):
    """Discovery of servers."""

    files: tuple[Annotated[LocatedPath, AfterValidator(_list_file)], ...] = Field(
        default=(),
        description="Files that list targets, in the format of Prometheus' `file_sd_configs`, YAML or JSON. "
        "The last part of a path may have wildcards. Changes are applied without a reload.",
    )
    http: tuple[HttpDiscovery, ...] = Field(default=(), description="Servers that list targets.")
    dns: tuple[DnsDiscovery, ...] = Field(default=(), description="DNS names whose records are the targets.")
    kubernetes: tuple[KubernetesDiscovery, ...] = Field(
        default=(), description="Pods of a Kubernetes cluster."
    )
    scrape: Scrape = Field(default_factory=Scrape, description="HTTP settings for discovered servers.")
    shard: ShardSettings = Field(
        default_factory=ShardSettings,
        description="The part of all targets, configured ones included, that this exporter monitors.",
    )

    @property
    def ways(self) -> int:
        """The number of files, servers, names and clusters; 0 without discovery."""
        return len(self.files) + len(self.http) + len(self.dns) + len(self.kubernetes)
