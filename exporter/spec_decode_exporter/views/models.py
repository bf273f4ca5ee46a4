"""JSON models: ONE set for the API, the page, the commands and Python.

Names and units are those of the metrics without ``spec_decode_``: shares are between 0 and 1, times in
seconds, moments in Unix time. A number without a value is null, never 0. The models are frozen and reject
unknown fields. docs/reference/api.md lists the stable fields.
"""

from __future__ import annotations

from pydantic import Field

from spec_decode_exporter.analysis.verdict import Verdict
from spec_decode_exporter.monitor.event_log import Plain
from spec_decode_exporter.monitor.log_events import EVENT_TYPES
from spec_decode_exporter.views.engine_models import (
    BaselineView,
    BucketView,
    CostView,
    DepthView,
    DropsView,
    EngineView,
    EvaluatedView,
    FindingView,
    QuantilesView,
    TotalsView,
)
from spec_decode_exporter.views.experiment_models import (
    ArmFirstTokenView,
    ArmView,
    ArmWindowView,
    ExperimentView,
)
from spec_decode_exporter.views.setting_models import LoadBandView, ObstacleView, SettingView
from spec_decode_exporter.views.window_models import (
    CountsView,
    EndToEndView,
    Estimated,
    GroupWindowView,
    SpreadView,
    View,
    WindowView,
)

__all__ = [
    "ArmFirstTokenView",
    "ArmView",
    "ArmWindowView",
    "BaselineView",
    "BucketView",
    "CostView",
    "CountsView",
    "DepthView",
    "DropsView",
    "EndToEndView",
    "EngineView",
    "Estimated",
    "EvaluatedView",
    "EventView",
    "EventsView",
    "ExperimentView",
    "FindingView",
    "GroupView",
    "GroupWindowView",
    "HistoryEngineView",
    "HistoryView",
    "LoadBandView",
    "ObstacleView",
    "QuantilesView",
    "SettingView",
    "SnapshotView",
    "SpreadView",
    "TargetView",
    "TargetsView",
    "TotalsView",
    "View",
    "WindowView",
]


class GroupView(View):
    """Engines with equal values of the labels in `group_by`."""

    labels: dict[str, str] = Field(description="These labels; empty if an engine does not have the label.")
    engines: tuple[str, ...] = Field(description="Identifiers of its engines.")
    verdicts: dict[Verdict, int] = Field(description="Number of engines by verdict.")
    windows: tuple[GroupWindowView, ...] = Field(description="Ascending by length.")


class SnapshotView(View):
    """Every engine at one moment."""

    time: float = Field(description="Unix time of the snapshot.")
    version: str = Field(description="The exporter's version.")
    engines: tuple[EngineView, ...] = Field(description="The requested engines.")
    groups: tuple[GroupView, ...] = Field(
        default=(), description="The same engines by the labels of `group_by`; empty without it."
    )
    experiments: tuple[ExperimentView, ...] = Field(
        default=(), description="Results of the configured experiments."
    )
    last_event: str | None = Field(
        default=None,
        description="Identifier of the newest event before the snapshot: with it as `since`, events follow"
        " without a gap; the snapshot may include some of them. Null for an observation that ended.",
    )


class TargetsView(View):
    """Every target at one moment."""

    time: float = Field(description="Unix time of the snapshot.")
    targets: tuple[TargetView, ...]


