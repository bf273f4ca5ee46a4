"""Schema of the configuration. The descriptions are the text of docs/reference/configuration.md."""

from __future__ import annotations

import math
from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated, Any, Final, Literal, Self

from pydantic import (
    AfterValidator,
    Field,
    PrivateAttr,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from spec_decode_exporter.config.comparison_settings import (
    BaselineSettings,
    CostSettings,
    ExperimentSettings,
    ReferenceSettings,
)
from spec_decode_exporter.config.mistakes import Mistake, near_name
from spec_decode_exporter.config.policy import Policy, merged, misordered
from spec_decode_exporter.config.target_settings import Discovery, TargetSettings
from spec_decode_exporter.config.types import (
    MAX_TARGETS,
    Context,
    Duration,
    DurationOrOff,
    LocatedPath,
    NotEmpty,
    ReadableFile,
    Section,
    SettingsPlace,
    Size,
    format_duration,
    named_file,
    refuses,
)
from spec_decode_exporter.core.urls import Url

DEFAULT_URL: Final = "http://localhost:8000/metrics"
"""Default target: a vLLM beside the exporter, on its default port."""
MIN_SALT: Final = 16  # bytes of a salt: a shorter one could be guessed, and with it the users


Group = StrEnum(
    "Group",
    "COUNTERS ACCEPTANCE RATES SUMS LATENCY LOAD DISTRIBUTION PAY DROPS EXPERIMENTS REQUESTS INTEGRITY EXPORTER",
)
"""Metrics that are enabled and disabled together; each has its name in lower case as value."""


class Profile(StrEnum):
    """Amount of metrics: each profile contains the one before."""

    MINIMAL = "minimal"
    STANDARD = "standard"
    FULL = "full"


Sorted = AfterValidator(lambda values: tuple(sorted(set(values))))  # the values in ascending order, each once
PromptBound = Annotated[int, Field(ge=1, le=10_000_000)]
Bound = Annotated[float, Field(ge=0, le=100)]


# fmt: off
GroupName = Annotated[str, refuses(lambda name: None if name in set(Group) else near_name(name, [*Group], "group of metrics"))]


class Metrics(Section):
    """Selection of the metrics: a profile, then groups.

    [metrics.md](metrics.md#profiles) has the series of each profile.
    """

    profile: Annotated[Profile, WithJsonSchema({"type": "string", "enum": [*map(str, Profile)]})] = Field(default=Profile.STANDARD, description="`minimal`: verdict, advice, drops and the page's main figures. `standard`: all that shipped alerts, rules and dashboards read. `full`: everything.")
    enable: tuple[GroupName, ...] = Field(default=(), description="Groups to serve in addition to the profile, for all windows.")
    disable: tuple[GroupName, ...] = Field(default=(), description="Groups to omit.")

    def mistakes(self) -> Iterator[Mistake]:
        """Yield groups that are enabled and disabled."""
        if both := ", ".join(sorted(set(self.enable) & set(self.disable))):
            yield ("disable",), f"names {both}, which `enable` also names; remove one of the two"


class Poll(Section):
    """Polling of the servers."""

    interval: Duration = Field(default=1.0, description="Time between two polls of a server. At most a third of the shortest window. Extended if polling costs the server more than `max_duty_cycle`, or the exporter more than 5 % of a core.")
    histogram_interval: Duration = Field(default_factory=lambda poll: max(10.0, poll.get("interval", 0.0)), description="Time between two polls that include histogram buckets, most of the cost of a page. At least `interval`, and at most a third of the longest window.")
    timeout: Duration = Field(default=5.0, description="Maximum time of a poll, from the connection to the last byte.")
    max_duty_cycle: float = Field(default=0.01, gt=0, le=1, description="Maximum share of its time that a server spends on polls of the exporter.")
    max_body: Size = Field(default=4 * 2**20, description="Maximum size of a page after decompression. The default is enough for about 110 vLLM engines at one address.")
    filter: Literal["auto", "off"] = Field(default="auto", description="`auto` requests only the needed samples if the server supports that; `off` always requests the whole page.")

    def mistakes(self) -> Iterator[Mistake]:
        """Yield an interval of histograms that is shorter than that of polls."""
        if self.histogram_interval < self.interval:
            least = format_duration(self.interval)
            yield ("histogram_interval",), f"is shorter than `interval`, {least}; make it at least that long"


class StateSettings(Section):
    """State that survives a restart of the exporter: the acceptance baseline of each engine."""

    file: LocatedPath | None = Field(default=None, description="File of the state. Without one, baselines are learned again after a restart. Its directory must be writable.")
    interval: Duration = Field(default=60.0, description="Time between two writes of the file.")


class Log(Section):
    """The log, on standard error."""

    level: Literal["debug", "info", "warning", "error"] = Field(default="info", description="Lowest level to log.")
    format: Literal["logfmt", "json"] = Field(default="logfmt", description="Format of an event.")
    summary_interval: DurationOrOff = Field(default=None, description="Time between two summaries of each engine, such as `10s` or `1m` ([log.md](log.md#summaries)). An engine without drafts has none.")


class Limits(Section):
    """Limits of the whole process."""

    engines: Annotated[int, Field(ge=1, le=MAX_TARGETS)] | None = Field(default=None, description="Maximum number of engines of all targets together. A target counts as at least one engine, an engine with very long labels as several. Above the limit, configured targets come first, then those of the lists in their order. The default depends on the [memory](../guide/kubernetes-sidecar.md#memory) limit of the container.")


class RequestUsers(Section):
    """Users, identified by a hash. Without this section no data of users is kept."""

    salt_file: ReadableFile = Field(description="A file with the key of the hash, read at the start and at a reload. Keep it secret: it allows testing names.")
    max: Annotated[int, Field(ge=1, le=200)] = Field(default=10, description="Maximum number of users with their own series; the others are `other`.")

    _key: bytes = PrivateAttr(default=b"")

    @property
    def key(self) -> bytes:
        """The salt at the time when the configuration was read."""
        return self._key

    @model_validator(mode="after")
    def _salted(self) -> Self:
        self._key = named_file(self.salt_file).strip()
        if len(self._key) < MIN_SALT:
            raise ValueError(f"has a salt of less than {MIN_SALT} bytes; `openssl rand -hex 32` writes one")
        return self


class RequestSettings(Section):
    """Requests that are sent to `/api/v1/requests`; see [requests.md](../guide/requests.md)."""

    ingest: bool = Field(default=False, description="Accept requests. Any client that can open the exporter's pages can then send them.")
    temperatures: Annotated[tuple[Bound, ...], NotEmpty, Sorted] = Field(default=(0.0, 0.3, 0.7, 1.0), max_length=12, description="Upper bounds of the temperature buckets, the values of the label `temperature`.")
    prompt_tokens: Annotated[tuple[PromptBound, ...], NotEmpty, Sorted] = Field(default=(1_000, 4_000, 16_000, 64_000), max_length=12, description="Upper bounds of the buckets of prompt lengths, in tokens, the values of the label `prompt_tokens`. Each bucket of a model has up to 8 series, 11 in the profile `full`.")
    models: Annotated[int, Field(ge=1, le=200)] = Field(default=20, description="Maximum number of models with their own series; the others are `other`.")
    types: Annotated[int, Field(ge=1, le=200)] = Field(default=10, description="Maximum number of request types with their own series; the others are `other`.")
    groups: Annotated[int, Field(ge=1, le=2_000)] = Field(default=60, description="Maximum number of combinations of model, type and temperature. Each has up to 37 series, 74 in the profile `full`; the others are `other` of their model.")
    keep: Annotated[int, Field(ge=100, le=1_000_000)] = Field(default=20_000, description="Maximum number of requests in the windows, at most 700 bytes each; with more, a window covers the newest ones.")
    rate: Annotated[int, Field(ge=1, le=100_000)] = Field(default=2_000, description="Maximum number of accepted requests per second; more are counted and dropped.")
    users: RequestUsers | None = Field(default=None, description="Identification of users; without it no data of users is kept.")


class Config(Section):
    """The configuration. An empty file is valid: every key has a default."""

    windows: Annotated[tuple[Duration, ...], NotEmpty, Sorted] = Field(default=(30.0, 300.0), description="Lengths of the sliding windows, the values of the label `window`.")
    poll: Poll = Field(default_factory=Poll, description="Polling of the servers.")
    cost: CostSettings | None = Field(default=None, description="Cost of drafting, for targets without their own `cost`. By default the exporter measures it if possible.")
    baseline: BaselineSettings | None = Field(default=None, description="Source of the baseline, for targets without their own `baseline`.")
    reference: ReferenceSettings | None = Field(default=None, description="Acceptance rate to compare with, for targets without their own `reference`.")
    policy: Policy = Field(default_factory=Policy, description="Thresholds of verdicts, recommendations and findings.")
    discovery: Discovery = Field(default_factory=Discovery, description="Discovery of servers.")
    targets: tuple[TargetSettings, ...] = Field(default=(), validate_default=True, description="Servers. Without any, and without discovery, the target is `http://localhost:8000/metrics`.")
    experiments: tuple[ExperimentSettings, ...] = Field(default=(), description="Targets that are compared with each other.")
    requests: RequestSettings = Field(default_factory=RequestSettings, description="Data of single requests.")
    metrics: Metrics = Field(default_factory=Metrics, description="Selection of the metrics.")
    state: StateSettings = Field(default_factory=StateSettings, description="State that survives a restart of the exporter.")
    log: Log = Field(default_factory=Log, description="Log.")
    limits: Limits = Field(default_factory=Limits, description="Limits of the whole process.")

    _place: SettingsPlace = "flags"

    def model_post_init(self, context: Any) -> None:  # noqa: ANN401  as pydantic
        """Keep the place of the settings, which ``load`` knows."""
        self._place = context.place if isinstance(context, Context) else "flags"

    @property
    def place(self) -> SettingsPlace:
        """Place of the settings."""
        return self._place

    @field_validator("targets")
    @classmethod
    def _at_least_the_default(cls, targets: tuple[TargetSettings, ...], info: ValidationInfo) -> tuple[TargetSettings, ...]:
        """Add the vLLM beside the exporter if the configuration names no other server."""
        discovery = info.data.get("discovery")
        nothing = not targets and discovery is not None and not discovery.ways
        return (TargetSettings(url=DEFAULT_URL),) if nothing else targets

    def mistakes(self) -> Iterator[Mistake]:
        """Yield contradictions between sections: of windows and intervals, thresholds, targets, experiments."""
        pairs = (("interval", "shortest", self.windows[0]), ("histogram_interval", "longest", self.windows[-1]))
        for key, which, window in pairs:
            if getattr(self.poll, key) > window / 3:
                limit = format_duration(math.floor(window * 1000 / 3) / 1000)
                whole = f"{which} window, {format_duration(window)}"
                yield ("poll", key), f"is more than a third of the {whole}; make it at most {limit}"
                break  # the other one is at least as long
        yield from misordered(("policy",), self.policy, self.policy)
        yield from self._mistakes_of_targets()
        yield from self._mistakes_of_experiments()

    def _mistakes_of_targets(self) -> Iterator[Mistake]:
        """Yield targets with the address or the name of another, and thresholds that contradict each other."""
        urls, names = set[Url](), set[str]()
        for index, target in enumerate(self.targets):
            if (url := Url.of(target.url)) in urls:
                yield ("targets", index, "url"), "is also the address of another target; remove one of the two"
            elif target.called in names:
                second = f"makes it a second target with the name {target.called}"
                missing = "is missing: its address " if target.name is None else ""
                yield ("targets", index, "name"), f"{missing}{second}; give each its own `name`"
            urls.add(url)
            names.add(target.called)
            if target.policy is not None:
                place, whole = ("targets", index, "policy"), merged(target.policy, self.policy)
                yield from misordered(place, target.policy, whole)

    def _mistakes_of_experiments(self) -> Iterator[Mistake]:
        """Yield experiments with the name of an earlier one, or with arms that another exporter monitors."""
        count = self.discovery.shard.count
        if self.experiments and count > 1:
            yield ("experiments",), (
                f"cannot be compared by one of {count} exporters that share the targets, because each monitors "
                "only its own; set `discovery.shard.count` to 1, or use the recording rules of "
                "config/prometheus/rules/arms.yml"
            )
            return
        names = [experiment.name for experiment in self.experiments]
        for index, name in enumerate(names):
            if name in names[:index]:
                yield ("experiments", index, "name"), "is also the name of another experiment; give each its own"
# fmt: on
