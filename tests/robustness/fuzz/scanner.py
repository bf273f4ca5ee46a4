"""Page parser on untrusted pages. A record separator precedes a later page."""

from __future__ import annotations

import math
from itertools import count

from spec_decode_exporter.scrape.engines import MEANINGS, PLAIN_NAMES
from spec_decode_exporter.scrape.errors import PageError
from spec_decode_exporter.scrape.layout import Layout, lines_of, read_layout, values_at
from spec_decode_exporter.scrape.sample import MAX_COUNT, MAX_ENGINES, MAX_NAME, MAX_POSITIONS, SampleReader
from tests.robustness.fuzz.harness import Harness, sane

NAMES = frozenset(MEANINGS)
WORDS = (
    "vllm:spec_decode_num_drafts_total", "vllm:spec_decode_num_accepted_tokens_per_pos_total",
    "vllm:num_requests_running", "vllm:time_to_first_token_seconds_bucket", "process_start_time_seconds",
    "vllm:spec_decode_num_drafts_created", '{engine="0"}', 'model_name="m",', 'position="1"', 'le="+Inf"',
    "NaN", "+Inf", "1.5e3", "9007199254740992", "# EOF\n", " # {} 1", "# TYPE ", " 1\n", "\n", "\x1e",
)  # fmt: skip


def values(lines: list[bytes], layout: Layout) -> list[str] | None:
    """Return comparable values; None if one is not a number."""
    try:
        return list(map(repr, values_at(lines, layout.places.values())))
    except PageError as error:
        _refused_plainly(error)
        return None


def outcome(page: bytes, names: frozenset[bytes]):
    """Return the result of a first reading, with comparable NaN; None for a rejected page."""
    try:
        layout = read_layout(page, names)
    except PageError as error:
        _refused_plainly(error)
        return None
    found = values(page.split(b"\n"), layout)
    return None if found is None else (layout, found)


def _refused_plainly(error: PageError) -> None:
    sane(error, 400)
    assert error.reason == "malformed"
    assert str(error).isprintable()


def check_page(data: bytes) -> None:
    """Check that a layout gives the result of a first reading or None, and always reads its own page."""
    page, _, later = data.partition(b"\x1e")
    for names in (NAMES, PLAIN_NAMES):
        first = outcome(page, names)
        if first is None:
            continue
        layout, found = first
        same = lines_of(page, layout.starts)
        assert (b"\n" in layout.starts) if same is None else (values(same, layout) == found)
        lines = lines_of(later, layout.starts)
        by_layout = None if lines is None else values(lines, layout)
        if by_layout is not None:
            again = outcome(later, names)
            assert again is not None
            assert (list(again[0].places), again[1]) == (list(layout.places), by_layout)


def reading(reader: SampleReader, page: bytes, *, with_latencies: bool):
    try:
        return reader.read(page, with_latencies=with_latencies)
    except PageError as error:
        _refused_plainly(error)
        return None


def check_reader(data: bytes) -> None:
    """Check that earlier pages do not affect a reading, and that samples are within the limits."""
    reader = SampleReader()
    for page, number in zip(data.split(b"\x1e")[:4], count(), strict=False):
        with_latencies = number % 2 == 0
        found = reading(reader, page, with_latencies=with_latencies)
        assert found == reading(SampleReader(), page, with_latencies=with_latencies)
        if found is not None:
            _check_bounds(found)


def _check_bounds(found) -> None:
    assert len(found.samples) <= MAX_ENGINES
    for name, sample in found.samples.items():
        assert max(map(len, name)) <= MAX_NAME
        assert len(sample.positions) <= MAX_POSITIONS
        assert all(type(one) is int and 0 <= one < MAX_COUNT for one in sample.positions)
        assert all(one is None or (type(one) is int and one >= 0) for one in sample.counters)
        assert all(one is None or math.isfinite(one) for one in (*sample.gauges, sample.created))
        for buckets in (sample.latencies or {}).values():
            assert list(buckets.bounds) == sorted(set(buckets.bounds))
            assert buckets.bounds[-1] == math.inf


PAGE = Harness(check_page, WORDS)
READER = Harness(check_reader, WORDS)
