"""The exporter itself: does it see what it should, and what does watching cost."""

from __future__ import annotations

from grafana_foundation_sdk.models import dashboard

from grafana import style, variables
from grafana.board import Band, Mark, Section, board
from grafana.panels import (
    Column,
    Look,
    Panel,
    Query,
    cell,
    count_tile,
    dashed,
    line,
    lines,
    rows,
    stat_tile,
    wide,
)
from grafana.promql import EXPORTERS, PLACE, TARGETS, by, of_exporters
from grafana.style import Colour

UID = "spec-decode-exporter"

_PREFIX = "spec_decode_exporter_"
_EXPORTER_KEY = (*PLACE, "instance")
_TARGET_KEY = (*_EXPORTER_KEY, "target")
_PLACE = {"cluster": "Cluster", "namespace": "Namespace"}
_UP = f"({of_exporters(EXPORTERS('up'))})"
_BY_EXPORTER = style.by_name()
_READ = (style.Word("0", "refused", Colour.HARM), style.Word("1", "in force", Colour.GOOD))

RELOADS = Mark(
    "Reloads",
    f"changes({EXPORTERS(_PREFIX + 'config_last_reload_success_timestamp_seconds')}[$__rate_interval]) > 0",
    "Configuration reloaded by {{instance}}",
    Colour.TREND,
)


def _own(metric: str, **matchers: str) -> str:
    return EXPORTERS(_PREFIX + metric, **matchers)


def _of_target(metric: str, **matchers: str) -> str:
    return TARGETS(_PREFIX + metric, **matchers)


_AGE = f"time() - {_of_target('last_success_timestamp_seconds')}"
# One slow answer is no load; five minutes of them are.
_SHARE = f"avg_over_time({_of_target('poll_seconds')}[5m]) / {_of_target('poll_interval_seconds')}"
# Every tenth page or so is larger, for the histograms are on it.
_READ_BYTES = (
    f"avg_over_time({_of_target('poll_bytes')}[$__rate_interval]) / {_of_target('poll_interval_seconds')}"
)


def _tiles() -> Band:
    tiles = [
        count_tile(
            "Exporters down",
            "Exporters that Prometheus cannot scrape. It knows only those that its own discovery still "
            "lists.",
            f"{_UP} == 0",
            _UP,
        ),
        count_tile(
            "Servers out of reach",
            "Targets whose newest poll failed.",
            f"{_of_target('target_up')} == 0",
            _of_target("target_up"),
        ),
        count_tile(
            "Configuration refused",
            "Exporters whose last reading of the configuration failed; they go on with the one before. The "
            "log says why.",
            f"{_own('config_last_reload_successful')} == 0",
            _own("config_last_reload_successful"),
        ),
        stat_tile(
            "Oldest success",
            "How long ago a poll of the target succeeded that has waited longest.",
            [Query(f"max({_AGE})")],
            Look(unit="s", decimals=0, steps=style.AGE_SECONDS, no_value="no poll yet"),
        ),
        stat_tile(
            "Targets watched",
            "Servers that are polled, over all exporters.",
            [Query(f"sum({_own('targets')})")],
            Look(unit="short", decimals=0),
            history=True,
        ),
        stat_tile(
            "Time of the servers",
            "The largest share of a server's time that answering our polls takes. The exporter polls less "
            "often rather than take more than poll.max_duty_cycle, 1 % by default.",
            [Query(f"max({_SHARE})")],
            Look(unit="percentunit", decimals=2, steps=style.SHARE_OF_SERVER),
            history=True,
        ),
    ]
    return Band(4, [(4, tile) for tile in tiles])


def _targets() -> Panel:
    info = _of_target("target_info")
    labels = {"engine_kind": "Kind", "front_end": "Front end", "version": "Version", "page": "Page"}
    facts = [
        Column(title, by((*_TARGET_KEY, label), info), wide(110), label) for label, title in labels.items()
    ]
    values = [
        Column("Up", by(_TARGET_KEY, _of_target("target_up")), cell(words=style.YES_NO, width=70)),
        Column(
            "Last success", by(_TARGET_KEY, _AGE), cell(style.AGE_SECONDS, filled=False, unit="s", decimals=0)
        ),
        Column("Answer took", by(_TARGET_KEY, _of_target("poll_seconds")), {"unit": "s", "decimals": 1}),
        Column("Page size", by(_TARGET_KEY, _of_target("poll_bytes")), {"unit": "bytes", "decimals": 1}),
        Column("Polled every", by(_TARGET_KEY, _of_target("poll_interval_seconds")), {"unit": "s"}),
        Column(
            "Server's time",
            by(_TARGET_KEY, _SHARE),
            cell(style.SHARE_OF_SERVER, filled=False, unit="percentunit", decimals=2),
        ),
        Column(
            "Failures",
            by(_TARGET_KEY, TARGETS.increase(f"{_PREFIX}poll_failures_total"), "sum"),
            {"decimals": 0},
        ),
    ]
    return rows(
        "Targets",
        "What serves at each target, whether its newest poll succeeded, and what polling it costs. Failures"
        " are those of the time shown. The longest without a success comes first.",
        {"target": "Target", **_PLACE, "instance": "Exporter"},
        [*values, *facts],
        looks={},
        order=("Up", "Target", "Last success", *labels.values()),
        worst="Last success",
        no_value="No target is watched.",
    )


