"""Selection of the exported metrics and windows, by the configuration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from spec_decode_exporter.config.schema import Metrics, Profile
from spec_decode_exporter.config.units import format_duration
from spec_decode_exporter.metrics.catalogue import CATALOGUE
from spec_decode_exporter.metrics.metric import Metric, Values
from spec_decode_exporter.metrics.profiles import LONGEST_WINDOW, PROFILES, SHORTEST_WINDOW


@dataclass(frozen=True, slots=True)
class Selection:
    """Metrics that are exported, by name."""

    names: frozenset[str]
    windows: Mapping[str, str] = field(default_factory=dict)
    """The ``window`` label of metrics of which a single window is exported; of others all are."""

    def reduced(self, metric: Metric[Any]) -> Metric[Any]:
        """Return a metric that reads the exported windows alone."""
        window = self.windows.get(metric.name)
        if window is None:
            return metric
        place = metric.labels.index("window")

        def read(subject: object) -> Values:
            return (value for value in metric.read(subject) if value[0][place] == window)

        return replace(metric, read=read)


def selected_metrics(settings: Metrics, windows: Sequence[float]) -> Selection:
    """Return the selection of a configuration.

    What is enabled by group has all its windows.

    Args:
        settings: The section ``metrics``.
        windows: Lengths of the windows in seconds.
    """
    switches = {metric.name: _switch(metric, settings) for metric in CATALOGUE}
    profile = PROFILES.get(settings.profile, frozenset(switches))
    names = {name for name, switch in switches.items() if (name in profile if switch is None else switch)}
    single: dict[str, str] = {}
    if settings.profile is not Profile.FULL:
        by_profile = {name for name in names if switches[name] is None}
        single |= dict.fromkeys(by_profile & LONGEST_WINDOW, format_duration(max(windows)))
        single |= dict.fromkeys(by_profile & SHORTEST_WINDOW, format_duration(min(windows)))
    return Selection(frozenset(names), single)


def _switch(metric: Metric[Any], settings: Metrics) -> bool | None:
    """Return whether the configuration enables or disables a metric; None if it does not mention it."""
    if str(metric.group) in settings.enable:
        return True
    return False if str(metric.group) in settings.disable else None
