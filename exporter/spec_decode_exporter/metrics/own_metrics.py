"""Metrics of the exporter itself and of its polls."""

from __future__ import annotations

from functools import partial

from spec_decode_exporter.config.schema import Group
from spec_decode_exporter.metrics.metric import Metric, MetricKind
from spec_decode_exporter.monitor.target_status import ExporterStatus, TargetStatus
from spec_decode_exporter.scrape.poll_errors import REASONS

_target: partial[Metric[TargetStatus]] = partial(Metric, kind=MetricKind.GAUGE, group=Group.EXPORTER)
_own: partial[Metric[ExporterStatus]] = partial(Metric, kind=MetricKind.GAUGE, group=Group.EXPORTER)


def _failures(status: TargetStatus) -> list[tuple[tuple[str, ...], float]]:
    failures = status.failures or {}
    return [((reason,), failures.get(reason, 0)) for reason in REASONS]


TARGET_METRICS: tuple[Metric[TargetStatus], ...] = (
    _target(
        "spec_decode_exporter_target_up",
        help="Result of the newest poll of the target: 1 succeeded, 0 failed.",
        read=lambda status: [((), None if status.up is None else float(status.up))],
    ),
    _target(
        "spec_decode_exporter_target_error",
        help="Reason of the newest poll's failure, with the status of a rejection; 1, absent after a success.",
        labels=("reason",),
        read=lambda status: [((status.failure,), 1.0 if status.failure else None)],
    ),
    _target(
        "spec_decode_exporter_target_engines",
        help="Engines on the newest page of the target; 0: the page is of no supported server.",
        read=lambda status: [((), status.engines_on_page)],
    ),
    _target(
        "spec_decode_exporter_target_info",
        help="Kind of engine, front end, page and version of the target; always 1.",
        labels=("engine_kind", "front_end", "page", "version"),
        read=lambda status: [
            (
                (status.engine_kind, status.front_end, status.page, status.version),
                1.0 if status.page else None,
            )
        ],
    ),
    _target(
        "spec_decode_exporter_polls_total",
        kind=MetricKind.COUNTER,
        help="Polls of the target, failed ones included.",
        read=lambda status: [((), status.polls)],
    ),
    _target(
        "spec_decode_exporter_poll_failures_total",
        kind=MetricKind.COUNTER,
        help="Failed polls of the target, by reason.",
        labels=("reason",),
        read=_failures,
    ),
    _target(
        "spec_decode_exporter_engines_not_monitored",
        help="Engines on the page of the target that are not monitored, because limits.engines is reached.",
        read=lambda status: [((), status.engines_not_monitored)],
    ),
    _target(
        "spec_decode_exporter_poll_seconds",
        help="Duration of the newest poll of the target in seconds.",
        read=lambda status: [((), status.poll_seconds)],
    ),
    _target(
        "spec_decode_exporter_poll_bytes",
        help="Size of the newest page of the target in bytes, uncompressed.",
        read=lambda status: [((), status.poll_bytes)],
    ),
    _target(
        "spec_decode_exporter_poll_interval_seconds",
        help="Present poll interval of the target in seconds; longer than configured if its pages cost much.",
        read=lambda status: [((), status.interval)],
    ),
    _target(
        "spec_decode_exporter_last_success_timestamp_seconds",
        help="Unix time of the last successful poll of the target.",
        read=lambda status: [((), status.last_success)],
    ),
)

EXPORTER_METRICS: tuple[Metric[ExporterStatus], ...] = (
    _own(
        "spec_decode_exporter_build_info",
        help="Version, revision and Python of the exporter; always 1.",
        labels=("version", "revision", "python_version"),
        read=lambda status: [((status.version, status.revision, status.python_version), 1)],
    ),
    _own(
        "spec_decode_exporter_web_info",
        help="Address of the exporter's pages in a browser, by --web.external-url; always 1, absent without it.",
        labels=("external_url",),
        read=lambda status: [((status.external_url,), 1.0 if status.external_url else None)],
    ),
    _own(
        "spec_decode_exporter_targets",
        help="Monitored targets, by discovery.",
        labels=("discovery",),
        read=lambda status: [((kind,), count) for kind, count in status.targets.items()],
    ),
    _own(
        "spec_decode_exporter_targets_not_monitored",
        help="Discovered targets that are not monitored, because limits.engines is reached.",
        read=lambda status: [((), status.targets_not_monitored)],
    ),
    _own(
        "spec_decode_exporter_log_lines_dropped_total",
        kind=MetricKind.COUNTER,
        help="Log lines that the exporter dropped, because the reader of its log did not read.",
        read=lambda status: [((), status.log_lines_dropped)],
    ),
    _own(
        "spec_decode_exporter_config_last_reload_successful",
        help="Result of the last reload of the configuration: 1 succeeded, 0 failed.",
        read=lambda status: [((), float(status.reload_successful))],
    ),
    _own(
        "spec_decode_exporter_config_last_reload_success_timestamp_seconds",
        help="Unix time at which the active configuration was loaded.",
        read=lambda status: [((), status.reload_success_timestamp)],
    ),
    _own(
        "spec_decode_exporter_config_hash",
        help="Hash of the active configuration; equal configurations have equal hashes.",
        read=lambda status: [((), status.config_hash)],
    ),
    _own(
        "spec_decode_exporter_web_config_last_reload_successful",
        help="Result of the last reload of --web.config.file: 1 succeeded, 0 failed; absent without this file.",
        read=lambda status: [
            ((), None if status.web_reload_successful is None else float(status.web_reload_successful))
        ],
    ),
)
