"""Page parser on untrusted pages. A record separator precedes a later page."""

from __future__ import annotations

import math
from itertools import count

from spec_decode_exporter.core.cooperative_yield import finish
from spec_decode_exporter.scrape.errors import PageError
from spec_decode_exporter.scrape.page.engine_table import BUCKET_NAMES, MEANINGS
from spec_decode_exporter.scrape.page.layout_map import MAX_ENGINES, MAX_NAME, MAX_POSITIONS
from spec_decode_exporter.scrape.page.parser import read_page, read_values
from spec_decode_exporter.scrape.page.sample_reader import MAX_COUNT, SampleReader
from tests.fuzz.harness import Harness, sane

NAMES = frozenset(MEANINGS)
WORDS = (
    "vllm:spec_decode_num_drafts_total", "vllm:spec_decode_num_accepted_tokens_per_pos_total",
    "vllm:num_requests_running", "vllm:time_to_first_token_seconds_bucket", "process_start_time_seconds",
    "vllm:spec_decode_num_drafts_created", '{engine="0"}', 'model_name="m",', 'position="1"', 'le="+Inf"',
    "NaN", "+Inf", "1.5e3", "9007199254740992", "# EOF\n", " # {} 1", "# TYPE ", " 1\n", "\n", "\x1e",
)  # fmt: skip


def outcome(page: bytes, names: frozenset[bytes]):
    """Return the result of a first reading, with comparable NaN; None for a rejected page."""
    try:
        layout, values = finish(read_page(page, names))
    except PageError as error:
        _refused_plainly(error)
        return None
    return layout, list(map(repr, values))


def _refused_plainly(error: PageError) -> None:
    sane(error, 400)
    assert error.reason == "malformed"
    assert str(error).isprintable()


def check_page(data: bytes) -> None:
    """Check that a layout gives the result of a first reading or None, and always reads its own page."""
    page, _, later = data.partition(b"\x1e")
    for names in (NAMES, NAMES - BUCKET_NAMES):
        first = outcome(page, names)
        if first is None:
            continue
        layout, values = first
        again = finish(read_values(layout, page))
        assert (list(map(repr, again)) if again is not None else None) == (
            values if layout.repeatable else None
        )
        by_layout = finish(read_values(layout, later))
        if by_layout is not None:
            again = outcome(later, names)
            assert again is not None
            assert (again[0].series, again[1]) == (layout.series, list(map(repr, by_layout)))


def reading(reader: SampleReader, page: bytes, *, with_latencies: bool):
    try:
        return finish(reader.read(page, with_latencies=with_latencies))
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
