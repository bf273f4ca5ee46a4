"""Who is watched: servers named one by one, and ways to find those that come and go."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import (
    AfterValidator,
    Field,
    ValidationInfo,
    field_serializer,
    field_validator,
    model_validator,
)

from spec_decode_exporter.config.cost_settings import CostSettings, SpeculativeSettings
from spec_decode_exporter.config.errors import MistakesError
from spec_decode_exporter.config.http_settings import HttpSettings, Section
from spec_decode_exporter.config.kubernetes_settings import KubernetesDiscovery
from spec_decode_exporter.config.labels import (
    MOST_LABEL_VALUE,
    MOST_LABELS,
    AtMostLabels,
    LabelName,
    LabelValue,
    printable,
)
from spec_decode_exporter.config.policy import Policy
from spec_decode_exporter.config.reference_settings import ReferenceSettings
from spec_decode_exporter.config.shard_settings import ShardSettings
from spec_decode_exporter.config.url import PATH, address, identity
from spec_decode_exporter.config.values import (
    Context,
    Duration,
    Endpoint,
    LocatedPath,
    NotEmpty,
    Url,
    matches,
)

_LIST_FILES: Final = frozenset({".json", ".yml", ".yaml"})
_WILD: Final = frozenset("*?[")


class TargetSettings(HttpSettings):
    """A vLLM server to watch, and how to ask it."""

    url: Url = Field(
        description="The address of its metrics page, http or https. Without a path it gets `/metrics`. "
        "A user and password belong under `basic_auth`."
    )
    name: Annotated[str, Field(min_length=1, max_length=200), AfterValidator(printable)] | None = Field(
        default=None, description="The value of its `target` label; without one, `host:port` of the address."
    )
    labels: Annotated[Mapping[LabelName, LabelValue], AtMostLabels] = Field(
        default_factory=dict,
        description=f"Labels for all its metrics, {MOST_LABELS} at most, with values of up to "
        f"{MOST_LABEL_VALUE:,} printable characters. Not `instance`, `job`, `le`, `quantile`, nor a label of "
        "the exporter's own metrics.",
    )
    speculative: SpeculativeSettings | None = Field(
        default=None, description="How it speculates, where its metrics do not say."
    )
    cost: CostSettings | None = Field(
        default=None,
        description="What drafting costs there, as under [`cost`](#cost). It takes the place of the general "
        "one as a whole.",
    )
    reference: ReferenceSettings | None = Field(
        default=None,
        description="The acceptance that it is held against, as under [`reference`](#reference). It takes "
        "the place of the general one as a whole.",
    )
    policy: Policy | None = Field(
        default=None,
        description="Thresholds for it alone, as under [`policy`](#policy). Those that are not set here are "
        "the general ones.",
    )

    @property
    def called(self) -> str:
        """The value of its ``target`` label."""
        return self.name if self.name is not None else address(self.url)

    @field_serializer("policy", when_used="json")
    def _own_policy(self, policy: Policy | None) -> dict[str, Any] | None:
        """Show what is set here: the defaults of the other keys are not what counts for them."""
        return None if policy is None else policy.model_dump(mode="json", exclude_unset=True)

    @model_validator(mode="after")
    def _only_once(self, info: ValidationInfo) -> Self:
        """Refuse a server or a name that another target has already. Only a whole configuration can tell."""
        context = info.context
        if not isinstance(context, Context):
            return self
        if not context.take("url", identity(self.url)):
            raise MistakesError([(("url",), "is the address of another target too; remove one of the two")])
        if not context.take("name", self.called):
            key = "name" if self.name is not None else "url"
            raise MistakesError(
                [((key,), f"makes it a second target called {self.called}; give each its own `name`")]
            )
        return self


class Scrape(HttpSettings):
    """How to ask the servers that discovery finds, as in Prometheus' `scrape_config`."""

    scheme: Literal["http", "https"] = Field(
        default="http",
        description="The scheme of their addresses, unless the label `__scheme__` names another.",
    )
    metrics_path: Annotated[str, matches(PATH, "is not a path; it begins with one `/`")] = Field(
        default="/metrics",
        description="The path of their pages, unless the label `__metrics_path__` names another.",
    )


def _list_file(path: Path) -> Path:
    """Allow what Prometheus allows: wild cards in the last part only, and files that say what they hold."""
    if _WILD & set(str(path.parent)):
        raise ValueError("has a wild card before its last `/`; write one pattern for each directory")
    if path.suffix.lower() not in _LIST_FILES:
        raise ValueError("does not end in .json, .yml or .yaml")
    return path


class HttpDiscovery(HttpSettings):
    """A server that lists targets, as for Prometheus' `http_sd_configs`. HTTP keys here are for asking it."""

    url: Endpoint = Field(description="The address of the list, http or https.")
    refresh_interval: Duration = Field(default=60.0, description="How often the list is fetched.")


DnsName = Annotated[
    str,
    matches(
        r"[A-Za-z0-9_]([A-Za-z0-9_.-]{0,251}[A-Za-z0-9_.])?", "is not a DNS name, such as vllm.example.org"
    ),
]


class DnsDiscovery(Section):
    """Names whose DNS records are the targets, as for Prometheus' `dns_sd_configs`."""

    names: Annotated[tuple[DnsName, ...], NotEmpty] = Field(description="The names to look up.")
    type: Literal["A", "AAAA", "SRV"] = Field(
        default="SRV",
        validate_default=True,
        description="The type of the records. `SRV` needs the extra `dns`: "
        "`pip install 'spec-decode-exporter[dns]'`.",
    )
    port: Annotated[int, Field(ge=1, le=65535)] | None = Field(
        default=None,
        validate_default=True,
        description="The port of the targets. Needed for `A` and `AAAA`; an `SRV` record brings its own.",
    )
    refresh_interval: Duration = Field(default=30.0, description="How often the names are looked up.")

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
            raise ValueError("is not used: an SRV record names the port; remove it, or set `type: A`")
        if kind in {"A", "AAAA"} and value is None:
            raise ValueError(f"is missing; an {kind} record names no port")
        return value


class Discovery(Section):
    """Ways to find servers that come and go."""

    files: tuple[Annotated[LocatedPath, AfterValidator(_list_file)], ...] = Field(
        default=(),
        description="Files that list targets, in the format of Prometheus' `file_sd_configs`, YAML or JSON. "
        "The last part of a path may have wild cards. They are read again when they change.",
    )
    http: tuple[HttpDiscovery, ...] = Field(default=(), description="Servers that list targets.")
    dns: tuple[DnsDiscovery, ...] = Field(default=(), description="DNS names whose records are the targets.")
    kubernetes: tuple[KubernetesDiscovery, ...] = Field(
        default=(), description="Pods of a Kubernetes cluster."
    )
    scrape: Scrape = Field(default_factory=Scrape, description="How to ask the servers that are found.")
    shard: ShardSettings = Field(
        default_factory=ShardSettings,
        description="Which part of all targets, the configured ones too, is watched by this exporter.",
    )

    @property
    def ways(self) -> int:
        """How many files, servers, names and clusters are asked for targets; 0 if discovery is not used."""
        return len(self.files) + len(self.http) + len(self.dns) + len(self.kubernetes)
