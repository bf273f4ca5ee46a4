"""The exporters themselves: do they see what they should, and what does watching cost."""

from __future__ import annotations

from grafana import style
from grafana.board import Band
from grafana.panels import Column, Look, Panel, Query, cell, dashed, line, lines, rows, wide
from grafana.promql import EXPORTERS, PLACE, by, of_exporters
from grafana.style import Colour

_EXPORTER = (*PLACE, "instance")
_TARGET = (*_EXPORTER, "target")
_PLACE = {"cluster": "Cluster", "namespace": "Namespace"}
_READ = (style.Word("0", "refused", Colour.HARM), style.Word("1", "in force", Colour.GOOD))
_SAVED = (style.Word("0", "not saved", Colour.HARM), style.Word("1", "saved", Colour.GOOD))


def _own(metric: str, **matchers: str) -> str:
    return EXPORTERS(f"spec_decode_exporter_{metric}", **matchers)


_AGE = f"time() - {_own('last_success_timestamp_seconds')}"
# One slow answer is no load; five minutes of them are.
_SHARE = f"avg_over_time({_own('poll_seconds')}[5m]) / {_own('poll_interval_seconds')}"


def _targets() -> Panel:
    failures = EXPORTERS.increase("spec_decode_exporter_poll_failures_total")
    labels = {"engine_kind": "Kind", "front_end": "Front end", "version": "Version", "page": "Page"}
    age = cell(style.AGE_SECONDS, filled=False, unit="s", decimals=0)
    share = cell(style.SHARE_OF_SERVER, filled=False, unit="percentunit", decimals=2)
    return rows(
        "Targets",
        "What serves at each target, whether its newest poll succeeded, and what polling it costs. Failures "
        "are those of the time shown, “left out” are engines beyond `limits.engines`.",
        {"target": "Target", **_PLACE, "instance": "Exporter"},
        [
            Column("Up", by(_TARGET, _own("target_up")), cell(words=style.YES_NO, width=70)),
            Column("Last success", by(_TARGET, _AGE), age),
            Column("Answer took", by(_TARGET, _own("poll_seconds")), {"unit": "s", "decimals": 1}),
            Column("Page size", by(_TARGET, _own("poll_bytes")), {"unit": "bytes", "decimals": 1}),
            Column("Polled every", by(_TARGET, _own("poll_interval_seconds")), {"unit": "s"}),
            Column("Server's time", by(_TARGET, _SHARE), share),
            Column("Failures", by(_TARGET, failures, "sum"), {"decimals": 0}),
            Column("Left out", by(_TARGET, _own("engines_not_monitored")), {"decimals": 0}),
            *(
                Column(title, by((*_TARGET, label), _own("target_info")), wide(110), label)
                for label, title in labels.items()
            ),
        ],
        order=("Up", "Target", "Last success", *labels.values()),
        worst="Last success",
        no_value="No target is watched.",
    )


def _exporters() -> Panel:
    labels = {"version": "Version", "revision": "Revision"}
    up = of_exporters(EXPORTERS("up"))
    cpu = of_exporters(EXPORTERS.rate("process_cpu_seconds_total"))
    memory = of_exporters(EXPORTERS("process_resident_memory_bytes"))
    samples = of_exporters(EXPORTERS("scrape_samples_scraped"))
    lost = EXPORTERS.increase("spec_decode_exporter_log_lines_dropped_total")
    read = f"1000 * {_own('config_last_reload_success_timestamp_seconds')}"
    return rows(
        "Exporters",
        "Whether Prometheus can scrape each exporter, its version and configuration, and what it uses. "
        "Different hashes are different configurations; “left out” are targets beyond `limits.engines`.",
        {"instance": "Exporter", **_PLACE},
        [
            Column("Up", by(_EXPORTER, up), cell(words=style.YES_NO, width=70)),
            Column(
                "Configuration",
                by(_EXPORTER, _own("config_last_reload_successful")),
                cell(words=_READ, filled=False),
            ),
            Column("Read", by(_EXPORTER, read), {"unit": "dateTimeFromNow"}),
            Column(
                "State file",
                by(_EXPORTER, _own("state_last_save_successful")),
                cell(words=_SAVED, filled=False),
            ),
            Column("Hash", by(_EXPORTER, _own("config_hash")), wide(160, unit="none", decimals=0)),
            Column("Targets", by(_EXPORTER, _own("targets"), "sum"), {"decimals": 0}),
            Column("Left out", by(_EXPORTER, _own("targets_not_monitored")), {"decimals": 0}),
            Column("Log lines lost", by(_EXPORTER, lost), {"decimals": 0}),
            Column("CPU", by(_EXPORTER, cpu), {"unit": "percentunit", "decimals": 1}),
            Column("Memory", by(_EXPORTER, memory), {"unit": "bytes", "decimals": 0}),
            Column("Series", by(_EXPORTER, samples), {"decimals": 0}),
            *(
                Column(title, by((*_EXPORTER, label), _own("build_info")), {}, label)
                for label, title in labels.items()
            ),
        ],
        order=("Up", "Exporter", *labels.values()),
        no_value="No exporter is scraped.",
    )


def _polls() -> Band:
    failures = EXPORTERS.rate("spec_decode_exporter_poll_failures_total")
    failed = lines(
        "Failed polls by reason",
        "Polls a second that failed, over all targets. A few while a server restarts are usual.",
        [Query(f"{by(('reason',), failures, 'sum')} > 0", "{{reason}}")],
        Look(unit="cps", least=0, colour=style.BY_NAME, no_value="No poll failed."),
        stacked=True,
    )
    took = lines(
        "How long servers take to answer",
        "Median, 99th percentile and longest of the newest answers over the targets.",
        [
            Query(f"quantile(0.5, {_own('poll_seconds')})", "median", line(style.QUANTILES["0.5"])),
            Query(f"quantile(0.99, {_own('poll_seconds')})", "p99", line(style.QUANTILES["0.99"])),
            Query(f"max({_own('poll_seconds')})", "longest", dashed(Colour.UNKNOWN)),
        ],
        Look(unit="s", least=0),
    )
    return Band(7, [(12, failed), (12, took)])


def bands() -> list[Band]:
    """Return the panels about exporters and their targets."""
    return [Band(8, [(24, _targets())]), Band(6, [(24, _exporters())]), _polls()]
