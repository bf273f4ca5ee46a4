"""State of one engine at its last evaluation, which all readers share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from json import dumps
from typing import Any

from spec_decode_exporter.analysis.evaluation import Evaluation
from spec_decode_exporter.costs.blocks import Blocks
from spec_decode_exporter.costs.time_saved import DayTime, DecodeTime
from spec_decode_exporter.drops.sums import DropStatus
from spec_decode_exporter.findings.finding import Finding
from spec_decode_exporter.scrape.engines import Counter, Gauge
from spec_decode_exporter.scrape.sample import Sample
from spec_decode_exporter.window.history import Totals
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

    moment: float
    """Time of the evaluated poll (monotonic)."""
    totals: Totals
    """Sums until the newest poll."""
    tokens: int
    """K; 0 if unknown."""
    broken: frozenset[Check]
    evaluation: Evaluation
    """Without windows if the engine is gone."""
    reported: Sample | None
    """Evaluated sample; None if the engine is gone."""
    drops: DropStatus
    reference_acceptance_ratio: float | None
    """Acceptance rate of the reference at this K."""
    decode_time: DecodeTime
    """Of the polls with bounds of the speed-up, since the first poll."""
    today: DayTime
    """The same since midnight in UTC."""
    compute_findings: Callable[[], tuple[Finding, ...] | None] = tuple
    """Return the findings, computed once; None after an internal error."""
    compute_token_use: Callable[[], Mapping[int, Blocks]] = dict
    """Return the last days by number of draft tokens in use, ascending, computed once."""
    lines: dict[tuple[str, ...], Mapping[Any, str]] = field(default_factory=dict)
    """Lines of /metrics that were written with the evaluation, by labels and metric."""

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Findings about the engine, computed when they are first read; none if it is gone."""
        return self.compute_findings() or ()

    def engine_reported(self, gauge: Gauge) -> float | None:
        """Return a ratio that the engine itself reports, if it has no counters that can be used."""
        sample = self.reported
        return None if sample is None or sample[Counter.DRAFTS] is not None else sample.gauge(gauge)
