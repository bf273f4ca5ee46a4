"""Learned state of engines by labels, and baselines, for restarts of the exporter and absences of servers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

import structlog

from spec_decode_exporter.monitor.persistence.remembered_baselines import RememberedBaselines
from spec_decode_exporter.scrape.page.layout_map import MAX_ENGINES

REMEMBERED_SECONDS: Final = 7 * 86_400.0
"""Seconds of absence after which an engine is forgotten."""
MAX_REMEMBERED: Final = 2000
"""Maximum number of engines, of 5 to 9 kB each: the state file must stay small enough to be read."""
MAX_PER_TARGET: Final = MAX_ENGINES
"""Maximum number of engines of one target, so that ever new names take no place of other targets."""
MAX_KEY_LENGTH: Final = 256
"""Maximum characters of an engine's labels; an engine with longer labels is not remembered."""

_Entry: TypeAlias = tuple[float, dict[str, Any]]
"""Unix time of the engine's last poll, and its learned state."""

_log = structlog.get_logger(__name__)


class EngineKey(NamedTuple):
    """Labels that identify an engine."""

    target: str
    model_name: str
    engine: str


class RememberedEngines:
    """Learned state of engines by labels."""

    def __init__(self) -> None:
        self._targets: dict[str, dict[EngineKey, _Entry]] = {}
        """By target, oldest entry first."""
        self._number = 0
        self._too_many = False
        self.baselines = RememberedBaselines()

    def recall(self, saved: Mapping[str, Any]) -> None:
        """Add the result of an earlier ``saved``, for unknown engines; omit invalid entries."""
        entries = saved.get("engines")
        for entry in entries[:MAX_REMEMBERED] if isinstance(entries, list) else ():
            try:
                key = EngineKey(*(str(entry[name]) for name in EngineKey._fields))
                known = float(entry["seen"]), dict(entry["learnt"])
            except (KeyError, TypeError, ValueError):
                continue
            if self.known(key) is None:
                self.keep(key, known[1], known[0])
        self.baselines.recall(saved.get("baselines"))

    def keep(self, key: EngineKey, learned: dict[str, Any], seen: float) -> None:
        """Keep the learned state of an engine with its last poll (Unix time), unless its labels are too long.

        A target keeps at most as many engines as are monitored, the newest ones. The limit is here, since
        ``saved`` is not called without a state file.
        """
        if sum(map(len, key)) > MAX_KEY_LENGTH:
            return
        engines = self._targets.setdefault(key.target, {})
        self._number -= len(engines)
        engines.pop(key, None)
        engines[key] = seen, learned
        if len(engines) > MAX_PER_TARGET:
            del engines[next(iter(engines))]
        self._number += len(engines)
        if self._number > MAX_REMEMBERED + MAX_PER_TARGET:
            self._forget_surplus()

    def known(self, key: EngineKey) -> dict[str, Any] | None:
        """Return the learned state of an engine; None if unknown."""
        entry = self._targets.get(key.target, {}).get(key)
        return None if entry is None else entry[1]

    def saved(self, now: float) -> dict[str, Any]:
        """Return all entries that are not too old at ``now`` (Unix time), as plain values for JSON."""
        self._forget([key for key, entry in self._entries() if now - entry[0] > REMEMBERED_SECONDS])
        self._forget_surplus()
        return {
            "engines": [
                {**key._asdict(), "seen": seen, "learnt": learned} for key, (seen, learned) in self._entries()
            ],
            "baselines": self.baselines.saved(now),
        }

    def _entries(self) -> Iterator[tuple[EngineKey, _Entry]]:
        for engines in self._targets.values():
            yield from engines.items()

    def _forget(self, keys: Iterable[EngineKey]) -> None:
        for key in keys:
            engines = self._targets[key.target]
            del engines[key]
            self._number -= 1
            if not engines:
                del self._targets[key.target]

    def _forget_surplus(self) -> None:
        """Forget the engines with the oldest polls; log it once until there is no surplus."""
        surplus = self._number - MAX_REMEMBERED
        by_age = sorted(self._entries(), key=lambda item: item[1][0])
        self._forget(key for key, _ in by_age[: max(surplus, 0)])
        if surplus > 0 and not self._too_many:
            _log.warning("baselines_forgotten", forgotten=surplus, most_kept=MAX_REMEMBERED)
        self._too_many = surplus > 0
