"""What outlives the process: learned states of engines and baselines of models, in one JSON document.

The file is replaced atomically; one that does not validate is discarded whole.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Annotated, Final, Literal, TypeVar
from weakref import WeakValueDictionary

import structlog
from pydantic import Field, TypeAdapter, ValidationError

from spec_decode_exporter.config.schema import StateSettings
from spec_decode_exporter.core.clock import Clock
from spec_decode_exporter.core.files import read_bounded, replace_file
from spec_decode_exporter.core.numbers import UnixTime
from spec_decode_exporter.core.recurring import OnceUntilRecovered
from spec_decode_exporter.core.tasks import STATE, Pace
from spec_decode_exporter.costs.baseline import Baseline
from spec_decode_exporter.costs.learned import LearnedState

VERSION: Final = 3
MAX_STATES: Final = 2000
MAX_BASELINES: Final = 512
STATE_SECONDS: Final = 7 * 86_400.0
BASELINE_SECONDS: Final = 90 * 86_400.0  # age of a forgotten entry: hardware, version and traffic change
MAX_BYTES: Final = 32 * 2**20
MAX_CONTAINERS: Final = 500_000  # lists and objects, read before anything is validated; an engine has 100
_SLICE: Final = 20  # entries between two yields to the event loop: one takes 0.2 to 1 ms
EngineKey = tuple[str, str, str]  # labels ``target``, ``model_name`` and ``engine``
ModelKey = tuple[str, str]
"""Group of servers and its model, whose baseline they share: a replaced pod leaves it to the next."""
Key = TypeVar("Key")
Entry = TypeVar("Entry")
_log = structlog.get_logger(__name__)

WHERE_LABELS: Final = (
    "cluster",
    "namespace",
    "job",
)  # of different servers: alone they name no group
SERVICE_LABELS: Final = ("deployment", "statefulset", "service", "app")  # of a group, not of a process
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
    seen: UnixTime  # time of the engine's last poll
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
            key = engine.target, engine.model_name, engine.engine
            if key not in self._engines:
                self.keep_engine(key, engine.learned, engine.seen)
        for saved in state.baselines:
            model = saved.group, saved.model_name
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


class StateFile:
    """State file. Errors of the disk raise nothing; their begin and end are logged.

    Both calls block on the disk: call them in a thread, one at a time, and ``load`` first.
    """

    def __init__(self, path: Path) -> None:
        """Use the file at ``path``; of a symbolic link, its destination."""
        self.path = path
        self._damage = ""
        """Reason to set the present file aside instead of replacing it; empty if there is none."""
        self._failures = OnceUntilRecovered()

    @property
    def problem(self) -> str:
        """Sentence about the last save for the page, if it failed; else empty."""
        text = "The state file cannot be written: {}. After a restart, baselines are lost."
        return text.format(self._failures.reason) if self._failures.reason else ""

    def load(self) -> StateDocument:
        """Return the state; an empty one if there is no file, or if it does not validate.

        Such a file is renamed to ``<name>.corrupt``, which replaces an earlier one of that name.
        """
        try:
            return parsed_state(read_bounded(self.path, MAX_BYTES))
        except FileNotFoundError:
            pass
        except (OSError, ValueError) as error:
            self._damage = _reason(error)
        self.save(document([], []))  # a place that cannot be written is logged at the start
        return StateDocument()

    def save(self, content: bytes) -> None:
        """Replace the file."""
        try:
            place = Path(os.path.realpath(self.path))
            if place.exists() and not place.is_file():
                raise OSError("it is not a plain file")  # noqa: TRY301  its reason is logged as any other
            self._set_aside(place)
            replace_file(place, content)
        except (OSError, ValueError) as error:
            if self._failures.failed(reason := _reason(error)):
                _log.warning("state_file_not_written", file=str(self.path), reason=reason)
        else:
            if self._failures.recovered():
                _log.info("state_file_written_again", file=str(self.path))

    def _set_aside(self, place: Path) -> None:
        """Rename a damaged file: it may be the wrong one."""
        if self._damage:
            aside = place.with_name(f"{place.name}.corrupt")
            with suppress(FileNotFoundError):
                place.replace(aside)
                fields = {"file": str(self.path), "kept_as": str(aside), "reason": self._damage}
                _log.warning("state_file_set_aside", **fields)
            self._damage = ""


class StateSaver:
    """Loads the state file, if one is configured, and saves it periodically and at the end."""

    def __init__(self, remembered: Remembered, clock: Clock, remember: Callable[[], None]) -> None:
        """Save what is remembered; ``remember`` adds the present states of the engines."""
        self._remembered, self._clock, self._remember = remembered, clock, remember
        self._settings = StateSettings()
        self.file: StateFile | None = None  # state file; None without one
        self._disk = asyncio.Lock()

    async def use(self, settings: StateSettings) -> None:
        """Use these settings from now on; load the file if it is another one."""
        async with self._disk:
            self._settings, path = settings, settings.file
            if path != (self.file and self.file.path):
                self.file = StateFile(path) if path else None
                if self.file:
                    self._remembered.recall(await STATE.run(self.file.load))

    async def save_for_ever(self) -> None:
        """Save periodically, as configured."""
        while True:
            await self._clock.sleep_until(self._clock.monotonic() + self._settings.interval)
            await self.save()

    async def save(self) -> None:
        """Save the learned states. After a cancellation the thread still writes: there is one writer."""
        await asyncio.shield(self._write())

    async def _write(self) -> None:
        async with self._disk:
            if self.file:  # without one, the states of a thousand engines would take 9 MB for nothing
                self._remember()
                state = self._remembered.state(self._clock.wall())
                engines, baselines = await _texts(state.engines), await _texts(state.baselines)
                await STATE.run(self.file.save, document(engines, baselines))


async def _texts(entries: Iterable[RememberedEngine | RememberedBaseline]) -> list[bytes]:
    texts, pace = list[bytes](), Pace(_SLICE)
    for entry in entries:
        texts += entry_json(entry)
        await pace.done()
    return texts


@cache
def _adapters() -> tuple[TypeAdapter[StateDocument], TypeAdapter[RememberedEngine | RememberedBaseline]]:
    """Return the validators of documents and of entries, which an exporter without a file does not build."""
    return TypeAdapter(StateDocument), TypeAdapter(RememberedEngine | RememberedBaseline)


def parsed_state(content: bytes) -> StateDocument:
    """Return the state in a document.

    Raises:
        ValueError: It does not validate; the text says why.
    """
    if content.count(b"[") + content.count(b"{") > MAX_CONTAINERS:
        raise ValueError(f"it has more than {MAX_CONTAINERS} lists and objects")
    try:
        return _adapters()[0].validate_json(content)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise ValueError(f"{place}: {first['msg']}".removeprefix(": ")[:100]) from None


def entry_json(entry: RememberedEngine | RememberedBaseline) -> list[bytes]:
    """Return an entry as JSON; none if it would not validate again, as with half a surrogate in a label."""
    adapter = _adapters()[1]
    with suppress(ValueError):
        text = adapter.dump_json(entry, exclude_defaults=True)
        adapter.validate_json(text)
        return [text]
    return []


def document(engines: list[bytes], baselines: list[bytes]) -> bytes:
    """Return the document of entries, of 6 to 20 kB each; of too many bytes, without the first engines."""
    while engines and sum(map(len, (*engines, *baselines))) > MAX_BYTES - 2**20:  # commas take less
        del engines[:100]
    text = b'{"format":"spec-decode-exporter state","version":%d,"engines":[%s],"baselines":[%s]}\n'
    return text % (VERSION, b",".join(engines), b",".join(baselines))


def _reason(error: Exception) -> str:
    return (isinstance(error, OSError) and error.strerror) or str(error)
