"""Documents of the fleet: snapshot, experiments, targets and events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby

from spec_decode_exporter.config.types import format_duration
from spec_decode_exporter.core.isolation import Isolation
from spec_decode_exporter.experiments.arm import SpeedupBasis
from spec_decode_exporter.experiments.experiment import ArmFindings
from spec_decode_exporter.experiments.traffic import Traffic
from spec_decode_exporter.monitor.event_log import RecordedEvent
from spec_decode_exporter.monitor.snapshot import TargetStatus, engine_id
from spec_decode_exporter.scrape.engines import KIND_NAMES
from spec_decode_exporter.scrape.errors import REASONS
from spec_decode_exporter.views.document import Estimated, View, at
from spec_decode_exporter.views.engine_view import EngineView

Arms = Iterable[tuple[Mapping[str, str], ArmFindings]]


# fmt: off
class ArmSpeedupView(Estimated):
    """Speed relative to the baseline, with its 95 % bounds at equal traffic: they contain what the difference of the traffic can explain at most."""

    lower: float | None = at("Null if one of both arms has none.", "estimate.lower", default=None)
    upper: float | None = at("Null exactly if `lower` is null.", "estimate.upper", default=None)
    reason: Traffic | None = at("Part of the traffic whose difference may explain the speed-up; null if the bounds exclude 1, or would contain it at equal traffic too.", default=None)


class ArmWindowView(View):
    """An arm over one window, beside the baseline."""

    window: str = at("Name and length of the window, as in the label `window`.")
    engines: int = at("Number of engines of the arm in the window.")
    requests: int | None = at("Number of requests that began on them.")
    acceptance_length_tokens: float | None = at("Mean tokens that a draft gives, the bonus token included; null without drafts.", "acceptance_length")
    time_to_first_token_seconds: dict[str, float | None] = at("`mean`, null if the server does not export its sum, and `p50` and `p95` within the server's buckets, of the longest window only.", "first_token")
    prefix_cache_hit_ratio: float | None = at("Share of prompt tokens that the prefix cache held; null if unknown.", "prefix_hit_ratio")
    traffic_ratio: dict[Traffic, float | None] = at("Work of the arm's traffic over the baseline's, by part; below 1: fewer, shorter or easier requests; empty for the baseline itself. Null: it differs by an unknown factor, and there are no bounds. Unknown parts are absent.", "traffic")
    speedup_ratio: dict[SpeedupBasis, ArmSpeedupView] = at("Speed relative to the baseline, by basis.", "speedups")


class ArmView(View):
    """One arm of an experiment."""

    arm: str = at("Its name, the label `arm`.")
    winner: dict[SpeedupBasis, bool] = at("True if it is the fastest, statistically significant (95 %), over the longest window and for at least as long without interruption, by basis.", "wins")
    windows: tuple[ArmWindowView, ...] = at("Ascending by length.")


class ExperimentView(View):
    """Arms that serve the same work with different settings."""

    experiment: str = at("Its name, the label `experiment`.")
    baseline: str = at("The arm that the others are compared with.")
    arms: tuple[ArmView, ...] = at("In the order of the configuration, the baseline too.")


class SnapshotView(View):
    """Every engine at one moment."""

    time: float = at("Unix time of the snapshot.")
    version: str = at("The exporter's version.")
    engines: tuple[EngineView, ...] = at("The requested engines.")
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
    remedy: str = at("What to do about the failure, or about a page without an engine; else empty.", "record.remedy", default="")
    engine_kind: str = at(f"{KIND_NAMES}; empty if unknown.")
    front_end: str = at("`python`, `rust`, `ray` or `v0` of vLLM.")
    page: str = at("Page that is polled: `filtered` or `whole`.", "record.page")
    version: str = at("The server's version.", "record.version")
    polls: int = at("Polls, failed ones included.", "record.polls")
    poll_failures: dict[str, int] = at("Failed polls by every reason.")
    poll_seconds: float | None = at("Duration of the newest poll.", "record.seconds")
    poll_bytes: int | None = at("Size of the newest page, uncompressed.", "record.size")
    poll_interval_seconds: float = at("Present poll interval, with the back-off of a target that is down.", "record.pace")
    last_success_timestamp_seconds: float | None = at("Unix time of the last success.", "record.last_success")
    engines_on_page: int | None = at("Engines on the newest page; 0 if it is of no supported server, null if unknown.", "record.engines")
    engines: tuple[str, ...] = at("Identifiers of its engines.")


class TargetsView(View):
    """Every target at one moment."""

    time: float = at("Unix time of the snapshot.")
    targets: tuple[TargetView, ...]


class EventsView(View):
    """Recorded events, oldest first."""

    events: tuple[RecordedEvent, ...]
    gap: bool = at("True if events after `since` are missing: no longer kept, or of an earlier run.")
    last: str = at("Value of `since` for the next events.")
    more: bool = at("True if `limit` omitted later events; request them with `last`.")

# fmt: on


def target_view(status: TargetStatus) -> TargetView:
    """Return the document of a target."""
    return TargetView.of(
        status,
        poll_failures={reason: status.record.failures[reason] for reason in REASONS},
        engines=tuple(engine_id(status.name, *engine) for engine in status.engines),
    )


def experiment_views(arms: Arms, errors: Isolation, part: str) -> Iterator[ExperimentView]:
    """Yield the document of each experiment; ``part`` omits one that fails. ``arms`` are of a ``Snapshot``."""
    return errors.each(
        part,
        groupby(arms, lambda arm: (arm[0]["experiment"], arm[0]["baseline"])),
        lambda each: {"experiment": each[0][0]},
        lambda each: _experiment(*each[0], each[1]),
    )


def _experiment(name: str, baseline: str, arms: Arms) -> ExperimentView:
    views = []
    for labels, its in arms:
        windows = [ArmWindowView.of(each, window=format_duration(each.length)) for each in its.windows]
        views.append(ArmView.of(its, arm=labels["arm"], windows=windows))
    return ExperimentView(experiment=name, baseline=baseline, arms=tuple(views))
