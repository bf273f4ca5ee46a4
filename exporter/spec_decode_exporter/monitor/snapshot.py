"""Records of the fleet at one moment, which /metrics, the JSON API and the page read."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from spec_decode_exporter.core.version import REVISION, __version__
from spec_decode_exporter.experiments.experiment import ArmFindings
from spec_decode_exporter.monitor.engine_snapshot import EngineSnapshot
from spec_decode_exporter.requests.store import RequestFindings
from spec_decode_exporter.scrape.poll_record import PollRecord


@dataclass(frozen=True, slots=True)
class TargetStatus:
    """Status of one target and of its polls. An unknown value is None or empty."""

    record: PollRecord = field(default_factory=PollRecord)
    """Copy of the record of its polls."""
    engine_kind: str = ""
    front_end: str = ""
    engines_not_monitored: int = 0
    """Engines of the newest page beyond the limit."""
    name: str = ""
    address: str = ""
    """``host:port/path``, without user, password and query."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Labels of its metrics, ``target`` included."""
    discovery: str = ""
    engines: tuple[tuple[str, str], ...] = ()
    """Labels ``model_name`` and ``engine`` of its engines."""


@dataclass(frozen=True, slots=True)
class ExporterStatus:
    """Status of the exporter itself."""

    version: str = __version__
    revision: str = REVISION
    python_version: str = field(default_factory=platform.python_version)
    targets: Mapping[str, int] = field(default_factory=dict)
    """Number of targets by kind of discovery."""
    reload_problem: str = ""
    """Text of the last reload of the configuration, if it failed: its mistakes, one a line."""
    reload_success_timestamp: float = 0.0
    """Unix time."""
    config_hash: int = 0
    web_reload_successful: bool | None = None
    """None without a web configuration."""
    targets_not_monitored: int = 0
    """Discovered targets beyond the limit."""
    external_url: str = ""
    """Address of the pages in a browser; empty if unknown."""
    simulated: bool = False
    """True if its targets are embedded simulated servers."""
    log_lines_dropped: int = 0
    """Log lines dropped because their reader does not read."""
    state_saved: bool | None = None
    """Result of the last save of the state file; None without one."""
    problem: str = ""
    """Sentence about the state file for the page; empty without a problem."""

    @property
    def reload_successful(self) -> bool:
        """True if the last reload succeeded."""
        return not self.reload_problem


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The fleet, the experiments, the requests and the exporter at one moment, with the labels of each."""

    engines: Sequence[tuple[Mapping[str, str], EngineSnapshot]] = ()
    targets: Sequence[tuple[Mapping[str, str], TargetStatus]] = ()
    exporter: Sequence[tuple[Mapping[str, str], ExporterStatus]] = ()
    experiments: Sequence[tuple[Mapping[str, str], ArmFindings]] = ()
    """One for each arm, the baseline too."""
    last_event: str | None = None
    """The identifier of the newest event before the snapshot began."""
    requests: RequestFindings = field(default_factory=RequestFindings)
    """Findings of single requests."""
    number: int = 0
    """Number of the snapshot; a newer one has a higher one."""
