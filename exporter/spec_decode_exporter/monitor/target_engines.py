"""Monitored engines of one target: their labels, their admission, and their eviction."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from math import inf
from typing import Final

from spec_decode_exporter.core.capacity import Capacity
from spec_decode_exporter.core.event import Event
from spec_decode_exporter.discovery.target import Target
from spec_decode_exporter.monitor.admission import Admission
from spec_decode_exporter.monitor.engine_monitor import EngineMonitor
from spec_decode_exporter.monitor.evaluation_pace import evaluation_interval
from spec_decode_exporter.scrape.page.sample import EngineName, Sample

EVICTED_AFTER = 3600.0
"""Seconds after which an engine that is no longer on the page is evicted, with its counters."""
CHURN_SECONDS: Final = 600.0
"""Seconds for which churn is not logged again; new engines are not logged one by one during this time."""


class EngineChurn:
    """Engine churn of a target, logged once."""

    def __init__(self) -> None:
        self._churning_at = -inf

    def is_churning(self, now: float) -> bool:
        """Return whether engines were evicted early within ``CHURN_SECONDS`` before ``now`` (monotonic)."""
        return now - self._churning_at <= CHURN_SECONDS

    def evict(self, surplus: int, now: float, kept: int) -> list[Event]:
        """Note that ``surplus`` engines are evicted and ``kept`` stay; return the events to log."""
        if surplus <= 0:
            return []
        known = self.is_churning(now)
        self._churning_at = now
        fields: dict[str, object] = {
            "kept": kept,
            "remedy": "a label of the server's metrics takes ever new values: check model_name and engine",
        }
        return [] if known else [Event("engines_evicted", fields, is_bad=True)]


class TargetEngines:
    """Engine monitors of one target by name."""

    def __init__(self, target: Target, capacity: Capacity) -> None:
        """Take places from ``capacity``."""
        self._capacity = capacity
        self.monitors: dict[EngineName, EngineMonitor] = {}
        self.not_monitored = 0
        """Engines of the newest page beyond the limit."""
        self.churn = EngineChurn()
        self._admission = Admission(capacity, self._columns)
        self.configure(target)

    @property
    def target_labels(self) -> dict[str, str]:
        """Labels of the target: its name and its configured labels."""
        return {"target": self._target.name, **dict(self._target.labels)}

    def configure(self, target: Target) -> None:
        """Use the name and the labels of ``target``."""
        self._target = target
        self._admission.label(list(self.target_labels.values()))

    @property
    def evaluation_interval(self) -> float:
        """Seconds between two evaluations of an engine, by the engines of all targets."""
        return evaluation_interval(self._capacity.demanded)

    def admitted(self, samples: Mapping[EngineName, Sample], tokens: int) -> Mapping[EngineName, Sample]:
        """Return the samples of the engines that have a place; ``tokens`` is K if known, else 0."""
        return self._admission.admitted(self._target.key, samples, self.monitors.keys(), tokens)

    def limit_events(self, number: int, kept: int) -> list[Event]:
        """Note that ``number`` engines have no place; return the event once until all have one."""
        is_new = bool(number) and not self.not_monitored
        self.not_monitored = number
        if not is_new:
            return []
        fields: dict[str, object] = {
            "engines": number,
            "kept": kept,
            "remedy": "raise limits.engines and the memory limit of the container",
        }
        return [Event("engines_not_monitored", fields, is_bad=True)]

    def evict(self, now: float, remember: Callable[[EngineName], None]) -> list[Event]:
        """Evict engines that left the page long ago, and the oldest if the server creates too many.

        ``remember`` keeps the learned state of one before it is gone.
        """
        by_age = sorted(self.monitors, key=lambda name: self.monitors[name].history.last_seen)
        surplus = self._admission.surplus(by_age)
        for place, name in enumerate(by_age):
            if place < surplus or now - self.monitors[name].history.last_seen > EVICTED_AFTER:
                remember(name)
                del self.monitors[name]
        return self.churn.evict(surplus, now, len(self.monitors))

    def labelled(self) -> dict[tuple[str, str], EngineMonitor]:
        """Return the engine for each pair of the labels ``model_name`` and ``engine``.

        A server that no longer names its model, or now does, may show an engine under labels of an earlier
        one. Then the labels belong to the newest: no page may contain a series twice.
        """
        labelled: dict[tuple[str, str], EngineMonitor] = {}
        for name, engine in self.monitors.items():
            labels = self.labels_of(name)
            other = labelled.get(labels)
            if other is None or other.history.last_seen <= engine.history.last_seen:
                labelled[labels] = engine
        return labelled

    def shown(self) -> Iterator[tuple[dict[str, str], EngineMonitor]]:
        """Yield all labels of every engine."""
        own = dict(self._target.labels)
        for (model_name, number), engine in self.labelled().items():
            yield {"target": self._target.name, "model_name": model_name, "engine": number, **own}, engine

    def labels_of(self, name: EngineName) -> tuple[str, str]:
        """Return the labels ``model_name`` and ``engine``; by default the target's name and 0."""
        return name.model_name or self._target.name, name.engine or "0"

    def _columns(self, name: EngineName) -> int:
        """Return the draft positions of an engine so far; 0 if it is not monitored."""
        engine = self.monitors.get(name)
        return engine.history.most_tokens if engine else 0
