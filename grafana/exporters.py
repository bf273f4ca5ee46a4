"""The exporters themselves: do they see what they should, and what does watching cost."""

from __future__ import annotations

from grafana import panels, style
from grafana.board import row
from grafana.panels import Look, Query, cell, dashed, line, wide
from grafana.promql import EXPORTERS, PLACES, PROCESSES, by
from grafana.style import Colour

_EXPORTER = (*PLACES, "instance")
_TARGET = (*_EXPORTER, "target")
_READ = (style.Word("0", "refused", Colour.HARM), style.Word("1", "in force", Colour.GOOD))
_SAVED = (style.Word("0", "not saved", Colour.HARM), style.Word("1", "saved", Colour.GOOD))


def _of(key: tuple[str, ...], metric: str, *labels: str) -> str:
    return by((*key, *labels), EXPORTERS(f"exporter_{metric}"))


_ANSWERS = EXPORTERS("exporter_poll_seconds")
_AGE = by(_TARGET, f"time() - {EXPORTERS('exporter_last_success_timestamp_seconds')}")
# One slow answer is no load; five minutes of them are.
_SHARE = by(_TARGET, f"avg_over_time({_ANSWERS}[5m]) / {EXPORTERS('exporter_poll_interval_seconds')}")
_SHARES = cell(style.SHARE_OF_SERVER, filled=False, unit="percentunit", decimals=2)
_SERVED = {"engine_kind": "Kind", "front_end": "Front end", "version": "Version", "page": "Page"}
_TARGETS = panels.table(
    "Targets",
    "What serves at each target, whether its newest poll succeeded, and what polling it costs. Failures are those of the time shown, “left out” are engines beyond `limits.engines`.",
    {"target": "Target", **PLACES, "instance": "Exporter"},
    Query("Up", _of(_TARGET, "target_up"), cell(words=style.YES_NO, width=70)),
    Query("Last success", _AGE, cell(style.AGE_SECONDS, filled=False, unit="s", decimals=0)),
    Query("Answer took", by(_TARGET, _ANSWERS), style.SECONDS),
    Query("Page size", _of(_TARGET, "poll_bytes"), {"unit": "bytes", "decimals": 1}),
    Query("Polled every", _of(_TARGET, "poll_interval_seconds"), {"unit": "s"}),
    Query("Server's time", _SHARE, _SHARES),
    Query("Failures", by(_TARGET, EXPORTERS.increase("exporter_poll_failures_total"), "sum"), style.COUNT),
    Query("Left out", _of(_TARGET, "engines_not_monitored"), style.COUNT),
    *(Query(title, _of(_TARGET, "target_info", label), wide(110), label) for label, title in _SERVED.items()),
    order=("Up", "Target", "Last success", *_SERVED.values()),
    worst="Last success",
    no_value="No target is watched.",
)

_LOADED = f"1000 * {EXPORTERS('exporter_config_last_reload_success_timestamp_seconds')}"
_CPU, _MEMORY = {"unit": "percentunit", "decimals": 1}, {"unit": "bytes", "decimals": 0}
_BUILT = {"version": "Version", "revision": "Revision"}


def _process(selector: str) -> str:
    """Keep the series of exporters alone, for every process has an ``up``; one that is down, for a day."""
    exporters = f"last_over_time({EXPORTERS('exporter_build_info')}[1d])"
    return by(_EXPORTER, f"({selector}) and on ({', '.join((*PLACES, 'job', 'instance'))}) {exporters}")


_EXPORTERS = panels.table(
    "Exporters",
    "Whether Prometheus can scrape each exporter, its version and configuration, and what it uses. Different hashes are different configurations; “left out” are targets beyond `limits.engines`.",
    {"instance": "Exporter", **PLACES},
    Query("Up", _process(PROCESSES("up")), cell(words=style.YES_NO, width=70)),
    Query("Configuration", _of(_EXPORTER, "config_last_reload_successful"), cell(words=_READ, filled=False)),
    Query("Read", by(_EXPORTER, _LOADED), {"unit": "dateTimeFromNow"}),
    Query("State file", _of(_EXPORTER, "state_last_save_successful"), cell(words=_SAVED, filled=False)),
    Query("Hash", _of(_EXPORTER, "config_hash"), wide(160, unit="none", decimals=0)),
    Query("Targets", by(_EXPORTER, EXPORTERS("exporter_targets"), "sum"), style.COUNT),
    Query("Left out", _of(_EXPORTER, "targets_not_monitored"), style.COUNT),
    Query(
        "Log lines lost", by(_EXPORTER, EXPORTERS.increase("exporter_log_lines_dropped_total")), style.COUNT
    ),
    Query("CPU", _process(PROCESSES.rate("process_cpu_seconds_total")), _CPU),
    Query("Memory", _process(PROCESSES("process_resident_memory_bytes")), _MEMORY),
    Query("Series", _process(PROCESSES("scrape_samples_scraped")), style.COUNT),
    *(Query(title, _of(_EXPORTER, "build_info", label), {}, label) for label, title in _BUILT.items()),
    order=("Up", "Exporter", *_BUILT.values()),
    no_value="No exporter is scraped.",
)

_FAILED = panels.areas(
    "Failed polls by reason",
    "Polls a second that failed, over all targets. A few while a server restarts are usual.",
    Look(unit="cps", least=0, colour=style.BY_NAME, no_value="No poll failed."),
    Query("{{reason}}", f"{by(('reason',), EXPORTERS.rate('exporter_poll_failures_total'), 'sum')} > 0"),
)
_TOOK = panels.lines(
    "How long servers take to answer",
    "Median, 99th percentile and longest of the newest answers over the targets.",
    Look(unit="s", least=0),
    Query("median", f"quantile(0.5, {_ANSWERS})", line(style.QUANTILES["0.5"])),
    Query("p99", f"quantile(0.99, {_ANSWERS})", line(style.QUANTILES["0.99"])),
    Query("longest", f"max({_ANSWERS})", dashed(Colour.UNKNOWN)),
)

ROWS = [row(8, _TARGETS), row(6, _EXPORTERS), row(7, _FAILED, _TOOK)]
