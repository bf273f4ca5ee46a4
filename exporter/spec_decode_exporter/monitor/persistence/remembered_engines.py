"""What is known of engines from before: kept over restarts of the exporter, and while a server is away."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

import structlog

from spec_decode_exporter.scrape.page.layout_map import MOST_ENGINES

REMEMBERED: Final = 7 * 86_400.0
"""An engine that was not seen for so many seconds is forgotten for good."""
MOST_KEPT: Final = 2000
"""The most engines. Each takes some 5 kB in a state file, which is never larger than what is read back."""
MOST_OF_TARGET: Final = MOST_ENGINES
"""The most engines of one target: one with ever new names takes no place of others."""
MOST_NAME: Final = 256
"""The most characters of an engine's names together: one with longer names is not remembered."""

_Entry: TypeAlias = tuple[float, dict[str, Any]]
"""When the engine was seen last (Unix time), and what it had learnt."""

_log = structlog.get_logger(__name__)


class Key(NamedTuple):
    """An engine, by the labels that name it."""

    target: str
    model_name: str
    engine: str


class RememberedEngines:
    """What the engines have learnt, by their labels."""

    def __init__(self) -> None:
        self._targets: dict[str, dict[Key, _Entry]] = {}
        """By target, in the order in which they were kept."""
        self._number = 0
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
            if self.known(key) is None:
                self.keep(key, known[1], known[0])

    def keep(self, key: Key, learned: dict[str, Any], seen: float) -> None:
        """Keep what an engine has learnt until ``seen``, Unix time, unless its names are too long.

        A target has as many engines as are watched of it at most: those kept last. It is limited here, since
        ``saved`` is not called without a state file.
        """
        if sum(map(len, key)) > MOST_NAME:
            return
        engines = self._targets.setdefault(key.target, {})
        self._number -= len(engines)
        engines.pop(key, None)
        engines[key] = seen, learned
        if len(engines) > MOST_OF_TARGET:
            del engines[next(iter(engines))]
        self._number += len(engines)
        if self._number > MOST_KEPT + MOST_OF_TARGET:
            self._forget_surplus()

    def known(self, key: Key) -> dict[str, Any] | None:
        """Return what an engine had learnt, or None if nothing is known of it."""
        entry = self._targets.get(key.target, {}).get(key)
        return None if entry is None else entry[1]

    def saved(self, now: float) -> dict[str, Any]:
        """Return everything that is not too old at ``now`` (Unix time), in a form that JSON can hold."""
        self._forget([key for key, entry in self._entries() if now - entry[0] > REMEMBERED])
        self._forget_surplus()
        return {
            "engines": [
                {**key._asdict(), "seen": seen, "learnt": learned} for key, (seen, learned) in self._entries()
            ]
        }

    def _entries(self) -> Iterator[tuple[Key, _Entry]]:
        for engines in self._targets.values():
            yield from engines.items()

    def _forget(self, keys: Iterable[Key]) -> None:
        for key in keys:
            engines = self._targets[key.target]
            del engines[key]
            self._number -= 1
            if not engines:
                del self._targets[key.target]

    def _forget_surplus(self) -> None:
        """Forget the engines that were not seen for longest; the log says so when that begins."""
        surplus = self._number - MOST_KEPT
        by_age = sorted(self._entries(), key=lambda item: item[1][0])
        self._forget(key for key, _ in by_age[: max(surplus, 0)])
        if surplus > 0 and not self._too_many:
            _log.warning("baselines_forgotten", forgotten=surplus, most_kept=MOST_KEPT)
        self._too_many = surplus > 0
