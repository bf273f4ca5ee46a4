"""The configuration, key by key. Each description here is what docs/configuration.md says about the key."""

from __future__ import annotations

import difflib
import math
import re
from enum import StrEnum
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field, ValidationInfo, field_validator

from spec_decode_exporter.config.cost_settings import CostSettings, LoadCost, SpeculativeSettings
from spec_decode_exporter.config.errors import MistakesError
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
from spec_decode_exporter.config.limit_settings import Limits
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
from spec_decode_exporter.config.values import Context, Duration, DurationOrOff, LocatedFile, NotEmpty

__all__ = [
    "DEFAULT_URL",
    "RESERVED_LABELS",
    "ArmSettings",
    "Authorization",
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
"""What is watched when nothing is configured: a vLLM beside the exporter, on its default port."""


class Group(StrEnum):
    """Metrics that are switched on and off together."""

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


def _known_metric(name: str, info: ValidationInfo) -> str:
    """Refuse what is neither a group nor a metric, as far as it is known what metrics there are."""
    metrics = info.context.metrics if isinstance(info.context, Context) else ()
    possible = re.fullmatch(r"spec_decode_[a-z0-9_]+", name) and not metrics
    if name in set(Group) or name in metrics or possible:
        return name
    near = difflib.get_close_matches(name, [*Group, *metrics], n=1)
    hint = f"did you mean `{near[0]}`?" if near else f"the groups are {', '.join(Group)}"
    raise ValueError(f"is neither a group nor a metric of the exporter; {hint}")


def _ascending(windows: tuple[float, ...]) -> tuple[float, ...]:
    twice = sorted({format_duration(window) for window in windows if windows.count(window) > 1})
    if twice:
        raise ValueError(f"holds {', '.join(twice)} more than once; a window needs to be named only once")
    return tuple(sorted(windows))


MetricName = Annotated[str, AfterValidator(_known_metric)]
Windows = Annotated[tuple[Duration, ...], NotEmpty, AfterValidator(_ascending)]


class Metrics(Section):
    """Which metrics are served, by group or by name. A metric's own name outweighs its group's."""

    enable: tuple[MetricName, ...] = Field(
        default=(), description="Groups or metrics to serve besides those that are on from the start."
    )
    disable: tuple[MetricName, ...] = Field(default=(), description="Groups or metrics not to serve.")

    @field_validator("disable")
    @classmethod
    def _not_enabled_too(cls, value: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        both = sorted(set(value) & set(info.data.get("enable", ())))
        if both:
            raise ValueError(f"names {', '.join(both)}, which `enable` names too; remove one of the two")
        return value


class StateSettings(Section):
    """What the exporter remembers over its own restarts: the usual acceptance of each engine."""

    file: LocatedFile | None = Field(
        default=None,
        description="The file to remember it in. Without one, drops are looked for anew after a restart. "
        "It is replaced as a whole, so its directory must be writable too.",
    )
    interval: Duration = Field(default=60.0, description="How often the file is written.")


class Log(Section):
    """What the exporter writes to its standard error."""

    level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="The least severe event to write."
    )
    format: Literal["logfmt", "json"] = Field(default="logfmt", description="How an event is written.")
    summary_interval: DurationOrOff = Field(
        default=None,
        description="How often a line sums up each engine, such as `10s` or `1m`, with the fields of vLLM's "
        "own line and ours beside them; see [log.md](log.md). There is none while an engine drafts nothing.",
    )


class Config(Section):
    """Everything that can be configured. An empty file is a configuration: all has a default."""

    windows: Windows = Field(
        default=(30.0, 300.0),
        description="How far back the gauges look. Each is a value of the `window` label.",
    )
    poll: Poll = Field(
        default_factory=Poll, validate_default=True, description="When and how the servers are asked."
    )
    cost: CostSettings | None = Field(
        default=None,
        description="What drafting costs, on targets that have no `cost` of their own. Without it, it is "
        "measured where that can be done.",
    )
    reference: ReferenceSettings | None = Field(
        default=None,
        description="The acceptance that targets are held against that have no `reference` of their own.",
    )
    policy: Policy = Field(
        default_factory=Policy, description="From where on speculation is called good or bad."
    )
    discovery: Discovery = Field(
        default_factory=Discovery, description="Ways to find servers that come and go."
    )
    targets: tuple[TargetSettings, ...] = Field(
        default=(),
        validate_default=True,
        description=f"The servers to watch. Without any, and without discovery, `{DEFAULT_URL}` is watched.",
    )
    experiments: tuple[ExperimentSettings, ...] = Field(
        default=(), description="Targets that are held against each other."
    )
    requests: RequestSettings = Field(
        default_factory=RequestSettings, description="What is taken of single requests."
    )
    metrics: Metrics = Field(default_factory=Metrics, description="Which metrics are served.")
    state: StateSettings = Field(
        default_factory=StateSettings, description="What the exporter remembers over its own restarts."
    )
    log: Log = Field(default_factory=Log, description="What the exporter logs.")
    limits: Limits = Field(default_factory=Limits, description="Limits of the whole process.")

    @field_validator("poll")
    @classmethod
    def _often_enough(cls, poll: Poll, info: ValidationInfo) -> Poll:
        """Refuse polls too rare for the windows: a window of fewer than three says nothing."""
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
            raise MistakesError(mistakes)
        return poll

    @field_validator("policy")
    @classmethod
    def _in_order(cls, policy: Policy) -> Policy:
        mistakes = list(misordered(policy, policy))
        if mistakes:
            raise MistakesError(mistakes)
        return policy

    @field_validator("targets")
    @classmethod
    def _in_order_with_the_general(
        cls, targets: tuple[TargetSettings, ...], info: ValidationInfo
    ) -> tuple[TargetSettings, ...]:
        """Refuse thresholds of a target that contradict its others, or those that the general policy has."""
        general = info.data.get("policy")
        mistakes = [
            ((index, "policy", *key), message)
            for index, target in enumerate(targets)
            if target.policy is not None and general is not None
            for key, message in misordered(target.policy, merged(target.policy, general))
        ]
        if mistakes:
            raise MistakesError(mistakes)
        return targets

    @field_validator("experiments")
    @classmethod
    def _by_one_exporter(
        cls, experiments: tuple[ExperimentSettings, ...], info: ValidationInfo
    ) -> tuple[ExperimentSettings, ...]:
        """Refuse experiments of which another exporter may watch an arm."""
        discovery = info.data.get("discovery")
        if experiments and discovery is not None and discovery.shard.count > 1:
            raise ValueError(
                f"cannot be compared by one of {discovery.shard.count} exporters that share the targets, "
                "since each sees only its own; set `discovery.shard.count` to 1, or compare by the recording "
                "rules of config/prometheus/rules/arms.yml"
            )
        mistakes = list(unlike_names(experiments))
        if mistakes:
            raise MistakesError(mistakes)
        return experiments

    @field_validator("targets")
    @classmethod
    def _at_least_the_default(
        cls, targets: tuple[TargetSettings, ...], info: ValidationInfo
    ) -> tuple[TargetSettings, ...]:
        """Watch the vLLM beside the exporter where nothing else is to be watched."""
        discovery = info.data.get("discovery")
        nothing = not targets and discovery is not None and not discovery.ways
        return (TargetSettings(url=DEFAULT_URL),) if nothing else targets


def _too_rare(which: str, window: float) -> str:
    most = format_duration(math.floor(window * 1000 / 3) / 1000)
    return f"is more than a third of the {which} window, {format_duration(window)}; make it at most {most}"
