"""What outlives the process: learned states of engines, and baselines of models."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Final, Literal, NamedTuple, TypeVar
from weakref import WeakValueDictionary

from pydantic import Field

from spec_decode_exporter.core.numbers import UnixTime
from spec_decode_exporter.costs.baseline import Baseline
from spec_decode_exporter.costs.learned import LearnedState

VERSION: Final = 3
MAX_STATES: Final = 2000
MAX_BASELINES: Final = 512
STATE_SECONDS: Final = 7 * 86_400.0
BASELINE_SECONDS: Final = 90 * 86_400.0
"""Age from which on an entry is forgotten: hardware, version and traffic change."""
Key = TypeVar("Key")
Entry = TypeVar("Entry")


class EngineKey(NamedTuple):
    """Labels that identify an engine."""

    target: str
    model_name: str
    engine: str


class ModelKey(NamedTuple):
    """Model of a group of servers that share its baseline: a replaced pod leaves it to the next."""

    group: str
    model_name: str


WHERE_LABELS: Final = ("cluster", "namespace", "job")
"""Labels that different servers share: alone they name no group."""
SERVICE_LABELS: Final = ("deployment", "statefulset", "service", "app")
"""Labels that name a group of servers, and none of its processes."""
_POD_LABELS: Final = ("pod", "pod_name", "kubernetes_pod_name")
_RANDOM: Final = "[bcdfghjklmnpqrstvwxz2456789]{5}"
_POD_SUFFIX: Final = re.compile(
    rf"-(?=[a-z]*\d)[a-z0-9]{{5,10}}-[a-z0-9]{{5}}$|(?:-[a-z0-9]{{6,10}})?-{_RANDOM}$|-\d{{1,4}}$"
)
"""End of a pod's name: hash of a ReplicaSet and random letters, or the number in a StatefulSet."""


def group_of(labels: Mapping[str, str], name: str) -> str:
    """Return the group of a server: labels that name no process, and its pod's name without a random end.

    A pod without such an end counts as one of its job. The group is ``name``, that of the server, without a
    service and a pod: a job alone may scrape different machines.
    """
    found = {label: labels[label] for label in (*WHERE_LABELS, *SERVICE_LABELS) if labels.get(label)}
    pod = next(filter(None, map(labels.get, _POD_LABELS)), "")
    is_service, owner = not found.keys().isdisjoint(SERVICE_LABELS), _POD_SUFFIX.sub("", pod)
    if pod and not is_service and (owner != pod or "job" not in found):
        found["pod"] = owner
    return ",".join(f"{label}={value}" for label, value in found.items()) if pod or is_service else name


@dataclass(slots=True)
class RememberedEngine:
    """Learned state of an engine."""

    target: str
    model_name: str
    engine: str
    seen: UnixTime
    """Time of the engine's last poll."""
    learned: LearnedState


@dataclass(slots=True)
class RememberedBaseline:
    """Baseline of a model of a group."""

    group: str
    model_name: str
    baseline: Baseline


@dataclass(slots=True)
class StateDocument:
    """Content of the state file."""

    format: Literal["spec-decode-exporter state"] = "spec-decode-exporter state"
    version: Literal[3] = VERSION
    engines: Annotated[list[RememberedEngine], Field(max_length=MAX_STATES)] = field(default_factory=list)
    baselines: Annotated[list[RememberedBaseline], Field(max_length=MAX_BASELINES)] = field(
        default_factory=list
    )


class Remembered:
    """Learned states of engines, and baselines of models; of too many, those that were kept last."""

    def __init__(self) -> None:
        """Remember nothing yet."""
        self._engines: dict[EngineKey, RememberedEngine] = {}
        self._baselines: dict[ModelKey, RememberedBaseline] = {}
        self._used: WeakValueDictionary[ModelKey, Baseline] = WeakValueDictionary()
        """Baselines of monitored engines: one without a period takes no place among the others."""

    def engine(self, key: EngineKey, now: float) -> LearnedState | None:
        """Return the learned state of an engine; None if unknown, or too old at ``now`` (Unix time)."""
        saved = self._engines.get(key)
        return saved.learned if saved and now - saved.seen <= STATE_SECONDS else None

    def keep_engine(self, key: EngineKey, learned: LearnedState, seen: float) -> None:
        """Remember the learned state of an engine that was polled last at a Unix time."""
        _keep(self._engines, key, RememberedEngine(*key, seen, learned), MAX_STATES)

    def baseline(self, key: ModelKey) -> Baseline:
        """Return the baseline of a model, which the engines of its group share."""
        baseline = self._known_baseline(key) or Baseline()
        self._used[key] = baseline
        return baseline

    def keep_baseline(self, key: ModelKey, baseline: Baseline) -> None:
        """Remember a baseline, unless it is empty."""
        if baseline.end:
            _keep(self._baselines, key, RememberedBaseline(*key, baseline), MAX_BASELINES)

    def recall(self, state: StateDocument) -> None:
        """Add what a file has about unknown engines and models."""
        for engine in state.engines:
            key = EngineKey(engine.target, engine.model_name, engine.engine)
            if key not in self._engines:
                self.keep_engine(key, engine.learned, engine.seen)
        for saved in state.baselines:
            model = ModelKey(saved.group, saved.model_name)
            known = self._known_baseline(model)
            if known is None or (not known.end and known.adopt(saved.baseline)):
                self.keep_baseline(model, known or saved.baseline)

    def state(self, now: float) -> StateDocument:
        """Return what to save at ``now`` (Unix time), without what is too old."""
        return StateDocument(
            engines=[each for each in self._engines.values() if now - each.seen <= STATE_SECONDS],
            baselines=[
                each for each in self._baselines.values() if now - each.baseline.end <= BASELINE_SECONDS
            ],
        )

    def _known_baseline(self, key: ModelKey) -> Baseline | None:
        saved = self._baselines.get(key)
        return saved.baseline if saved else self._used.get(key)


def _keep(entries: dict[Key, Entry], key: Key, entry: Entry, most: int) -> None:
    """Put an entry at the end; drop the first one of too many."""
    entries.pop(key, None)
    entries[key] = entry
    if len(entries) > most:
        del entries[next(iter(entries))]
