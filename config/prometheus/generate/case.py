"""Test case of rules: input series and the expected results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

Labels = Mapping[str, str]

ENGINE: Final = {
    "job": "spec-decode",
    "instance": "gpu-1:7732",
    "target": "chat",
    "model_name": "llama",
    "engine": "0",
}
"""The labels of an engine."""

TARGET: Final = {label: ENGINE[label] for label in ("job", "instance", "target")}
"""Those of a target."""

EXPORTER: Final = {label: ENGINE[label] for label in ("job", "instance")}
"""Those of an exporter."""


@dataclass(frozen=True, slots=True)
class Counter:
    """A counter that begins at 0: phases of minutes, and how much it grows a second in each."""

    phases: tuple[tuple[float, float], ...]

    def notation(self, interval: int) -> str:
        """Return the series as promtool reads it, scraped every ``interval`` seconds."""
        parts, value = [], 0.0
        for minutes, rate in self.phases:
            samples, step = round(minutes * 60 / interval), rate * interval
            parts.append(f"{value:.12g}+{step:.12g}x{samples - 1}")
            value += step * samples
        return " ".join(parts)


@dataclass(frozen=True, slots=True)
class Gauge:
    """A gauge: phases of minutes, and its value in each; None is absent, as the exporter leaves it out."""

    phases: tuple[tuple[float, float | None], ...]

    def notation(self, interval: int) -> str:
        """Return the series as promtool reads it, scraped every ``interval`` seconds."""
        return " ".join(
            self._phase(value, round(minutes * 60 / interval)) for minutes, value in self.phases
        ).strip()

    @staticmethod
    def _phase(value: float | None, samples: int) -> str:
        if value is not None:
            return f"{value:.12g}x{samples - 1}"
        return "stale" + (f" _x{samples - 1}" if samples > 1 else "")


Series = Mapping[str, Counter | Gauge]


def counter(*phases: tuple[float, float]) -> Counter:
    """Make a counter of (minutes, increase a second)."""
    return Counter(phases)


def gauge(*phases: tuple[float, float | None]) -> Gauge:
    """Make a gauge of (minutes, value)."""
    return Gauge(phases)


def of(metric: str, labels: Labels = ENGINE, /, **more: str) -> str:
    """Return the name of a series."""
    return metric + "{" + ",".join(f'{name}="{value}"' for name, value in {**labels, **more}.items()) + "}"


@dataclass(frozen=True, slots=True)
class Firing:
    """An alert that must fire."""

    labels: Mapping[str, str]
    """All of them but its name and severity."""
    description: str
    """Without the action at its end."""
    action: str = ""
    """The action, if it has values; empty for the alert's own with the labels filled in."""
    exporter: str = "http://localhost:7732"
    """Address of the exporter whose runbook is linked; by default that without any series of an exporter."""


@dataclass(frozen=True, slots=True)
class AlertCase:
    """Series, and what an alert makes of them after some minutes."""

    alert: str
    title: str
    series: Series
    at: float
    """Minutes."""
    fires: tuple[Firing, ...] = ()


@dataclass(frozen=True, slots=True)
class Sample:
    """A value that must come of an expression."""

    labels: Mapping[str, str]
    value: float


@dataclass(frozen=True, slots=True)
class RuleCase:
    """Series, and what expressions over recorded series make of them after some minutes."""

    title: str
    series: Series
    at: float
    expects: Mapping[str, tuple[Sample, ...]] = field(default_factory=dict)
    """By expression."""


def moment(minutes: float) -> str:
    """Return a time as promtool reads it."""
    return f"{round(minutes * 60)}s"


def inputs(series: Series, interval: int) -> list[dict[str, Any]]:
    """Return series as promtool reads them."""
    return [{"series": name, "values": values.notation(interval)} for name, values in series.items()]
