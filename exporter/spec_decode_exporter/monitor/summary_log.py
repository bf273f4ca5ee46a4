"""Summary log: a line for each engine every ``log.summary_interval``, with the fields of vLLM's own line.

vLLM writes, every ten seconds with drafts, "SpecDecoding metrics: Mean acceptance length: 2.91, ..."
(``SpecDecodingLogging`` in vllm/v1/spec_decode/metrics.py). A line here has the same fields with the same
names, over the time since the engine's last line. Then come figures of the longest window, with the names of
the exporter's metrics.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

import structlog

from spec_decode_exporter.analysis.end_to_end import EndToEnd
from spec_decode_exporter.analysis.figure_table import FIGURE
from spec_decode_exporter.analysis.window_evaluation import WindowEvaluation
from spec_decode_exporter.core.clock import Clock
from spec_decode_exporter.core.cooperative_yield import yield_to_event_loop
from spec_decode_exporter.core.isolation import Isolation
from spec_decode_exporter.figures.estimate import ratio
from spec_decode_exporter.figures.window_figures import acceptance_length
from spec_decode_exporter.monitor.engine_snapshot import EngineSnapshot
from spec_decode_exporter.window.history import Totals

Labelled = tuple[Mapping[str, str], EngineSnapshot]
Fields = dict[str, object]

_DIGITS: Final = 4
"""Decimals: a tenth of a millisecond, a hundredth of a percent."""
_NAMES: Final = ("target", "model_name", "engine")

_log = structlog.get_logger()


class SummaryLog:
    """Writes summary lines periodically."""

    def __init__(
        self,
        interval: float,
        clock: Clock,
        engines: Callable[[], Iterable[Labelled]],
        errors: Isolation | None = None,
    ) -> None:
        """Write every ``interval`` seconds about ``engines()``, the labels and snapshots of all engines."""
        self._errors = errors or Isolation(clock.monotonic)
        self._interval = interval
        self._clock = clock
        self._engines = engines
        self._summaries = Summaries()

    async def run(self) -> None:
        """Write until cancelled, first after a whole interval; yield to the event loop after each line."""
        self._summaries.begin(self._engines())
        due = self._clock.monotonic()
        while True:
            due = max(due + self._interval, self._clock.monotonic())
            await self._clock.sleep_until(due)
            present = set()
            for labels, snapshot in self._engines():
                present.add(_key(labels))
                self._errors.attempt("summary", labels, partial(self._write, labels, snapshot))
                await yield_to_event_loop()
            self._summaries.keep_only(present)

    def _write(self, labels: Mapping[str, str], snapshot: EngineSnapshot) -> None:
        fields = self._summaries.next(labels, snapshot)
        if fields is not None:
            _log.info("engine_summary", **fields)


@dataclass(frozen=True, slots=True)
class _LastLine:
    """Counters and words of an engine's last line."""

    totals: Totals
    tokens: int
    words: Mapping[str, str]


class Summaries:
    """Contents of the next line of each engine."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, ...], _LastLine] = {}

    def begin(self, engines: Iterable[Labelled]) -> None:
        """Begin at the present counters."""
        for labels, snapshot in engines:
            self._last[_key(labels)] = _LastLine(snapshot.totals, snapshot.tokens, {})

    def next(self, labels: Mapping[str, str], snapshot: EngineSnapshot) -> Fields | None:
        """Return an engine's next line; None without drafts and without changed words since the last.

        The first line of a new engine covers all its counters.
        """
        before = self._last.get(_key(labels))
        if before is not None and before.totals.covered_seconds > snapshot.totals.covered_seconds:
            before = None  # the engine was evicted, and added again
        words = _words(snapshot)
        self._last[_key(labels)] = _LastLine(snapshot.totals, snapshot.tokens, words)
        if not _increase(before, snapshot.totals, "drafts") and before is not None and before.words == words:
            return None
        named = {name: labels[name] for name in _NAMES}
        return {**named, **_since(before, snapshot), **words, **_window(snapshot)}

    def keep_only(self, keys: set[tuple[str, ...]]) -> None:
        """Forget all other engines."""
        self._last = {key: last for key, last in self._last.items() if key in keys}


def _key(labels: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(labels[name] for name in _NAMES)


def _since(before: _LastLine | None, snapshot: EngineSnapshot) -> Fields:
    """Return the fields of vLLM's line, with its names, over the time since the last line."""
    totals = snapshot.totals
    seconds = totals.covered_seconds - (before.totals.covered_seconds if before else 0.0)
    drafts = _increase(before, totals, "drafts")
    drafted = _increase(before, totals, "draft_tokens")
    accepted = _increase(before, totals, "accepted_tokens")
    return _known(
        seconds=seconds,
        drafts=drafts,
        mean_acceptance_length=acceptance_length(accepted, drafts),
        accepted_throughput=ratio(accepted, seconds),
        drafted_throughput=ratio(drafted, seconds),
        accepted_tokens=accepted,
        drafted_tokens=drafted,
        per_position_acceptance_rate=_positions(before, snapshot, drafts),
        avg_draft_acceptance_rate=ratio(accepted, drafted),
    )


