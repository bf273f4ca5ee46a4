"""Snapshot of the fleet, with each engine at its last evaluation: for /metrics, the JSON API and the page."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from json import dumps

from spec_decode_exporter.analysis.evaluation import Evaluation
from spec_decode_exporter.core.version import REVISION, __version__
from spec_decode_exporter.costs.blocks import Blocks
from spec_decode_exporter.costs.time_saved import DayTime, DecodeTime
from spec_decode_exporter.drops.sums import DropStatus
from spec_decode_exporter.experiments.experiment import ArmFindings
from spec_decode_exporter.findings.finding import Finding
from spec_decode_exporter.requests.store import RequestFindings
from spec_decode_exporter.scrape.engines import Counter, Gauge
from spec_decode_exporter.scrape.poll_record import PollRecord
from spec_decode_exporter.scrape.sample import Sample
from spec_decode_exporter.window.engine_windows import Totals
from spec_decode_exporter.window.poll import Check


@lru_cache(maxsize=4096)
def engine_id(target: str, model_name: str, engine: str) -> str:
    """Return the engine's identifier in URLs: 12 hexadecimal digits, equal for equal labels."""
    return blake2b(dumps([target, model_name, engine]).encode(), digest_size=6).hexdigest()


def id_of(labels: Mapping[str, str]) -> str:
    """Return the identifier of an engine by the labels of its metrics."""
    return engine_id(labels["target"], labels["model_name"], labels["engine"])


@dataclass(frozen=True, slots=True)
class EngineSnapshot:
    """State of one engine at its last evaluation."""

    totals: Totals  # sums until the newest poll
    tokens: int  # K; 0 if unknown
    broken: frozenset[Check]
    evaluation: Evaluation  # without windows if the engine is gone
    reported: Sample | None  # evaluated sample; None if the engine is gone
    drops: DropStatus
    decode_time: DecodeTime  # of the polls with bounds of the speed-up, since the first poll
    today: DayTime  # the same since midnight in UTC
    compute_findings: Callable[[], tuple[Finding, ...] | None] = tuple
    """Return the findings, computed once; None after an internal error."""
    compute_token_use: Callable[[], Mapping[int, Blocks]] = dict
    """Return the last days by number of draft tokens in use, ascending."""
    lines: dict[tuple[str, ...], tuple[object, Sequence[str]]] = field(default_factory=dict)
    """Rows of /metrics that were written with the evaluation, and their lines, by labels."""

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Findings about the engine, computed when they are first read; none if it is gone."""
        return self.compute_findings() or ()

    def engine_reported(self, gauge: Gauge) -> float | None:
        """Return a ratio that the engine itself reports, if it has no counters that can be used."""
        sample = self.reported
        return None if sample is None or sample[Counter.DRAFTS] is not None else sample.gauge(gauge)


@dataclass(frozen=True, slots=True)
class TargetStatus:
    """Status of one target and of its polls. An unknown value is None or empty."""

    record: PollRecord = field(default_factory=PollRecord)  # copy of the record of its polls
    engine_kind: str = ""
    front_end: str = ""
    engines_not_monitored: int = 0  # engines of the newest page beyond the limit
    name: str = ""
    address: str = ""  # ``host:port/path``, without user, password and query
    labels: Mapping[str, str] = field(default_factory=dict)  # labels of its metrics, ``target`` included
    discovery: str = ""
    engines: tuple[tuple[str, str], ...] = ()  # labels ``model_name`` and ``engine`` of its engines


@dataclass(frozen=True, slots=True)
class ExporterStatus:
    """Status of the exporter itself."""

    version: str = __version__
    revision: str = REVISION
    python_version: str = field(default_factory=platform.python_version)
    targets: Mapping[str, int] = field(default_factory=dict)  # number of targets by kind of discovery
    reload_problem: str = ""
    """Text of the last reload of the configuration, if it failed: its mistakes, one a line."""
    reload_success_timestamp: float = 0.0  # Unix time
    config_hash: int = 0
    web_reload_successful: bool | None = None  # None without a web configuration
    targets_not_monitored: int = 0  # discovered targets beyond the limit
    external_url: str = ""  # address of the pages in a browser; empty if unknown
    simulated: bool = False  # True if its targets are embedded simulated servers
    log_lines_dropped: int = 0  # log lines dropped because their reader does not read
    state_problem: str | None = None
    """Sentence about the last save of the state file, if it failed; else empty. None without one."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The fleet, the experiments, the requests and the exporter at one moment, with the labels of each."""

    engines: Sequence[tuple[Mapping[str, str], EngineSnapshot]] = ()
    targets: Sequence[tuple[Mapping[str, str], TargetStatus]] = ()
    exporter: Sequence[tuple[Mapping[str, str], ExporterStatus]] = ()
    experiments: Sequence[tuple[Mapping[str, str], ArmFindings]] = ()  # one for each arm, the baseline too
    last_event: str | None = None  # the identifier of the newest event before the snapshot began
    requests: RequestFindings = field(default_factory=RequestFindings)  # findings of single requests
    number: int = 0  # number of the snapshot; a newer one has a higher one