def _failures() -> Panel:
    failures = TARGETS.rate(f"{_PREFIX}poll_failures_total")
    return lines(
        "Failed polls by reason",
        "Polls a second that failed, over all targets. A few while a server restarts are usual.",
        [Query(f"{by(('reason',), failures, 'sum')} > 0", "{{reason}}")],
        Look(unit="cps", least=0, colour=style.by_name(), no_value="No poll failed."),
        stacked=True,
    )


def _duration() -> Panel:
    return lines(
        "How long servers take to answer",
        "Median, 99th percentile and longest of the newest answers over the targets.",
        [
            Query(f"quantile(0.5, {_of_target('poll_seconds')})", "median", line(style.QUANTILES["0.5"])),
            Query(f"quantile(0.99, {_of_target('poll_seconds')})", "p99", line(style.QUANTILES["0.99"])),
            Query(f"max({_of_target('poll_seconds')})", "longest", dashed(Colour.UNKNOWN)),
        ],
        Look(unit="s", least=0),
    )


def _polls() -> Panel:
    return lines(
        "Polls",
        "Polls a second of each exporter, failed ones included. Less than one a second and target: answers "
        "cost too much, and polling was slowed down.",
        [Query(by(("instance",), TARGETS.rate(f"{_PREFIX}polls_total"), "sum"), "{{instance}}")],
        Look(unit="cps", least=0, colour=_BY_EXPORTER),
    )


def _own_graph(title: str, description: str, expr: str, unit: str) -> Panel:
    return lines(
        title, description, [Query(expr, "{{instance}}")], Look(unit=unit, least=0, colour=_BY_EXPORTER)
    )


def _costs() -> list[Band]:
    cpu = _own_graph(
        "CPU",
        "Cores that the exporter uses.",
        of_exporters(EXPORTERS.rate("process_cpu_seconds_total")),
        "percentunit",
    )
    memory = _own_graph(
        "Memory", "Resident memory.", of_exporters(EXPORTERS("process_resident_memory_bytes")), "bytes"
    )
    files = _own_graph(
        "Open files",
        "Connections among them, one for each target.",
        of_exporters(EXPORTERS("process_open_fds")),
        "short",
    )
    scrape = _own_graph(
        "Scrape by Prometheus",
        "How long our own page takes.",
        of_exporters(EXPORTERS("scrape_duration_seconds")),
        "s",
    )
    samples = _own_graph(
        "Samples of a scrape",
        "Series that the exporter gives Prometheus; metrics groups can be switched off in its configuration.",
        of_exporters(EXPORTERS("scrape_samples_scraped")),
        "short",
    )
    traffic = _own_graph(
        "Read from the servers",
        "Bytes a second of metrics pages, unpacked.",
        by(("instance",), _READ_BYTES, "sum"),
        "Bps",
    )
    return [Band(7, [(8, cpu), (8, memory), (8, files)]), Band(7, [(8, scrape), (8, samples), (8, traffic)])]


def _exporters() -> Panel:
    info = _own("build_info")
    labels = {"version": "Version", "revision": "Revision", "python_version": "Python"}
    facts = [Column(title, by((*_EXPORTER_KEY, label), info), {}, label) for label, title in labels.items()]
    values = [
        Column(
            "Configuration",
            by(_EXPORTER_KEY, _own("config_last_reload_successful")),
            cell(words=_READ, filled=False),
        ),
        Column(
            "Read",
            by(_EXPORTER_KEY, f"1000 * {_own('config_last_reload_success_timestamp_seconds')}"),
            {"unit": "dateTimeFromNow"},
        ),
        Column("Hash", by(_EXPORTER_KEY, _own("config_hash")), wide(160, unit="none", decimals=0)),
    ]
    return rows(
        "Exporters",
        "Versions and configurations. Different hashes are different configurations.",
        {"instance": "Exporter", **_PLACE},
        [*values, *facts],
        looks={},
        order=("Exporter", "Version", "Revision", "Python"),
    )


def _by_discovery() -> Panel:
    return lines(
        "Targets by the way they were found",
        "A line that falls to 0 is a discovery that went wrong, or a fleet that was scaled down.",
        [Query(by(("discovery",), _own("targets"), "sum"), "{{discovery}}")],
        Look(unit="short", decimals=0, least=0, colour=style.by_name()),
    )


def health() -> dashboard.Dashboard:
    """Return the dashboard of the exporter's own health and cost."""
    return board(
        UID,
        "Speculative decoding / Exporter",
        "The exporter itself: does it see what it should, and what does watching cost.",
        variables=[variables.datasource(), variables.job(), variables.instance(), variables.targets()],
        marks=[RELOADS],
        sections=[
            Section(
                [
                    _tiles(),
                    Band(8, [(24, _targets())]),
                    Band(7, [(8, _failures()), (8, _duration()), (8, _polls())]),
                ]
            ),
            Section([*_costs()], "What it costs"),
            Section([Band(7, [(14, _exporters()), (10, _by_discovery())])], "Versions and configuration"),
        ],
    )
