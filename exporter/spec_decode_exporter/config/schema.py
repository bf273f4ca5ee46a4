"""Schema of the configuration. The descriptions are the text of docs/reference/configuration.md."""

from __future__ import annotations

import difflib
import math
from enum import StrEnum
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field, ValidationInfo, WithJsonSchema, field_validator

from spec_decode_exporter.config.baseline_settings import BaselineSettings, PrometheusSettings
from spec_decode_exporter.config.cost_settings import CostSettings, LoadCost, SpeculativeSettings
from spec_decode_exporter.config.errors import ProblemsError
from spec_decode_exporter.config.experiment_settings import ArmSettings, ExperimentSettings, unlike_names
from spec_decode_exporter.config.http_settings import (
    Authorization,
    BasicAuth,
    HeaderValues,
    HttpSettings,
    Section,
    TlsConfig,
)
from spec_decode_exporter.config.kubernetes_settings import KubernetesDiscovery
from spec_decode_exporter.config.labels import RESERVED_LABELS
from spec_decode_exporter.config.policy import Policy, merged, misordered
from spec_decode_exporter.config.poll_settings import Poll
from spec_decode_exporter.config.reference_settings import ReferenceSettings
from spec_decode_exporter.config.request_settings import RequestSettings
from spec_decode_exporter.config.shard_settings import ShardSettings
from spec_decode_exporter.config.target_settings import (
    Discovery,
    DnsDiscovery,
    HttpDiscovery,
    Scrape,
    TargetSettings,
)
from spec_decode_exporter.config.units import format_duration
from spec_decode_exporter.config.values import Duration, DurationOrOff, LocatedFile, NotEmpty

__all__ = [
    "DEFAULT_URL",
    "RESERVED_LABELS",
    "ArmSettings",
    "Authorization",
    "BaselineSettings",
    "BasicAuth",
    "Config",
    "CostSettings",
    "Discovery",
    "DnsDiscovery",
    "ExperimentSettings",
    "Group",
    "HeaderValues",
    "HttpDiscovery",
    "HttpSettings",
    "KubernetesDiscovery",
    "Limits",
    "LoadCost",
    "Log",
    "Metrics",
    "Policy",
    "Poll",
    "PrometheusSettings",
    "ReferenceSettings",
    "RequestSettings",
    "Scrape",
    "ShardSettings",
    "SpeculativeSettings",
    "StateSettings",
    "TargetSettings",
    "TlsConfig",
]

DEFAULT_URL: Final = "http://localhost:8000/metrics"
"""Default target: a vLLM beside the exporter, on its default port."""
MAX_FLEET_ENGINES: Final = 10_000
"""The highest limit that can be configured: one process cannot serve more in a page."""


class Group(StrEnum):
    """Metrics that are enabled and disabled together."""

    COUNTERS = "counters"
    ACCEPTANCE = "acceptance"
    RATES = "rates"
    SUMS = "sums"
    LATENCY = "latency"
    LOAD = "load"
    DISTRIBUTION = "distribution"
    PAY = "pay"
    DROPS = "drops"
    EXPERIMENTS = "experiments"
    REQUESTS = "requests"
    INTEGRITY = "integrity"
    EXPORTER = "exporter"


class Profile(StrEnum):
    """Amount of metrics: each profile contains the one before."""

    MINIMAL = "minimal"
    STANDARD = "standard"
    FULL = "full"


def _known_group(name: str) -> str:
    if name in set(Group):
        return name
    near = difflib.get_close_matches(name, [*Group], n=1)
    hint = f"did you mean `{near[0]}`?" if near else f"the groups are {', '.join(Group)}"
    raise ValueError(f"is not a group of metrics; {hint}")


def _ascending(windows: tuple[float, ...]) -> tuple[float, ...]:
    repeated = sorted({format_duration(window) for window in windows if windows.count(window) > 1})
    if repeated:
        raise ValueError(f"holds {', '.join(repeated)} more than once; remove the repetition")
    return tuple(sorted(windows))


GroupName = Annotated[str, AfterValidator(_known_group)]
Windows = Annotated[tuple[Duration, ...], NotEmpty, AfterValidator(_ascending)]


class Metrics(Section):
    """Selection of the metrics: a profile, then groups.

    [metrics.md](metrics.md#profiles) has the series of each profile.
    """

    profile: Annotated[Profile, WithJsonSchema({"type": "string", "enum": [*map(str, Profile)]})] = Field(
        default=Profile.STANDARD,
        description="`minimal`: verdict, advice, drops and what the page shows first. `standard`: all that "
        "the shipped alerts, rules and dashboards read. `full`: everything.",
    )
    enable: tuple[GroupName, ...] = Field(
        default=(), description="Groups to serve besides the profile, for all windows."
    )
    disable: tuple[GroupName, ...] = Field(default=(), description="Groups to omit.")

    @field_validator("disable")
    @classmethod
    def _not_enabled_too(cls, value: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        both = sorted(set(value) & set(info.data.get("enable", ())))
        if both:
            raise ValueError(f"names {', '.join(both)}, which `enable` also names; remove one of the two")
        return value


class StateSettings(Section):
    """State that survives a restart of the exporter: the acceptance baseline of each engine."""

    file: LocatedFile | None = Field(
        default=None,
        description="The file of the state. Without one, the exporter learns the baselines again after a "
        "restart. The file is replaced as a whole, so its directory must be writable.",
    )
    interval: Duration = Field(default=60.0, description="The time between two writes of the file.")


class Log(Section):
    """The log, on standard error."""

    level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="The lowest level to log."
    )
    format: Literal["logfmt", "json"] = Field(default="logfmt", description="The format of an event.")
    summary_interval: DurationOrOff = Field(
        default=None,
        description="The time between two summaries of each engine, such as `10s` or `1m`, with the fields "
        "of "
        "vLLM's own line and further ones; see [log.md](log.md). An engine without drafts has none.",
    )