class TargetView(View):
    """One target and its polls. Unknown values are null or empty."""

    target: str = Field(description="Its name, the label `target`.")
    address: str = Field(description="`host:port/path`, without user, password and query.")
    labels: dict[str, str] = Field(description="All labels of its metrics, `target` included.")
    discovery: str = Field(description="Kind of discovery: `static`, `file`, `http`, `dns` or `kubernetes`.")
    up: bool | None = Field(description="True if the newest poll succeeded.")
    error: str = Field(description="Reason and text of the newest failure; empty while the target is up.")
    engine_kind: str = Field(description="`vllm`, `sglang`, `lmdeploy`, `llamacpp`; empty if unknown.")
    front_end: str = Field(description="`python`, `rust`, `ray` or `v0` of vLLM.")
    page: str = Field(description="Page that is polled: `filtered` or `whole`.")
    version: str = Field(description="The server's version.")
    polls: int = Field(description="Polls, failed ones included.")
    poll_failures: dict[str, int] = Field(description="Failed polls by every reason.")
    poll_seconds: float | None = Field(description="Duration of the newest poll.")
    poll_bytes: int | None = Field(description="Size of the newest page, uncompressed.")
    poll_interval_seconds: float = Field(description="Present poll interval.")
    last_success_timestamp_seconds: float | None = Field(description="Unix time of the last success.")
    engines_on_page: int | None = Field(
        description="Engines on the newest page; 0 if it is of no supported server, null if unknown."
    )
    engines: tuple[str, ...] = Field(description="Identifiers of its engines.")


class EventView(View):
    """Event of an engine, a target or a model's requests; the log has the same names and fields."""

    id: str = Field(description="`<run of the exporter>-<number>`; numbers grow by one.")
    time: float = Field(description="Unix time of the event.")
    type: str = Field(
        description="Name of the event, as in the log: `acceptance_dropped`, …",
        json_schema_extra={"enum": list(EVENT_TYPES)},
    )
    bad: bool = Field(description="True if an operator should react to it.")
    target: str = Field(description="Empty for events of requests.")
    model_name: str | None = Field(description="Null for events of a target.")
    engine: str | None = Field(description="Null for events of a target or of requests.")
    engine_id: str | None = Field(description="Identifier of the engine, as in the snapshot.")
    fields: dict[str, Plain | tuple[Plain, ...]] = Field(description="Other fields of the log, by `type`.")


class ObservationView(SnapshotView):
    """Observation of servers. The last window of each engine covers all of it and is evaluated."""

    seconds: float = Field(description="Length of the observation and of the last window of each engine.")
    targets: tuple[TargetView, ...] = Field(description="Every server, also unreachable ones.")
    events: tuple[EventView, ...] = Field(description="Events of the observation, oldest first.")


class EventsView(View):
    """Recorded events, oldest first."""

    events: tuple[EventView, ...]
    gap: bool = Field(
        description="True if events after `since` are missing: no longer kept, or of an earlier run."
    )
    last: str = Field(description="Value of `since` for the next events.")
    more: bool = Field(description="True if `limit` omitted later events; request them with `last`.")


class HistoryEngineView(View):
    """Increments of one engine, summed in steps: columns of equal length, oldest first.

    Steps without a poll are absent. A column is null if the engine does not have the counter.
    """

    id: str = Field(description="As in the snapshot, as are target, model name and engine.")
    target: str
    model_name: str
    engine: str
    time: tuple[float, ...] = Field(description="Unix time at which each step begins, a multiple of it.")
    seconds: tuple[float, ...] = Field(description="Time that the increments of each step cover.")
    polls: tuple[int, ...] = Field(description="Number of increments of each step.")
    drafts: tuple[int, ...] | None
    draft_tokens: tuple[int, ...] | None
    accepted_tokens: tuple[int, ...] | None
    generation_tokens: tuple[int, ...] | None
    first_tokens: tuple[int, ...] | None
    decode_steps: tuple[int, ...] | None
    decode_nanoseconds: tuple[int, ...] | None
    running_requests: tuple[float, ...] | None = Field(description="Means over the polls.")
    draft_acceptance_ratio: tuple[float | None, ...] = Field(description="Null without draft tokens.")
    acceptance_length_tokens: tuple[float | None, ...] = Field(description="The bonus token included.")
    effective_tokens_per_step: tuple[float | None, ...] = Field(description="With a draft or without.")


class HistoryView(View):
    """Histories of engines, as long as the longest window."""

    time: float = Field(description="Unix time of the snapshot.")
    step_seconds: float
    engines: tuple[HistoryEngineView, ...]
