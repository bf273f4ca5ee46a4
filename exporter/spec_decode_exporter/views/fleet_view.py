"""Documents of the fleet: snapshot, targets, events, and an observation."""

from __future__ import annotations

from functools import lru_cache

from spec_decode_exporter.monitor.event_log import MAX_EVENTS, Plain, RecordedEvent
from spec_decode_exporter.monitor.events import EVENT_TYPES
from spec_decode_exporter.monitor.snapshot import TargetStatus
from spec_decode_exporter.scrape.engines import KIND_NAMES
from spec_decode_exporter.scrape.errors import REASONS
from spec_decode_exporter.views.document import View, at
from spec_decode_exporter.views.engine_view import EngineView, engine_id
from spec_decode_exporter.views.experiment_view import ExperimentView
from spec_decode_exporter.views.group_view import GroupView


# fmt: off
class SnapshotView(View):
    """Every engine at one moment."""

    time: float = at("Unix time of the snapshot.")
    version: str = at("The exporter's version.")
    engines: tuple[EngineView, ...] = at("The requested engines.")
    groups: tuple[GroupView, ...] = at("The same engines by the labels of `group_by`; empty without it.", default=())
    experiments: tuple[ExperimentView, ...] = at("Results of the configured experiments.", default=())
    last_event: str | None = at("Identifier of the newest event before the snapshot: with it as `since`, events follow without a gap; the snapshot may include some of them. Null for an observation that ended.", default=None)


class TargetView(View):
    """One target and its polls. Unknown values are null or empty."""

    target: str = at("Its name, the label `target`.", "name")
    address: str = at("`host:port/path`, without user, password and query.")
    labels: dict[str, str] = at("All labels of its metrics, `target` included.")
    discovery: str = at("Kind of discovery: `static`, `file`, `http`, `dns` or `kubernetes`.")
    up: bool | None = at("True if the newest poll succeeded.", "record.up")
    error: str = at("Reason and text of the newest failure; empty while the target is up.", "record.failure_text")
    engine_kind: str = at(f"{KIND_NAMES}; empty if unknown.")
    front_end: str = at("`python`, `rust`, `ray` or `v0` of vLLM.")
    page: str = at("Page that is polled: `filtered` or `whole`.", "record.page")
    version: str = at("The server's version.", "record.version")
    polls: int = at("Polls, failed ones included.", "record.polls")
    poll_failures: dict[str, int] = at("Failed polls by every reason.")
    poll_seconds: float | None = at("Duration of the newest poll.", "record.seconds")
    poll_bytes: int | None = at("Size of the newest page, uncompressed.", "record.size")
    poll_interval_seconds: float = at("Present poll interval.", "record.interval")
    last_success_timestamp_seconds: float | None = at("Unix time of the last success.", "record.last_success")
    engines_on_page: int | None = at("Engines on the newest page; 0 if it is of no supported server, null if unknown.", "record.engines")
    engines: tuple[str, ...] = at("Identifiers of its engines.")


class TargetsView(View):
    """Every target at one moment."""

    time: float = at("Unix time of the snapshot.")
    targets: tuple[TargetView, ...]


class EventView(View):
    """Event of an engine, a target or a model's requests; the log has the same names and fields."""

    id: str = at("`<run of the exporter>-<number>`; numbers grow by one.")
    time: float = at("Unix time of the event.")
    type: str = at("Name of the event, as in the log: `acceptance_dropped`, …", json_schema_extra={"enum": list(EVENT_TYPES)})
    bad: bool = at("True if an operator should react to it.")
    target: str = at("Empty for events of requests.")
    model_name: str | None = at("Null for events of a target.")
    engine: str | None = at("Null for events of a target or of requests.")
    engine_id: str | None = at("Identifier of the engine, as in the snapshot.")
    fields: dict[str, Plain | tuple[Plain, ...]] = at("Other fields of the log, by `type`.")


class EventsView(View):
    """Recorded events, oldest first."""

    events: tuple[EventView, ...]
    gap: bool = at("True if events after `since` are missing: no longer kept, or of an earlier run.")
    last: str = at("Value of `since` for the next events.")
    more: bool = at("True if `limit` omitted later events; request them with `last`.")


class ObservationView(SnapshotView):
    """Observation of servers. The last window of each engine covers all of it and is evaluated."""

    seconds: float = at("Length of the observation and of the last window of each engine.")
    targets: tuple[TargetView, ...] = at("Every server, also unreachable ones.")
    events: tuple[EventView, ...] = at("Events of the observation, oldest first.")

# fmt: on


def target_view(status: TargetStatus) -> TargetView:
    """Return the document of a target."""
    return TargetView.of(
        status,
        poll_failures={reason: status.record.failures[reason] for reason in REASONS},
        engines=tuple(engine_id(status.name, *engine) for engine in status.engines),
    )


@lru_cache(maxsize=MAX_EVENTS)
def event_view(event: RecordedEvent) -> EventView:
    """Return the document of an event; each kept event is converted once for all readers."""
    of_engine = event.model_name is not None and event.engine is not None
    its = engine_id(event.target, event.model_name or "", event.engine or "") if of_engine else None
    return EventView.of(event, engine_id=its)
