"""Record of the fleet at one moment, which /metrics, the JSON API and the page read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from spec_decode_exporter.experiments.experiment import ArmFindings
from spec_decode_exporter.monitor.engine_snapshot import EngineSnapshot
from spec_decode_exporter.monitor.target_status import ExporterStatus, TargetStatus
from spec_decode_exporter.requests.request_findings import RequestFindings


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
