"""Summary log: a line for each engine every ``log.summary_interval``, with the fields of vLLM's own line.

vLLM writes, every ten seconds with drafts, "SpecDecoding metrics: Mean acceptance length: 2.91, ..."
(``SpecDecodingLogging`` in vllm/v1/spec_decode/metrics.py). A line here has the same fields with the same
names, over the time since the engine's last line. Then come figures of the longest window, with the names of
the exporter's metrics.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import repeat, zip_longest
from operator import sub
from typing import Final, NamedTuple

import structlog

from spec_decode_exporter.analysis.evaluation import Evaluation
from spec_decode_exporter.analysis.figure_table import FIGURE
from spec_decode_exporter.core.clock import Clock
from spec_decode_exporter.core.isolation import Isolation
from spec_decode_exporter.core.tasks import yield_to_event_loop
from spec_decode_exporter.figures.estimate import Estimate, ratio
from spec_decode_exporter.figures.window_figures import acceptance_length
from spec_decode_exporter.monitor.engine_snapshot import EngineSnapshot
from spec_decode_exporter.window.history import Totals

_DIGITS: Final = 4
"""Decimals: a tenth of a millisecond, a hundredth of a percent."""
_NAMES: Final = ("target", "model_name", "engine")
_BOUNDED: Final = ("acceptance_length_tokens", "draft_acceptance_ratio", "estimated_speedup_ratio")
_MEANS: Final = ("time_per_output_token_seconds", "time_to_first_token_seconds", "prefix_cache_hit_ratio")
"""Figures of the longest window, with and without 95 % bounds."""

_log = structlog.get_logger()


class _LastLine(NamedTuple):
    totals: Totals
    tokens: int
    words: Mapping[str, str]


class SummaryLog:
    """Writes summary lines periodically."""

    def __init__(
        self,
        interval: float,
        clock: Clock,
        engines: Callable[[], Iterable[tuple[Mapping[str, str], EngineSnapshot]]],
        errors: Isolation | None = None,
    ) -> None:
        """Write every ``interval`` seconds about ``engines()``, the labels and snapshots of all engines."""
        self._interval, self._clock, self._engines = interval, clock, engines
        self._errors = errors or Isolation(clock.monotonic)
        self._last: dict[tuple[str, ...], _LastLine] = {}

    async def run(self) -> None:
        """Write until cancelled, first after a whole interval; yield to the event loop after each line."""
        for labels, its in self._engines():  # counts before the start are in no line
            self._last[_key(labels)] = _LastLine(its.totals, its.tokens, {})
        due = self._clock.monotonic()
        while True:
            due = max(due + self._interval, self._clock.monotonic())
            await self._clock.sleep_until(due)
            present = set()
            for labels, its in self._engines():
                present.add(_key(labels))
                self._errors.attempt("summary", labels, partial(self._write, labels, its))
                await yield_to_event_loop()
            self._last = {key: last for key, last in self._last.items() if key in present}

    def line(self, labels: Mapping[str, str], its: EngineSnapshot) -> dict[str, object] | None:
        """Return the fields of an engine's next line; unknown ones are absent.

        There is none without drafts and without changed words since the last. The first line of a new
        engine covers all its counters.
        """
        before, evaluation = self._last.get(_key(labels)), its.evaluation
        if before is not None and before.totals.covered_seconds > its.totals.covered_seconds:
            before = None  # the engine was evicted, and added again
        words = {
            "state": str(evaluation.state),
            "verdict": str(evaluation.verdict),
            "recommendation": str(evaluation.action),
        }
        self._last[_key(labels)] = _LastLine(its.totals, its.tokens, words)
        since = _since(before, its)
        if not since["drafts"] and before is not None and before.words == words:
            return None
        tokens = evaluation.decision.advice.tokens
        depths = {"configured_tokens": its.tokens or None, "recommended_tokens": tokens}
        fields = {**since, **words, **depths, **dict(_figures(evaluation))}
        known = {
            name: round(value, _DIGITS) if isinstance(value, float) else value
            for name, value in fields.items()
            if value is not None
        }
        return {**{name: labels[name] for name in _NAMES}, **known}

    def _write(self, labels: Mapping[str, str], its: EngineSnapshot) -> None:
        fields = self.line(labels, its)
        if fields is not None:
            _log.info("engine_summary", **fields)


def _key(labels: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(labels[name] for name in _NAMES)


def _since(before: _LastLine | None, its: EngineSnapshot) -> dict[str, object]:
    """Return the fields of vLLM's line, with its names, over the time since the last line."""
    now, then = its.totals, before.totals if before else None
    seconds = now.covered_seconds - (then.covered_seconds if then else 0.0)
    drafts, drafted, accepted, *_ = map(sub, now.counters, then.counters if then else repeat(0))
    positions = None
    if drafts and its.tokens and (before is None or before.tokens == its.tokens):
        counts = zip_longest(now.positions, then.positions if then else (), fillvalue=0)
        rates = [round((count - known) / drafts, _DIGITS) for count, known in counts]
        positions = [*rates, *[0.0] * its.tokens][: its.tokens]
    return {
        "seconds": seconds,
        "drafts": drafts,
        "mean_acceptance_length": acceptance_length(accepted, drafts),
        "accepted_throughput": ratio(accepted, seconds),
        "drafted_throughput": ratio(drafted, seconds),
        "accepted_tokens": accepted,
        "drafted_tokens": drafted,
        "per_position_acceptance_rate": positions,
        "avg_draft_acceptance_rate": ratio(accepted, drafted),
    }


def _figures(its: Evaluation) -> Iterator[tuple[str, object]]:
    """Yield the figures of the longest window, with the names of the exporter's metrics."""
    if its.windows:
        yield "window", its.longest.label
        for figure in (FIGURE[key] for key in _BOUNDED):
            bounds = figure.bounds(its.longest) if figure.bounds else None
            yield from _bounded(figure.key, figure.of(its.longest), bounds)
        if (request := its.longest.request) is not None:  # else only the speed-up of decoding is known
            yield from _bounded("end_to_end_speedup_ratio", request.value, request.bounds)
            yield "end_to_end_basis", str(request.basis)
        yield from ((key, FIGURE[key].of(its.longest)) for key in _MEANS)


def _bounded(key: str, value: object, bounds: Estimate | None) -> Iterator[tuple[str, object]]:
    yield key, value
    if bounds is not None:
        yield from ((f"{key}_lower", bounds.lower), (f"{key}_upper", bounds.upper))
