"""Baselines without speculation by target and model, for restarts of the exporter and of servers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple
from weakref import WeakValueDictionary

from spec_decode_exporter.monitor.learned_baseline import LearnedBaseline

KEPT_SECONDS: Final = 90 * 86_400.0
"""Age from which on a baseline is forgotten: hardware, version and traffic change."""
MAX_BASELINES: Final = 512
"""Maximum number of baselines, of about 6 kB each in the state file; those that ended first leave."""
MAX_MODELS: Final = 16
"""Maximum number of baselines of one target, so that ever new names take no place of other targets."""
MAX_KEY_LENGTH: Final = 256
"""Maximum characters of target and model; the baseline of longer names is not kept."""
_FORMAT: Final = 1
"""Version of the entries."""
_CLOCK_SECONDS: Final = 86_400.0
"""Time by which a clock may have been set back since a baseline ended."""


class BaselineKey(NamedTuple):
    """Name of a baseline."""

    target: str
    model_name: str


class RememberedBaselines:
    """Baselines by target and model."""

    def __init__(self) -> None:
        self._used: WeakValueDictionary[BaselineKey, LearnedBaseline] = WeakValueDictionary()
        """Baselines of monitored engines."""
        self._kept: dict[str, dict[BaselineKey, LearnedBaseline]] = {}
        """By target, those that are persisted."""

    def of(self, key: BaselineKey) -> LearnedBaseline:
        """Return the baseline of a model on a target, which its engines learn and use."""
        baseline = self._kept.get(key.target, {}).get(key) or self._used.get(key)
        if baseline is None:
            baseline = self._used[key] = LearnedBaseline()
        return baseline

    def keep(self, key: BaselineKey, baseline: LearnedBaseline) -> None:
        """Keep a baseline for persistence, unless it is empty or its names are too long."""
        if not baseline.end or sum(map(len, key)) > MAX_KEY_LENGTH:
            return
        models = self._kept.setdefault(key.target, {})
        models[key] = baseline
        if len(models) > MAX_MODELS:
            self._forget(min(models, key=lambda name: models[name].end))
        if sum(map(len, self._kept.values())) > MAX_BASELINES:
            known = self._known()
            self._forget(min(known, key=lambda name: known[name].end))

    def adopt(self, target: str, found: Mapping[str, LearnedBaseline]) -> list[str]:
        """Take the baselines of a target by model that a history has; return the models whose counts now."""
        adopted = []
        for model_name, baseline in found.items():
            key = BaselineKey(target, model_name)
            learned = self.of(key)
            if learned.adopt(baseline):
                self.keep(key, learned)
                adopted.append(model_name)
        return adopted

    def recall(self, saved: object) -> None:
        """Add the result of an earlier ``saved``, for unknown names; omit invalid entries."""
        if not isinstance(saved, Mapping) or saved.get("format") != _FORMAT:
            return
        entries = saved.get("entries")
        for entry in entries[:MAX_BASELINES] if isinstance(entries, list) else ():
            try:
                key = BaselineKey(*(str(entry[name]) for name in BaselineKey._fields))
                learned = entry["learned"]
            except (KeyError, TypeError, ValueError):
                continue
            baseline = self.of(key)
            if not baseline.end and baseline.restore(learned):
                self.keep(key, baseline)

    def saved(self, now: float) -> dict[str, Any]:
        """Return all baselines that are not too old at ``now`` (Unix time), as plain values for JSON."""
        for key, baseline in self._known().items():
            if not -_CLOCK_SECONDS <= now - baseline.end <= KEPT_SECONDS:
                self._forget(key)
        entries = [{**key._asdict(), "learned": each.saved()} for key, each in self._known().items()]
        return {"format": _FORMAT, "entries": entries}

    def _known(self) -> dict[BaselineKey, LearnedBaseline]:
        return {key: each for models in self._kept.values() for key, each in models.items()}

    def _forget(self, key: BaselineKey) -> None:
        models = self._kept[key.target]
        del models[key]
        if not models:
            del self._kept[key.target]