class Limits(Section):
    """Limits of the whole process."""

    engines: Annotated[int, Field(ge=1, le=MAX_FLEET_ENGINES)] | None = Field(
        default=None,
        description="The maximum number of engines, of all targets together. A target counts as at least one "
        "engine, an engine with more than 16 draft positions or very long labels as several. Above the "
        "limit, "
        "targets of the configuration come first; the others share the rest evenly. The default depends on "
        "the memory limit of the container, see [Memory](../guide/kubernetes-sidecar.md#memory): 192 engines "
        "at 128 MiB, 2,000 at most.",
    )


class Config(Section):
    """The configuration. An empty file is valid: every key has a default."""

    windows: Windows = Field(
        default=(30.0, 300.0),
        description="The lengths of the sliding windows, the values of the label `window`.",
    )
    poll: Poll = Field(default_factory=Poll, validate_default=True, description="Polling of the servers.")
    cost: CostSettings | None = Field(
        default=None,
        description="The cost of drafting, for targets without their own `cost`. By default the exporter "
        "measures it if possible.",
    )
    baseline: BaselineSettings | None = Field(
        default=None,
        description="The source of the baseline, for targets without their own `baseline`.",
    )
    reference: ReferenceSettings | None = Field(
        default=None,
        description="The acceptance rate to compare with, for targets without their own `reference`.",
    )
    policy: Policy = Field(
        default_factory=Policy, description="Thresholds of verdicts, recommendations and findings."
    )
    discovery: Discovery = Field(default_factory=Discovery, description="Discovery of servers.")
    targets: tuple[TargetSettings, ...] = Field(
        default=(),
        validate_default=True,
        description=f"The servers. Without any, and without discovery, the target is `{DEFAULT_URL}`.",
    )
    experiments: tuple[ExperimentSettings, ...] = Field(
        default=(), description="Targets that are compared with each other."
    )
    requests: RequestSettings = Field(default_factory=RequestSettings, description="Data of single requests.")
    metrics: Metrics = Field(default_factory=Metrics, description="Selection of the metrics.")
    state: StateSettings = Field(
        default_factory=StateSettings, description="State that survives a restart of the exporter."
    )
    log: Log = Field(default_factory=Log, description="The log.")
    limits: Limits = Field(default_factory=Limits, description="Limits of the whole process.")

    @field_validator("poll")
    @classmethod
    def _often_enough(cls, poll: Poll, info: ValidationInfo) -> Poll:
        """Reject intervals that leave a window fewer than three polls."""
        windows = info.data.get("windows")
        if windows is None:
            return poll
        pairs = (("interval", "shortest", windows[0]), ("histogram_interval", "longest", windows[-1]))
        mistakes = [
            ((key,), _too_rare(which, window))
            for key, which, window in pairs
            if getattr(poll, key) > window / 3
        ]
        if mistakes:
            raise ProblemsError(mistakes)
        return poll

    @field_validator("policy")
    @classmethod
    def _in_order(cls, policy: Policy) -> Policy:
        mistakes = list(misordered(policy, policy))
        if mistakes:
            raise ProblemsError(mistakes)
        return policy

    @field_validator("targets")
    @classmethod
    def _in_order_with_the_general(
        cls, targets: tuple[TargetSettings, ...], info: ValidationInfo
    ) -> tuple[TargetSettings, ...]:
        """Reject thresholds of a target that contradict each other, or the general policy."""
        general = info.data.get("policy")
        mistakes = [
            ((index, "policy", *key), message)
            for index, target in enumerate(targets)
            if target.policy is not None and general is not None
            for key, message in misordered(target.policy, merged(target.policy, general))
        ]
        if mistakes:
            raise ProblemsError(mistakes)
        return targets

    @field_validator("experiments")
    @classmethod
    def _by_one_exporter(
        cls, experiments: tuple[ExperimentSettings, ...], info: ValidationInfo
    ) -> tuple[ExperimentSettings, ...]:
        """Reject experiments if another exporter may monitor one of the arms."""
        discovery = info.data.get("discovery")
        if experiments and discovery is not None and discovery.shard.count > 1:
            raise ValueError(
                f"cannot be compared by one of {discovery.shard.count} exporters that share the targets, "
                "because each monitors only its own; set `discovery.shard.count` to 1, or use the recording "
                "rules of config/prometheus/rules/arms.yml"
            )
        mistakes = list(unlike_names(experiments))
        if mistakes:
            raise ProblemsError(mistakes)
        return experiments

    @field_validator("targets")
    @classmethod
    def _at_least_the_default(
        cls, targets: tuple[TargetSettings, ...], info: ValidationInfo
    ) -> tuple[TargetSettings, ...]:
        """Add the vLLM beside the exporter if the configuration names no other server."""
        discovery = info.data.get("discovery")
        nothing = not targets and discovery is not None and not discovery.ways
        return (TargetSettings(url=DEFAULT_URL),) if nothing else targets


def _too_rare(which: str, window: float) -> str:
    limit = format_duration(math.floor(window * 1000 / 3) / 1000)
    return f"is more than a third of the {which} window, {format_duration(window)}; make it at most {limit}"
