"""Saves the learned state of engines to the state file, periodically and at the end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import structlog

from spec_decode_exporter.core.clock import Clock
from spec_decode_exporter.core.once_until_recovered import OnceUntilRecovered
from spec_decode_exporter.core.thread_pool import STATE
from spec_decode_exporter.monitor.persistence.remembered_engines import RememberedEngines
from spec_decode_exporter.monitor.persistence.state_file import StateFile

_log = structlog.get_logger()


class StatePersister:
    """Loads and saves the state file, if one is configured."""

    def __init__(self, remembered: RememberedEngines, clock: Clock, collect: Callable[[], None]) -> None:
        """``collect`` hands over the learned state of the engines to ``remembered``."""
        self._remembered = remembered
        self._clock = clock
        self._collect = collect
        self._file: StateFile | None = None
        self._disk = asyncio.Lock()
        self._failures = OnceUntilRecovered()

    @property
    def path(self) -> Path | None:
        """Path of the state file; None without one."""
        return self._file.path if self._file else None

    def begin(self, path: Path | None) -> None:
        """Load the state file; it blocks on the disk, so call it before the event loop has other work."""
        if path is not None:
            self._use(*_loaded(path))

    async def use(self, path: Path | None) -> None:
        """Use this file from now on; load it if it is another one."""
        async with self._disk:
            if path is None:
                self._file = None
            elif path != self.path:
                self._use(*await STATE.run(_loaded, path))

    async def save_for_ever(self, interval: Callable[[], float]) -> None:
        """Save periodically; ``interval`` returns the seconds until the next time."""
        while True:
            await self._clock.sleep_until(self._clock.monotonic() + interval())
            await self.save()

    async def save(self) -> None:
        """Save the learned state. It never raises; an internal error is logged once."""
        try:
            # After a cancellation the thread still writes and holds the lock: there is at most one writer.
            await asyncio.shield(self._write())
        except Exception:  # noqa: BLE001
            if self._failures.failed():
                _log.exception("saving_failed")
        else:
            self._failures.recovered()

    def _use(self, file: StateFile, saved: Mapping[str, Any]) -> None:
        self._file = file
        self._remembered.recall(saved)

    async def _write(self) -> None:
        async with self._disk:
            if self._file:  # without one, the state of a thousand engines would take 9 MB for nothing
                self._collect()
                await STATE.run(self._file.save, self._remembered.saved(self._clock.wall()))


def _loaded(path: Path) -> tuple[StateFile, Mapping[str, Any]]:
    file = StateFile(path)
    return file, file.load()
