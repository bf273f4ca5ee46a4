"""The exporters themselves: do they see what they should, and what does watching cost."""

from __future__ import annotations

from grafana import style
from grafana.board import Band
from grafana.panels import Column, Look, Query, cell, dashed, line, lines, rows, wide
from grafana.promql import EXPORTERS, PLACE, PROCESSES, by, of_exporters
from grafana.style import Colour

_EXPORTER = (*PLACE, "instance")
_TARGET = (*_EXPORTER, "target")
_PLACE = {"cluster": "Cluster", "namespace": "Namespace"}
_READ = (style.Word("0", "refused", Colour.HARM), style.Word("1", "in force", Colour.GOOD))
_SAVED = (style.Word("0", "not saved", Colour.HARM), style.Word("1", "saved", Colour.GOOD))
_COUNT = {"decimals": 0}


def _target(metric: str, *labels: str) -> str:
    return by((*_TARGET, *labels), EXPORTERS(f"exporter_{metric}"))


def _exporter(metric: str, *labels: str) -> str:
    return by((*_EXPORTER, *labels), EXPORTERS(f"exporter_{metric}"))


_ANSWERS = EXPORTERS("exporter_poll_seconds")
_AGE = f"time() - {EXPORTERS('exporter_last_success_timestamp_seconds')}"
# One slow answer is no load; five minutes of them are.
_SHARE = f"avg_over_time({_ANSWERS}[5m]) / {EXPORTERS('exporter_poll_interval_seconds')}"
_FAILURES = by(_TARGET, EXPORTERS.increase("exporter_poll_failures_total"), "sum")
_SERVED = {"engine_kind": "Kind", "front_end": "Front end", "version": "Version", "page": "Page"}
_TARGETS = rows(
    "Targets",
    "What serves at each target, whether its newest poll succeeded, and what polling it costs. Failures are "
    "those of the time shown, “left out” are engines beyond `limits.engines`.",
    {"target": "Target", **_PLACE, "instance": "Exporter"},
    [
        Column("Up", _target("target_up"), cell(words=style.YES_NO, width=70)),
        Column(
            "Last success",
            by(_TARGET, _AGE),
            cell(style.AGE_SECONDS, filled=False, unit="s", decimals=0),
        ),
        Column("Answer took", by(_TARGET, _ANSWERS), {"unit": "s", "decimals": 1}),
        Column("Page size", _target("poll_bytes"), {"unit": "bytes", "decimals": 1}),
        Column("Polled every", _target("poll_interval_seconds"), {"unit": "s"}),
        Column(
            "Server's time",
            by(_TARGET, _SHARE),
            cell(style.SHARE_OF_SERVER, filled=False, unit="percentunit", decimals=2),
        ),
        Column("Failures", _FAILURES, _COUNT),
        Column("Left out", _target("engines_not_monitored"), _COUNT),
        *(Column(title, _target("target_info", label), wide(110), label) for label, title in _SERVED.items()),
    ],
    order=("Up", "Target", "Last success", *_SERVED.values()),
    worst="Last success",
    no_value="No target is watched.",
)

_LOST = EXPORTERS.increase("exporter_log_lines_dropped_total")
_LOADED = f"1000 * {EXPORTERS('exporter_config_last_reload_success_timestamp_seconds')}"
_BUILT = {"version": "Version", "revision": "Revision"}


def _process(selector: str) -> str:
    return by(_EXPORTER, of_exporters(selector))


_EXPORTERS = rows(
    "Exporters",
    "Whether Prometheus can scrape each exporter, its version and configuration, and what it uses. Different "
    "hashes are different configurations; “left out” are targets beyond `limits.engines`.",
    {"instance": "Exporter", **_PLACE},
    [
        Column("Up", _process(PROCESSES("up")), cell(words=style.YES_NO, width=70)),
        Column("Configuration", _exporter("config_last_reload_successful"), cell(words=_READ, filled=False)),
        Column("Read", by(_EXPORTER, _LOADED), {"unit": "dateTimeFromNow"}),
        Column("State file", _exporter("state_last_save_successful"), cell(words=_SAVED, filled=False)),
        Column("Hash", _exporter("config_hash"), wide(160, unit="none", decimals=0)),
        Column("Targets", by(_EXPORTER, EXPORTERS("exporter_targets"), "sum"), _COUNT),
        Column("Left out", _exporter("targets_not_monitored"), _COUNT),
        Column("Log lines lost", by(_EXPORTER, _LOST), _COUNT),
        Column(
            "CPU",
            _process(PROCESSES.rate("process_cpu_seconds_total")),
            {"unit": "percentunit", "decimals": 1},
        ),
        Column(
            "Memory", _process(PROCESSES("process_resident_memory_bytes")), {"unit": "bytes", "decimals": 0}
        ),
        Column("Series", _process(PROCESSES("scrape_samples_scraped")), _COUNT),
        *(Column(title, _exporter("build_info", label), {}, label) for label, title in _BUILT.items()),
    ],
    order=("Up", "Exporter", *_BUILT.values()),
    no_value="No exporter is scraped.",
)

_FAILED = lines(
    "Failed polls by reason",
    "Polls a second that failed, over all targets. A few while a server restarts are usual.",
    [
        Query(
            f"{by(('reason',), EXPORTERS.rate('exporter_poll_failures_total'), 'sum')} > 0",
            "{{reason}}",
        )
    ],
    Look(unit="cps", least=0, colour=style.BY_NAME, no_value="No poll failed."),
    stacked=True,
)
_TOOK = lines(
    "How long servers take to answer",
    "Median, 99th percentile and longest of the newest answers over the targets.",
    [
        Query(f"quantile(0.5, {_ANSWERS})", "median", line(style.QUANTILES["0.5"])),
        Query(f"quantile(0.99, {_ANSWERS})", "p99", line(style.QUANTILES["0.99"])),
        Query(f"max({_ANSWERS})", "longest", dashed(Colour.UNKNOWN)),
    ],
    Look(unit="s", least=0),
)


def bands() -> list[Band]:
    """Return the panels about exporters and their targets."""
    polls = Band(7, [(12, _FAILED), (12, _TOOK)])
    return [Band(8, [(24, _TARGETS)]), Band(6, [(24, _EXPORTERS)]), polls]
