"""What is known of engines from before: kept over restarts of the exporter, and while a server is away."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import structlog

REMEMBERED: Final = 7 * 86_400.0
"""An engine that was not seen for so many seconds is forgotten for good."""
MOST_KEPT: Final = 2000
"""The most engines. Each takes some 5 kB in a state file, which is never larger than what is read back."""
MOST_NAME: Final = 256
"""The most characters of an engine's names together: one with longer names is not remembered."""

_log = structlog.get_logger(__name__)


class Key(NamedTuple):
    """An engine, by the labels that name it."""

    target: str
    model_name: str
    engine: str


class Baselines:
    """What the engines have learnt, by their labels."""

    def __init__(self) -> None:
        self._entries: dict[Key, tuple[float, dict[str, Any]]] = {}
        self._too_many = False

    def recall(self, saved: Mapping[str, Any]) -> None:
        """Take what ``saved`` once returned, for engines of which nothing is known yet.

        What is not understood is left out.
        """
        entries = saved.get("engines")
        for entry in entries[:MOST_KEPT] if isinstance(entries, list) else ():
            try:
                key = Key(*(str(entry[name]) for name in Key._fields))
                known = float(entry["seen"]), dict(entry["learnt"])
            except (KeyError, TypeError, ValueError):
                continue
            if sum(map(len, key)) <= MOST_NAME:
                self._entries.setdefault(key, known)

    def keep(self, key: Key, learnt: dict[str, Any], seen: float) -> None:
        """Keep what an engine has learnt until ``seen``, Unix time, unless its names are too long."""
        if sum(map(len, key)) > MOST_NAME:
            return
        self._entries[key] = seen, learnt
        # Not only when they are saved: there may be no file, and targets that come and go every second.
        if len(self._entries) > 2 * MOST_KEPT:
            self._forget_surplus()

    def known(self, key: Key) -> dict[str, Any] | None:
        """Return what an engine had learnt, or None if nothing is known of it."""
        entry = self._entries.get(key)
        return None if entry is None else entry[1]

    def saved(self, now: float) -> dict[str, Any]:
        """Return everything that is not too old at ``now`` (Unix time), in a form that JSON can hold."""
        self._entries = {key: entry for key, entry in self._entries.items() if now - entry[0] <= REMEMBERED}
        self._forget_surplus()
        return {
            "engines": [
                {**key._asdict(), "seen": seen, "learnt": learnt}
                for key, (seen, learnt) in self._entries.items()
            ]
        }

    def _forget_surplus(self) -> None:
        """Forget the engines that were not seen for longest; the log says so when that begins."""
        surplus = len(self._entries) - MOST_KEPT
        for key in sorted(self._entries, key=lambda key: self._entries[key][0])[: max(surplus, 0)]:
            del self._entries[key]
        if surplus > 0 and not self._too_many:
            _log.warning("baselines_forgotten", forgotten=surplus, most_kept=MOST_KEPT)
        self._too_many = surplus > 0