def _positions(before: _LastLine | None, snapshot: EngineSnapshot, drafts: int) -> list[float] | None:
    """Return the share of drafts accepted at each position; None if K changed."""
    tokens = snapshot.tokens
    if not drafts or not tokens or (before is not None and before.tokens != tokens):
        return None
    now, then = snapshot.totals.positions, before.totals.positions if before else ()
    counts = [*now, *[0] * tokens][:tokens]
    earlier = [*then, *[0] * tokens][:tokens]
    return [round((count - known) / drafts, _DIGITS) for count, known in zip(counts, earlier, strict=True)]


def _increase(before: _LastLine | None, totals: Totals, name: str) -> int:
    """Return the increase of a counter since the last line."""
    count: int = getattr(totals.counters, name)
    return count - (getattr(before.totals.counters, name) if before else 0)


def _words(snapshot: EngineSnapshot) -> dict[str, str]:
    """Return the words about the engine; a change of them is worth a line."""
    evaluation = snapshot.evaluation
    return {
        "state": str(evaluation.state),
        "verdict": str(evaluation.verdict),
        "recommendation": str(evaluation.action),
    }


def _window(snapshot: EngineSnapshot) -> Fields:
    """Return the figures of the longest window, with the names of the exporter's metrics."""
    evaluation = snapshot.evaluation
    fields = _known(
        configured_tokens=snapshot.tokens or None,
        recommended_tokens=evaluation.recommended.tokens if evaluation.recommended else None,
    )
    if not evaluation.windows:
        return fields
    window = evaluation.longest
    return {
        **fields,
        "window": window.label,
        **_bounded("acceptance_length_tokens", window),
        **_bounded("draft_acceptance_ratio", window),
        **_bounded("estimated_speedup_ratio", window),
        **_request(evaluation.request),
        **_known(
            time_per_output_token_seconds=window.time_per_output_token_seconds,
            time_to_first_token_seconds=window.time_to_first_token_seconds,
            prefix_cache_hit_ratio=FIGURE["prefix_cache_hit_ratio"].of(window),
        ),
    }


def _request(request: EndToEnd | None) -> Fields:
    """Return the speed-up of whole requests; nothing if only that of decoding is known."""
    if request is None:
        return {}
    bounds = request.bounds
    return _known(
        end_to_end_speedup_ratio=request.value,
        end_to_end_speedup_ratio_lower=bounds.lower if bounds else None,
        end_to_end_speedup_ratio_upper=bounds.upper if bounds else None,
        end_to_end_basis=str(request.basis),
    )


def _bounded(key: str, window: WindowEvaluation) -> Fields:
    """Return a figure and its 95 % bounds, if it has some."""
    figure = FIGURE[key]
    estimate = figure.bounds(window) if figure.bounds else None
    lower, upper = (estimate.lower, estimate.upper) if estimate else (None, None)
    return _known(**{key: figure.of(window), f"{key}_lower": lower, f"{key}_upper": upper})


def _known(**fields: object) -> Fields:
    """Omit unknown values, and round the others."""
    return {
        name: round(value, _DIGITS) if isinstance(value, float) else value
        for name, value in fields.items()
        if value is not None
    }
