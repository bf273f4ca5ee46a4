"""A line in the log for each engine, every ``log.summary_interval``: vLLM's own line, and what it means.

vLLM writes, every ten seconds in which it drafted, "SpecDecoding metrics: Mean acceptance length: 2.91, ..."
(``SpecDecodingLogging`` in vllm/v1/spec_decode/metrics.py). A line here has the same fields under the same
names, over the time since the engine's last line; then comes how the engine stands by its longest window,
under the names of our metrics.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

import structlog

from spec_decode_exporter.core.clock import Clock
from spec_decode_exporter.core.internal_errors import InternalErrors
from spec_decode_exporter.figures.acceptance import (
    mean_acceptance_length,
)
from spec_decode_exporter.figures.ratio import ratio
from spec_decode_exporter.figures.window_figures import WindowFigures
from spec_decode_exporter.monitor.engine_monitor import EngineSnapshot
from spec_decode_exporter.scrape.page.engine_table import Counter
from spec_decode_exporter.window.engine_history import EngineTotals

Labelled = tuple[Mapping[str, str], EngineSnapshot]
Fields = dict[str, object]

_DIGITS: Final = 4
"""Decimals that a line shows: a tenth of a millisecond, a hundredth of a percent."""
_NAMES: Final = ("target", "model_name", "engine")

_log = structlog.get_logger()


class SummaryLog:
    """Writes the lines."""

    def __init__(
        self,
        interval: float,
        clock: Clock,
        engines: Callable[[], Iterable[Labelled]],
        errors: InternalErrors | None = None,
    ) -> None:
        """Write every ``interval`` seconds about ``engines()``, each with its labels and its findings."""
        self._errors = errors or InternalErrors(clock.monotonic)
        self._interval = interval
        self._clock = clock
        self._engines = engines
        self._summaries = Summaries()

    async def run(self) -> None:
        """Write for ever; the first lines come after a whole interval. Polls go on between two lines."""
        self._summaries.begin(self._engines())
        due = self._clock.monotonic()
        while True:
            due = max(due + self._interval, self._clock.monotonic())
            await self._clock.sleep_until(due)
            seen = set()
            for labels, findings in self._engines():
                seen.add(_key(labels))
                self._errors.attempt("summary", labels, partial(self._write, labels, findings))
                await asyncio.sleep(0)
            self._summaries.forget_all_but(seen)

    def _write(self, labels: Mapping[str, str], findings: EngineSnapshot) -> None:
        fields = self._summaries.next(labels, findings)
        if fields is not None:
            _log.info("engine_summary", **fields)


@dataclass(frozen=True, slots=True)
class _Told:
    """What an engine's last line knew."""

    totals: EngineTotals
    tokens: int
    standing: Mapping[str, str]


class Summaries:
    """What the next line of each engine says."""

    def __init__(self) -> None:
        self._told: dict[tuple[str, ...], _Told] = {}

    def begin(self, engines: Iterable[Labelled]) -> None:
        """Take all that was counted until now as told."""
        for labels, findings in engines:
            self._told[_key(labels)] = _Told(findings.totals, findings.tokens, {})

    def next(self, labels: Mapping[str, str], findings: EngineSnapshot) -> Fields | None:
        """Return an engine's next line; None if it drafted nothing since the last, and stands as it did.

        That of an engine that was not there before begins where the exporter found it.
        """
        before = self._told.get(_key(labels))
        if before is not None and before.totals.covered_seconds > findings.totals.covered_seconds:
            before = None  # it was forgotten, and found anew
        standing = _standing(findings)
        self._told[_key(labels)] = _Told(findings.totals, findings.tokens, standing)
        drafted = _moved(before, findings.totals, Counter.DRAFTS)
        if not drafted and before is not None and before.standing == standing:
            return None
        named = {name: labels[name] for name in _NAMES}
        return {**named, **_since(before, findings), **standing, **_window(findings)}

    def forget_all_but(self, keys: set[tuple[str, ...]]) -> None:
        """Forget the engines that are gone."""
        self._told = {key: told for key, told in self._told.items() if key in keys}


def _key(labels: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(labels[name] for name in _NAMES)


def _since(before: _Told | None, findings: EngineSnapshot) -> Fields:
    """Return what vLLM's line has, under its names, of the time since the last line."""
    totals = findings.totals
    seconds = totals.covered_seconds - (before.totals.covered_seconds if before else 0.0)
    drafts = _moved(before, totals, Counter.DRAFTS)
    drafted = _moved(before, totals, Counter.DRAFT_TOKENS)
    accepted = _moved(before, totals, Counter.ACCEPTED_TOKENS)
    return _known(
        seconds=seconds,
        drafts=drafts,
        mean_acceptance_length=mean_acceptance_length(accepted, drafts),
        accepted_throughput=ratio(accepted, seconds),
        drafted_throughput=ratio(drafted, seconds),
        accepted_tokens=accepted,
        drafted_tokens=drafted,
        per_position_acceptance_rate=_positions(before, findings, drafts),
        avg_draft_acceptance_rate=ratio(accepted, drafted),
    )


def _positions(before: _Told | None, findings: EngineSnapshot, drafts: int) -> list[float] | None:
    """Return the share of drafts that got beyond each position; None if K changed: they are never mixed."""
    tokens = findings.tokens
    if not drafts or not tokens or (before is not None and before.tokens != tokens):
        return None
    now, then = findings.totals.positions, before.totals.positions if before else ()
    counts = [*now, *[0] * tokens][:tokens]
    earlier = [*then, *[0] * tokens][:tokens]
    return [round((count - known) / drafts, _DIGITS) for count, known in zip(counts, earlier, strict=True)]


def _moved(before: _Told | None, totals: EngineTotals, counter: Counter) -> int:
    return totals.counters[counter] - (before.totals.counters[counter] if before else 0)


def _standing(findings: EngineSnapshot) -> dict[str, str]:
    """Return what is said of the engine in words; that these are others is worth a line."""
    evaluation = findings.evaluation
    return {
        "state": str(evaluation.state),
        "verdict": str(evaluation.verdict),
        "recommendation": str(evaluation.action),
    }


def _window(findings: EngineSnapshot) -> Fields:
    """Return what is said of the engine in numbers, under our metrics' names: of the longest window."""
    evaluation = findings.evaluation
    fields = _known(
        configured_tokens=findings.tokens or None,
        recommended_tokens=evaluation.recommended.tokens if evaluation.recommended else None,
    )
    if not findings.windows:
        return fields
    window = findings.figures[-1]
    return {
        **fields,
        "window": window.label,
        **_sure("acceptance_length_tokens", window),
        **_sure("draft_acceptance_ratio", window),
        **_sure("estimated_speedup_ratio", window),
        **_known(time_per_output_token_seconds=window.value("time_per_output_token_seconds")),
    }


def _sure(key: str, window: WindowFigures) -> Fields:
    """Return a figure and its 95 % bounds, if it has some."""
    estimate = window.estimate(key)
    lower, upper = (estimate.lower, estimate.upper) if estimate else (None, None)
    return _known(**{key: window.value(key), f"{key}_lower": lower, f"{key}_upper": upper})


def _known(**fields: object) -> Fields:
    """Leave out what has no value, and the digits that say nothing."""
    return {
        name: round(value, _DIGITS) if isinstance(value, float) else value
        for name, value in fields.items()
        if value is not None
    }
