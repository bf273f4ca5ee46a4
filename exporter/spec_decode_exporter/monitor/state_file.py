"""State file: one JSON document, replaced atomically; one that does not validate is discarded whole."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Final

import structlog
from pydantic import TypeAdapter, ValidationError

from spec_decode_exporter.core.files import read_bounded, replace_file
from spec_decode_exporter.core.recurring import OnceUntilRecovered
from spec_decode_exporter.core.tasks import STATE, Pace
from spec_decode_exporter.monitor.fleet import Fleet
from spec_decode_exporter.monitor.state import VERSION, RememberedBaseline, RememberedEngine, StateDocument

MAX_BYTES: Final = 32 * 2**20
MAX_CONTAINERS: Final = 500_000
"""Maximum lists and objects, which take memory before anything is validated; an engine has about 100."""
_SLICE: Final = 20
"""Entries between two yields to the event loop: one takes 0.2 to 1 ms."""
Entry = RememberedEngine | RememberedBaseline
_log = structlog.get_logger(__name__)


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

    def __init__(self, fleet: Fleet) -> None:
        """Save the learned states of the engines of ``fleet``."""
        self._fleet, self._clock, self._remembered = fleet, fleet.shared.clock, fleet.shared.remembered
        self.file: StateFile | None = None
        """State file; None without one."""
        self._disk = asyncio.Lock()

    async def use(self, path: Path | None) -> None:
        """Use this file from now on; load it if it is another one."""
        async with self._disk:
            if path != (self.file and self.file.path):
                self.file = StateFile(path) if path else None
                if self.file:
                    self._remembered.recall(await STATE.run(self.file.load))

    async def save_for_ever(self) -> None:
        """Save periodically, as configured."""
        while True:
            await self._clock.sleep_until(self._clock.monotonic() + self._fleet.config.state.interval)
            await self.save()

    async def save(self) -> None:
        """Save the learned states. After a cancellation the thread still writes: there is one writer."""
        await asyncio.shield(self._write())

    async def _write(self) -> None:
        async with self._disk:
            if self.file:  # without one, the states of a thousand engines would take 9 MB for nothing
                self._fleet.remember()
                state = self._remembered.state(self._clock.wall())
                engines, baselines = await _texts(state.engines), await _texts(state.baselines)
                await STATE.run(self.file.save, document(engines, baselines))


async def _texts(entries: Iterable[Entry]) -> list[bytes]:
    texts, pace = list[bytes](), Pace(_SLICE)
    for entry in entries:
        texts += entry_json(entry)
        await pace.done()
    return texts


@cache
def _adapters() -> tuple[TypeAdapter[StateDocument], TypeAdapter[Entry]]:
    """Return the validators of documents and of entries, which an exporter without a file does not build."""
    return TypeAdapter(StateDocument), TypeAdapter(Entry)


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


def entry_json(entry: Entry) -> list[bytes]:
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
