"""Metrics page of recorded samples, as vLLM's Python front end would show them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from math import inf
from typing import Final

from spec_decode_exporter.scrape.page.engine_table import (
    ENGINES,
    MODEL_LABEL,
    Counter,
    EngineMark,
    Gauge,
    Latency,
    Quantity,
    TokenLengths,
)
from spec_decode_exporter.scrape.page.sample import Buckets, EngineName, Sample

_NANO: Final = 10**9
_PREFIX: Final = ENGINES[0].prefixes[0]
_NAMES: Final[Mapping[Quantity, str]] = {
    series.quantity: f"{_PREFIX}{series.names[0]}"
    for series in ENGINES[0].series
    if not isinstance(series.quantity, Counter | Gauge)
}
_COUNTERS: Final = {
    series.quantity: f"{_PREFIX}{series.names[0]}"
    for series in ENGINES[0].series
    if isinstance(series.quantity, Counter)
}
_GAUGES: Final = {
    series.quantity: f"{_PREFIX}{series.names[0]}"
    for series in ENGINES[0].series
    if isinstance(series.quantity, Gauge)
}
_TIMES: Final = frozenset(
    {Counter.DECODE_NANOSECONDS, Counter.END_TO_END_NANOSECONDS, Counter.FIRST_TOKEN_NANOSECONDS}
)


def recorded_page(samples: Mapping[EngineName, Sample], moved: Callable[[float], float]) -> bytes:
    """Return the samples of a page as text; ``moved`` changes recorded creation times (Unix time)."""
    lines = [line for name, sample in samples.items() for line in _lines(name, sample, moved)]
    return "".join(f"{line}\n" for line in sorted(lines)).encode() or b"# no engine\n"


def _lines(name: EngineName, sample: Sample, moved: Callable[[float], float]) -> Iterator[str]:
    labels = f'engine="{_escaped(name.engine)}",{MODEL_LABEL}="{_escaped(name.model_name)}"'
    for counter, series in _COUNTERS.items():
        count = sample[counter]
        if count is not None:
            value = f"{count / _NANO:.9f}" if counter in _TIMES else str(count)
            yield f"{series}{{{labels}}} {value}"
    for gauge, series in _GAUGES.items():
        known = sample.gauge(gauge)
        if known is not None:
            yield f"{series}{{{labels}}} {known!r}"
    for position, accepted in enumerate(sample.positions):
        series = _NAMES[EngineMark.POSITION_ACCEPTED]
        yield f'{series}{{{labels},position="{position}"}} {accepted}'
    if sample.created is not None:
        yield f"{_NAMES[EngineMark.CREATED]}{{{labels}}} {moved(sample.created)!r}"
    for latency, buckets in (sample.latencies or {}).items():
        yield from _bucket_lines(latency, buckets, labels)
    if sample.answer_lengths is not None:
        yield from _bucket_lines(TokenLengths.ANSWERS, sample.answer_lengths, labels)


def _bucket_lines(histogram: Latency | TokenLengths, buckets: Buckets, labels: str) -> Iterator[str]:
    for bound, count in zip(buckets.bounds, buckets.counts, strict=True):
        edge = "+Inf" if bound == inf else repr(bound)
        yield f'{_NAMES[histogram]}{{{labels},le="{edge}"}} {count}'


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
