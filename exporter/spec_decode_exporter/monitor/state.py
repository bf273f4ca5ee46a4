"""State that outlives the process: learned states of engines and baselines of models, in one file."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Final, Generic, Literal, NamedTuple, TypeAlias, TypeVar
from weakref import WeakValueDictionary

import structlog
from pydantic import AliasChoices, Field, TypeAdapter, ValidationError

from spec_decode_exporter.core.clock import Clock
from spec_decode_exporter.core.numbers import UnixTime
from spec_decode_exporter.core.recurring import OnceUntilRecovered
from spec_decode_exporter.core.tasks import STATE, Pace
from spec_decode_exporter.costs.baseline import Baseline
from spec_decode_exporter.costs.learned import LearnedState
from spec_decode_exporter.monitor.state_file import MAX_BYTES, StateFile
from spec_decode_exporter.scrape.sample import MAX_ENGINES

_MAX_LINES_BYTES: Final = MAX_BYTES - 2**16
"""Maximum size of all lines; the header and line ends take the rest."""
MAX_ENTRY_BYTES: Final = 64 * 2**10
"""Maximum size of a line; an entry has 6 to 20 kB."""
MAX_KEY_LENGTH: Final = 256
"""Maximum characters of the labels of an engine or a model; with longer ones it is not remembered."""
MAX_STATES: Final = 2000
MAX_BASELINES: Final = 512
MAX_BASELINES_OF_TARGET: Final = 16
STATE_SECONDS: Final = 7 * 86_400.0
BASELINE_SECONDS: Final = 90 * 86_400.0
"""Age from which on an entry is forgotten: hardware, version and traffic change."""
_CLOCK_SECONDS: Final = 86_400.0
"""Time by which a clock may have been set back."""
_SLICE: Final = 20
"""Entries between two yields to the event loop: one takes 0.2 to 1 ms."""
_MAX_SHOWN: Final = 100

_Label = Annotated[str, Field(max_length=MAX_KEY_LENGTH)]
_log = structlog.get_logger(__name__)


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
    """Return the group of a server: labels that name no process, and its pod's name without the random end.

    It is ``name``, that of the server, without a service and a pod: a job alone may scrape different servers.
    """
    found = {label: labels[label] for label in (*WHERE_LABELS, *SERVICE_LABELS) if labels.get(label)}
    pod = next(filter(None, map(labels.get, _POD_LABELS)), "")
    if pod and found.keys().isdisjoint(SERVICE_LABELS):
        found["pod"] = _POD_SUFFIX.sub("", pod)
    is_named = pod or not found.keys().isdisjoint(SERVICE_LABELS)
    return ",".join(f"{label}={value}" for label, value in found.items()) if is_named else name


Key = TypeVar("Key", EngineKey, ModelKey)
Value = TypeVar("Value")


class Store(Generic[Key, Value]):
    """Remembers values by labels: the newest of each target or group, of all, and none that is too old."""

    def __init__(self, most: int, most_of_target: int, seconds: float) -> None:
        """Remember at most ``most`` values, ``most_of_target`` of one target, for ``seconds``."""
        self._most, self._most_of_target, self._seconds = most, most_of_target, seconds
        self._kept: dict[Key, tuple[float, Value]] = {}
        """Unix time and value; the one that was kept last is the last one."""
        self._of_target: dict[str, dict[Key, None]] = {}
        self.surplus = 0
        """Values that were forgotten because there were more than ``most``."""

    def keep(self, key: Key, value: Value, seen: float) -> None:
        """Remember a value that was seen at a Unix time, unless its labels are too long."""
        if sum(map(len, key)) > MAX_KEY_LENGTH:
            return
        if key in self._kept:
            self._forget(key)
        self._kept[key] = seen, value
        own = self._of_target.setdefault(key[0], {})
        own[key] = None
        if len(own) > self._most_of_target:
            self._forget(next(iter(own)))
        if len(self._kept) > self._most:
            self._forget(next(iter(self._kept)))
            self.surplus += 1

    def known(self, key: Key, now: float | None = None) -> Value | None:
        """Return the remembered value; None if unknown, or too old at ``now`` (Unix time)."""
        seen, value = self._kept.get(key, (0.0, None))
        return value if now is None or self._counts(seen, now) else None

    def items(self, now: float) -> list[tuple[Key, float, Value]]:
        """Forget what is too old, or of a future day, at ``now`` (Unix time); return the rest."""
        for key in [key for key, (seen, _) in self._kept.items() if not self._counts(seen, now)]:
            self._forget(key)
        return [(key, seen, value) for key, (seen, value) in self._kept.items()]

    def _counts(self, seen: float, now: float) -> bool:
        return -_CLOCK_SECONDS <= now - seen <= self._seconds

    def _forget(self, key: Key) -> None:
        del self._kept[key]
        own = self._of_target[key[0]]
        del own[key]
        if not own:
            del self._of_target[key[0]]


@dataclass(slots=True)
class EngineEntry:
    """Learned state of an engine in the file."""

    kind: Literal["engine"]
    target: _Label
    model_name: _Label
    engine: _Label
    seen: UnixTime
    """Time of the engine's last poll."""
    learned: LearnedState


@dataclass(slots=True)
class BaselineEntry:
    """Baseline of a model of a group in the file."""

    kind: Literal["baseline"]
    group: Annotated[_Label, Field(validation_alias=AliasChoices("group", "target"))]
    model_name: _Label
    baseline: Baseline


Entry: TypeAlias = Annotated[EngineEntry | BaselineEntry, Field(discriminator="kind")]


@cache
def _adapter() -> TypeAdapter[Entry]:
    """Return the validator of entries, which an exporter without a file does not build."""
    return TypeAdapter(Entry)


