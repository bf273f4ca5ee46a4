"""Keeps what the engines have learnt in a file, so that a restart of the exporter does not forget it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import structlog

from spec_decode_exporter.core.clock import Clock
from spec_decode_exporter.core.once_until_recovered import OnceUntilRecovered
from spec_decode_exporter.monitor.persistence.remembered_engines import RememberedEngines
from spec_decode_exporter.monitor.persistence.state_file import StateFile

_log = structlog.get_logger()


class StatePersister:
    """Saves now and then, where there is a file for it."""

    def __init__(self, baselines: RememberedEngines, clock: Clock, collect: Callable[[], None]) -> None:
        """``collect`` has the engines hand what they have learnt to the baselines."""
        self._baselines = baselines
        self._clock = clock
        self._collect = collect
        self._file: StateFile | None = None
        self._disk = asyncio.Lock()
        self._failures = OnceUntilRecovered()

    @property
    def path(self) -> Path | None:
        """Where it is kept; None if nowhere."""
        return self._file.path if self._file else None

    def begin(self, path: Path | None) -> None:
        """Recall what the file holds, before anything runs that could be held up by the disk."""
        if path is not None:
            self._use(*_loaded(path))

    async def use(self, path: Path | None) -> None:
        """Keep it in this file from now on, and recall what another one holds."""
        async with self._disk:
            if path is None:
                self._file = None
            elif path != self.path:
                self._use(*await asyncio.to_thread(_loaded, path))

    async def save_for_ever(self, interval: Callable[[], float]) -> None:
        """Save again and again; ``interval`` says after how many seconds, each time anew."""
        while True:
            await self._clock.sleep_until(self._clock.monotonic() + interval())
            await self.save()

    async def save(self) -> None:
        """Save what the engines have learnt. Whatever comes, this returns; a failure is in the log once."""
        try:
            # Who is cancelled here leaves the lock to the thread that writes on: there is one writer at most.
            await asyncio.shield(self._write())
        except Exception:  # noqa: BLE001
            if self._failures.failed():
                _log.exception("saving_failed")
        else:
            self._failures.recovered()

    def _use(self, file: StateFile, saved: Mapping[str, Any]) -> None:
        self._file = file
        self._baselines.recall(saved)

    async def _write(self) -> None:
        async with self._disk:
            self._collect()
            if self._file:
                await asyncio.to_thread(self._file.save, self._baselines.saved(self._clock.wall()))


def _loaded(path: Path) -> tuple[StateFile, Mapping[str, Any]]:
    file = StateFile(path)
    return file, file.load()
