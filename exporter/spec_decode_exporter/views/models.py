"""What the exporter says in JSON: ONE set of models, for the API, the page, the commands and Python.

The names are those of the metrics without ``spec_decode_``, and so are the units: ratios are between 0 and 1
where they are shares, times are in seconds, moments in Unix time. A number without a value is null, never 0.
The models are frozen, and a field that is not known to them is refused. docs/api.md says what stays as it is.
"""

from __future__ import annotations

from pydantic import Field

from spec_decode_exporter.analysis.verdict import Verdict
from spec_decode_exporter.monitor.event_log import Plain
from spec_decode_exporter.monitor.log_events import EVENT_TYPES
from spec_decode_exporter.views.engine_models import (
    BucketView,
    CostView,
    DepthView,
    DropsView,
    EngineView,
    FindingView,
    QuantilesView,
    TotalsView,
)
from spec_decode_exporter.views.experiment_models import ArmView, ArmWindowView, ExperimentView
from spec_decode_exporter.views.request_models import RequestsView
from spec_decode_exporter.views.window_models import (
    CountsView,
    Estimated,
    GroupWindowView,
    SpreadView,
    View,
    WindowView,
)

__all__ = [
    "ArmView",
    "ArmWindowView",
    "BucketView",
    "CostView",
    "CountsView",
    "DepthView",
    "DropsView",
    "EngineView",
    "Estimated",
    "EventView",
    "EventsView",
    "ExperimentView",
    "FindingView",
    "GroupView",
    "GroupWindowView",
    "HistoryEngineView",
    "HistoryView",
    "QuantilesView",
    "SnapshotView",
    "SpreadView",
    "TargetView",
    "TargetsView",
    "TotalsView",
    "View",
    "WindowView",
]


class GroupView(View):
    """The engines that have the same values of the labels that are grouped by."""

    labels: dict[str, str] = Field(description="These labels; empty is a label that an engine does not have.")
    engines: tuple[str, ...] = Field(description="The ids of its engines.")
    verdicts: dict[Verdict, int] = Field(description="How many engines have which verdict.")
    windows: tuple[GroupWindowView, ...] = Field(description="Ascending by length.")


class SnapshotView(View):
    """Every engine at one moment."""

    time: float = Field(description="When it was taken, in Unix time.")
    version: str = Field(description="The exporter's version.")
    engines: tuple[EngineView, ...] = Field(description="Those that were asked for.")
    groups: tuple[GroupView, ...] = Field(
        default=(), description="The same engines by the labels of `group_by`; empty without it."
    )
    experiments: tuple[ExperimentView, ...] = Field(
        default=(), description="What came of the experiments that are configured."
    )
    last_event: str | None = Field(
        default=None,
        description="The id of the newest event when it was begun: with it as `since`, events follow without"
        " a gap; the snapshot may show some of them already. Null of what is over.",
    )


class TargetsView(View):
    """Every target at one moment."""

    time: float = Field(description="When it was taken, in Unix time.")
    targets: tuple[TargetView, ...]


class TargetView(View):
    """One target, and how the polls of it go. What is not known yet is null or empty."""

    target: str = Field(description="Its name, the label `target`.")
    address: str = Field(description="`host:port/path`, without user, password and query.")
    labels: dict[str, str] = Field(description="All labels of its metrics, `target` included.")
    discovery: str = Field(description="How it was found: `static`, `file`, `http`, `dns` or `kubernetes`.")
    up: bool | None = Field(description="Whether the newest poll succeeded.")
    error: str = Field(description="Why the newest poll failed, in words; empty while the target is up.")
    engine_kind: str = Field(description="`vllm`, `sglang`, `lmdeploy`, `llamacpp`; empty where unknown.")
    front_end: str = Field(description="`python`, `rust`, `ray` or `v0` of vLLM.")
    page: str = Field(description="Which page is polled: `filtered` or `full`.")
    version: str = Field(description="The server's version.")
    polls: int = Field(description="Polls, failed ones included.")
    poll_failures: dict[str, int] = Field(description="Polls that failed, by reason; none are left out.")
    poll_seconds: float | None = Field(description="How long the newest answer took.")
    poll_bytes: int | None = Field(description="How large the newest answer was, unpacked.")
    poll_interval_seconds: float = Field(description="The interval at which it is polled now.")
    last_success_timestamp_seconds: float | None = Field(description="When a poll last succeeded, Unix time.")
    engines: tuple[str, ...] = Field(description="The ids of its engines.")


class EventView(View):
    """Something that happened to an engine, a target, or a model's requests; the log has the same words."""

    id: str = Field(description="`<run of the exporter>-<number>`; numbers grow by one.")
    time: float = Field(description="When it happened, in Unix time.")
    type: str = Field(
        description="The event's word, as in the log: `acceptance_dropped`, …",
        json_schema_extra={"enum": list(EVENT_TYPES)},
    )
    bad: bool = Field(description="Whether an operator should look at it.")
    target: str = Field(description="Empty of what happened to requests.")
    model_name: str | None = Field(description="Null of what happened to a target.")
    engine: str | None = Field(description="Null of what happened to a target or to requests.")
    engine_id: str | None = Field(description="The id of the engine, as in the snapshot.")
    fields: dict[str, Plain | tuple[Plain, ...]] = Field(description="What else the log says, by `type`.")


class ObservationView(SnapshotView):
    """What was seen of some servers in a while, each engine judged by all of it: the last of its windows."""

    seconds: float = Field(description="How long it took, and how long the last window of each engine is.")
    targets: tuple[TargetView, ...] = Field(description="Every server, those that were not reached too.")
    events: tuple[EventView, ...] = Field(description="What happened meanwhile, oldest first.")
    requests: RequestsView | None = Field(
        default=None, description="What an exporter says of single requests; null where none was asked."
    )


class EventsView(View):
    """Some of the events that are kept, oldest first."""

    events: tuple[EventView, ...]
    gap: bool = Field(
        description="Whether events after `since` are missing: no longer kept, or of an earlier run."
    )
    last: str = Field(description="What to ask with as `since` for those that follow.")
    more: bool = Field(description="Whether `limit` left some out that follow; ask again with `last`.")


class HistoryEngineView(View):
    """The increments of one engine, added up in steps: columns of equal length, oldest first.

    A step without a poll is left out. A column is null where the engine does not have the counter.
    """

    id: str = Field(description="As in the snapshot, as are target, model name and engine.")
    target: str
    model_name: str
    engine: str
    time: tuple[float, ...] = Field(description="When each step begins, in Unix time: multiples of it.")
    seconds: tuple[float, ...] = Field(description="How much time its increments cover.")
    polls: tuple[int, ...] = Field(description="How many increments it is the sum of.")
    drafts: tuple[int, ...] | None
    draft_tokens: tuple[int, ...] | None
    accepted_tokens: tuple[int, ...] | None
    generation_tokens: tuple[int, ...] | None
    first_tokens: tuple[int, ...] | None
    decode_steps: tuple[int, ...] | None
    decode_nanoseconds: tuple[int, ...] | None
    running_requests: tuple[float, ...] | None = Field(description="Means over the polls.")
    draft_acceptance_ratio: tuple[float | None, ...] = Field(description="Null where nothing was drafted.")
    acceptance_length_tokens: tuple[float | None, ...] = Field(description="The bonus token included.")
    effective_tokens_per_step: tuple[float | None, ...] = Field(description="With a draft or without.")


class HistoryView(View):
    """What is kept of the increments: as far back as the longest window."""

    time: float = Field(description="When it was taken, in Unix time.")
    step_seconds: float
    engines: tuple[HistoryEngineView, ...]