class Remembered:
    """Learned states of engines, and baselines of models."""

    def __init__(self) -> None:
        """Remember nothing yet."""
        self.engines: Store[EngineKey, LearnedState] = Store(MAX_STATES, MAX_ENGINES, STATE_SECONDS)
        self.baselines: Store[ModelKey, Baseline] = Store(
            MAX_BASELINES, MAX_BASELINES_OF_TARGET, BASELINE_SECONDS
        )
        self._used: WeakValueDictionary[ModelKey, Baseline] = WeakValueDictionary()
        """Baselines of monitored engines: one without a period takes no place in the store."""

    def baseline(self, key: ModelKey) -> Baseline:
        """Return the baseline of a model, which the engines of its group share."""
        baseline = self.baselines.known(key) or self._used.get(key) or Baseline()
        self._used[key] = baseline
        return baseline

    def keep_baseline(self, key: ModelKey, baseline: Baseline) -> None:
        """Remember a baseline, unless it is empty."""
        if baseline.end:
            self.baselines.keep(key, baseline, baseline.end)

    def recall(self, entries: Iterable[Entry]) -> None:
        """Add the entries of a file, for unknown labels."""
        for entry in entries:
            if isinstance(entry, EngineEntry):
                engine = EngineKey(entry.target, entry.model_name, entry.engine)
                if self.engines.known(engine) is None:
                    self.engines.keep(engine, entry.learned, entry.seen)
            else:
                self._recall_baseline(ModelKey(entry.group, entry.model_name), entry.baseline)

    def entries(self, now: float) -> Iterator[Entry]:
        """Yield the entries for the file at ``now`` (Unix time)."""
        engines, baselines = self.engines.items(now), self.baselines.items(now)
        yield from (EngineEntry("engine", *key, seen, learned) for key, seen, learned in engines)
        yield from (BaselineEntry("baseline", *key, baseline) for key, _, baseline in baselines)

    def _recall_baseline(self, key: ModelKey, saved: Baseline) -> None:
        known = self.baselines.known(key) or self._used.get(key)
        if known is None or (not known.end and known.adopt(saved)):
            self.keep_baseline(key, known or saved)


def line_of(entry: Entry) -> bytes | None:
    """Return the line of an entry; None if it is too long, or has a character that UTF-8 lacks."""
    try:
        line = _adapter().dump_json(entry, exclude_defaults=True)
    except ValueError:
        return None
    return line if len(line) <= MAX_ENTRY_BYTES else None


def entry_of(line: bytes) -> Entry:
    """Return the entry of a line.

    Raises:
        ValueError: It is none; the text says why.
    """
    if len(line) > MAX_ENTRY_BYTES:
        raise ValueError("it is too long")
    try:
        return _adapter().validate_json(line)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise ValueError(f"{place}: {first['msg']}".removeprefix(": ")[:_MAX_SHOWN]) from None


class StateSaver:
    """Loads the state file, if one is configured, and saves it periodically and at the end."""

    def __init__(self, remembered: Remembered, clock: Clock, collect: Callable[[], None]) -> None:
        """``collect`` hands over the learned states of the engines to ``remembered``."""
        self._remembered, self._clock, self._collect = remembered, clock, collect
        self.file: StateFile[Entry] | None = None
        """State file; None without one."""
        self._disk = asyncio.Lock()
        self._failures, self._losses = OnceUntilRecovered(), OnceUntilRecovered()

    def begin(self, path: Path | None) -> None:
        """Load the state file; it blocks on the disk, so call it before the event loop has other work."""
        if path is not None:
            self._use(*_loaded(path))

    async def use(self, path: Path | None) -> None:
        """Use this file from now on; load it if it is another one."""
        async with self._disk:
            if path is None:
                self.file = None
            elif self.file is None or path != self.file.path:
                self._use(*await STATE.run(_loaded, path))

    async def save_for_ever(self, interval: Callable[[], float]) -> None:
        """Save periodically; ``interval`` returns the seconds until the next time."""
        while True:
            await self._clock.sleep_until(self._clock.monotonic() + interval())
            await self.save()

    async def save(self) -> None:
        """Save the learned states. It never raises; an internal error is logged once."""
        try:
            # After a cancellation the thread still writes and holds the lock: there is at most one writer.
            await asyncio.shield(self._write())
        except Exception:  # noqa: BLE001
            if self._failures.failed():
                _log.exception("saving_failed")
        else:
            self._failures.recovered()

    def _use(self, file: StateFile[Entry], entries: Sequence[Entry]) -> None:
        self.file = file
        self._remembered.recall(entries)

    async def _write(self) -> None:
        async with self._disk:
            if self.file:  # without one, the states of a thousand engines would take 9 MB for nothing
                self._collect()
                await STATE.run(self.file.save, await self._lines())

    async def _lines(self) -> Sequence[bytes]:
        """Return the lines of all entries that fit; log once that some do not."""
        lines, size, pace = list[bytes](), 0, Pace(_SLICE)
        forgotten, self._remembered.engines.surplus = self._remembered.engines.surplus, 0
        for entry in self._remembered.entries(self._clock.wall()):
            line = line_of(entry)
            size += len(line or b"")
            if line is None or size > _MAX_LINES_BYTES:
                forgotten += 1
            else:
                lines.append(line)
            await pace.done()
        if not forgotten:
            self._losses.recovered()
        elif self._losses.failed():
            _log.warning("baselines_forgotten", forgotten=forgotten, most_kept=MAX_STATES)
        return lines


def _loaded(path: Path) -> tuple[StateFile[Entry], list[Entry]]:
    file = StateFile(path, entry_of)
    return file, file.load()
