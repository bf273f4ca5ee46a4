"""Engines by their labels: what those of a group did together, as sums and as ratios of sums."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Final

from spec_decode_exporter.figures import acceptance, latency, positions, server_load
from spec_decode_exporter.metrics.reads import window_label
from spec_decode_exporter.monitor.engine_monitor import EngineSnapshot
from spec_decode_exporter.scrape.page.engine_table import Counter, Gauge
from spec_decode_exporter.views.engine_view import RATES, counts_view, id_of
from spec_decode_exporter.views.models import GroupView, GroupWindowView
from spec_decode_exporter.window.ledger import Window

Engines = Sequence[tuple[Mapping[str, str], EngineSnapshot]]

_SPECULATION: Final = (Counter.DRAFTS, Counter.DRAFT_TOKENS, Counter.ACCEPTED_TOKENS)
_DECODED: Final = (Counter.GENERATION_TOKENS, Counter.FIRST_TOKENS)

_RATIOS: Final[Mapping[str, tuple[Callable[[Window], float | None], tuple[Counter, ...]]]] = {
    "draft_acceptance_ratio": (acceptance.draft_acceptance_ratio, _SPECULATION),
    "acceptance_length_tokens": (acceptance.acceptance_length_tokens, _SPECULATION),
    "draft_length_tokens": (acceptance.draft_length_tokens, _SPECULATION),
    "coverage_ratio": (acceptance.coverage_ratio, (Counter.DRAFTS, Counter.DECODE_STEPS)),
    "effective_tokens_per_step": (
        acceptance.effective_tokens_per_step,
        (*_DECODED, Counter.DECODE_STEPS),
    ),
    "step_seconds": (latency.step_seconds, (Counter.DECODE_NANOSECONDS, Counter.DECODE_STEPS)),
    "time_per_output_token_seconds": (
        latency.time_per_output_token_seconds,
        (*_DECODED, Counter.DECODE_NANOSECONDS),
    ),
}
"""Each ratio, and the counters that an engine must have to be a part of it."""

_RATES: Final = RATES.keys() & GroupWindowView.model_fields.keys()


def grouped(engines: Engines, names: Sequence[str]) -> list[tuple[Mapping[str, str], Engines]]:
    """Return the engines of each combination of the values of the labels ``names``, with that combination."""
    groups: dict[tuple[str, ...], list[tuple[Mapping[str, str], EngineSnapshot]]] = {}
    for labels, findings in engines:
        groups.setdefault(tuple(labels.get(name, "") for name in names), []).append((labels, findings))
    return [(dict(zip(names, values, strict=True)), groups[values]) for values in sorted(groups)]


def group_view(labels: Mapping[str, str], members: Engines) -> GroupView:
    """Return the sums over a group's engines and the ratios of these sums."""
    return GroupView(
        labels=dict(labels),
        engines=tuple(id_of(labels) for labels, _ in members),
        verdicts=dict(Tally(findings.evaluation.verdict for _, findings in members)),
        windows=tuple(_windows([findings for _, findings in members])),
    )


def _windows(members: Sequence[EngineSnapshot]) -> Iterator[GroupWindowView]:
    by_length: dict[float, list[Window]] = {}
    for findings in members:
        for window in findings.windows:
            by_length.setdefault(window.length, []).append(window)
    return (_window(windows) for _, windows in sorted(by_length.items()))


def _window(windows: Sequence[Window]) -> GroupWindowView:
    same = _of_equal_tokens(windows)
    return GroupWindowView(
        window=window_label(windows[0]),
        engines=len(windows),
        counts=counts_view(_sum(windows)),
        position_acceptance_ratio=tuple(positions.position_acceptance_ratios(_sum(same))) if same else (),
        **{name: _ratio(windows, *rule) for name, rule in _RATIOS.items()},
        **{name: _rate(windows, RATES[name]) for name in _RATES},
        running_requests=_added(server_load.mean(window, Gauge.RUNNING_REQUESTS) for window in windows),
        waiting_requests=_added(server_load.mean(window, Gauge.WAITING_REQUESTS) for window in windows),
    )


def _ratio(
    windows: Sequence[Window], formula: Callable[[Window], float | None], counters: Sequence[Counter]
) -> float | None:
    told = [window for window in windows if all(window[counter] is not None for counter in counters)]
    return formula(_sum(told)) if told else None


def _rate(windows: Sequence[Window], count: Callable[[Window], int | None]) -> float | None:
    return _added(server_load.per_second(window, count(window)) for window in windows)


def _added(values: Iterator[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _of_equal_tokens(windows: Sequence[Window]) -> Sequence[Window]:
    """Return the windows that have positions, or none where K differs: then no position is comparable."""
    told = [window for window in windows if window.positions and window[Counter.DRAFTS] is not None]
    return told if len({len(window.positions) for window in told}) == 1 else ()


def _sum(windows: Sequence[Window]) -> Window:
    """Return the sums of what is told. Of the gauges and increments nothing is kept."""
    same = _of_equal_tokens(windows)
    return Window(
        length=windows[0].length,
        seconds=max(window.seconds for window in windows),
        polls=max(window.polls for window in windows),
        counters=tuple(_told(window[counter] for window in windows) for counter in Counter),
        positions=tuple(map(sum, zip_longest(*(window.positions for window in same), fillvalue=0))),
        gauges=(),
    )


def _told(counts: Iterator[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known else None
