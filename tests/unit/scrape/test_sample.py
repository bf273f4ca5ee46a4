from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from weakref import WeakValueDictionary

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.scrape import sample as reader_module
from spec_decode_exporter.scrape.engines import MEANINGS, Counter, Gauge, Latency
from spec_decode_exporter.scrape.errors import PageError
from spec_decode_exporter.scrape.sample import (
    MAX_COUNT,
    MAX_GAUGES,
    QUICK_KNOWN_LINES,
    QUICK_LINES,
    QUICK_PAGE,
    SMALL_PAGE,
    Buckets,
    EngineName,
    SampleReader,
)
from tests.paths import DATA

MOST = MAX_GAUGES[Gauge.RUNNING_REQUESTS]
PAGES = DATA / "pages"
NGRAM = (PAGES / "vllm-0.32.0-python-ngram-k4.prom").read_bytes()
FILTERED = (PAGES / "vllm-0.32.0-filtered-k4.prom").read_bytes()
DP2 = (PAGES / "vllm-0.32.0-python-dp2-multiapi-k3.prom").read_bytes()


def read(page: bytes | str, *, with_latencies=False):
    page = page if isinstance(page, bytes) else (PAGES / page).read_bytes()
    return SampleReader().read(page, with_latencies=with_latencies)


def only(page: bytes | str, *, with_latencies=False):
    [sample] = read(page, with_latencies=with_latencies).samples.values()
    return sample


def told(sample) -> dict[str, float]:
    """Return all values of a sample, by name in lower case."""
    values = [*zip(Counter, sample.counters, strict=True), *zip(Gauge, sample.gauges, strict=True)]
    return {quantity.name.lower(): value for quantity, value in values if value is not None}


def counter(value: str) -> bytes:
    return f'vllm:generation_tokens_total{{engine="0"}} {value}\n'.encode()


# Every engine and version.

EXPECTED = {
    "vllm-0.8.5-v0.prom": (
        ("generation_tokens=5123 first_tokens=20 first_token_nanoseconds=712000000 decode_steps=1894 "
        "decode_nanoseconds=17250000000 preemptions=0 prompt_tokens=640 finished_requests=20 "
        "end_to_end_nanoseconds=31500000000 running_requests=3 waiting_requests=1 kv_cache_usage=0.0625 "
        "reported_acceptance_ratio=0.6875"),
        (), 1747212345.67, ("vllm", "v0", ("facebook/opt-6.7b", "0")),
    ),
    "vllm-0.8.5-v1.prom": (
        ("drafts=400 draft_tokens=1200 accepted_tokens=600 generation_tokens=1012 first_tokens=12 "
        "first_token_nanoseconds=500000000 decode_steps=400 decode_nanoseconds=3125000000 preemptions=4 "
        "prefix_cache_queries=80 prefix_cache_hits=16 prompt_tokens=700 finished_requests=12 "
        "end_to_end_nanoseconds=9750000000 running_requests=2 waiting_requests=0 kv_cache_usage=0.125"),
        (300, 200, 100), 1747212345.67, ("vllm", "python", ("facebook/opt-125m", "0")),
    ),
    "vllm-0.10.2.prom": (
        ("drafts=2000000 draft_tokens=10000000 accepted_tokens=4320000 generation_tokens=6491797 "
        "first_tokens=21797 first_token_nanoseconds=5000500000000 decode_steps=2150000 "
        "decode_nanoseconds=30100250000000 preemptions=7 prefix_cache_queries=9000 prefix_cache_hits=4000 "
        "finished_requests=21790 end_to_end_nanoseconds=40000000000000 running_requests=8 waiting_requests=5 "
        "kv_cache_usage=0.25"),
        (1500000, 1100000, 800000, 550000, 370000), 1758012345.67, ("vllm", "python", ("meta-llama/Llama-3.1-8B-Instruct", "0")),
    ),
    "vllm-0.14.0.prom": (
        ("drafts=128 draft_tokens=256 accepted_tokens=129 generation_tokens=260 first_tokens=4 "
        "first_token_nanoseconds=110000000 decode_steps=128 decode_nanoseconds=1500000000 preemptions=0 "
        "prefix_cache_queries=500 prefix_cache_hits=100 finished_requests=4 end_to_end_nanoseconds=1750000000 "
        "running_requests=1 waiting_requests=0 kv_cache_usage=0.03125"),
        (90, 39), 1768000123.4567, ("vllm", "python", ("Qwen/Qwen3-32B", "0")),
    ),
    "vllm-0.24.0-diffusion.prom": (
        ("generation_tokens=2048 first_tokens=2 first_token_nanoseconds=500000000 decode_steps=64 "
        "decode_nanoseconds=4500000000 running_requests=1 waiting_requests=0"),
        (), 1768000123.4567, ("vllm", "python", ("google/diffusion-gemma", "0")),
    ),
    "vllm-0.32.0-python-ngram-k4.prom": (
        ("drafts=41 draft_tokens=122 accepted_tokens=74 generation_tokens=120 first_tokens=1 "
        "first_token_nanoseconds=2964281559 decode_steps=45 decode_nanoseconds=2693510425 preemptions=0 "
        "prefix_cache_queries=14 prefix_cache_hits=0 prompt_tokens=14 finished_requests=1 "
        "end_to_end_nanoseconds=5657415628 running_requests=0 waiting_requests=0 kv_cache_usage=0"),
        (29, 18, 14, 13), 1795224832.0761836, ("vllm", "python", ("tiny-llama", "0")),
    ),
    "vllm-0.32.0-filtered-k4.prom": (
        "drafts=3014 draft_tokens=9778 accepted_tokens=7050",
        (2381, 1793, 1466, 1410), None, None,
    ),
    "vllm-0.32.0-rust.om": (
        ("drafts=200 draft_tokens=800 accepted_tokens=397 generation_tokens=606 first_tokens=6 "
        "first_token_nanoseconds=135000000 decode_steps=203 decode_nanoseconds=1625000000 preemptions=0 "
        "prefix_cache_queries=320 prefix_cache_hits=64 finished_requests=5 end_to_end_nanoseconds=2750000000 "
        "running_requests=2 waiting_requests=0 kv_cache_usage=0.015625"),
        (160, 120, 77, 40), None, ("vllm", "rust", ("Qwen/Qwen3-0.6B", "0")),
    ),
    "vllm-0.32.0-rust-fresh.om": (
        ("drafts=0 draft_tokens=0 accepted_tokens=0 generation_tokens=0 preemptions=0 prefix_cache_queries=0 "
        "prefix_cache_hits=0 running_requests=0.0 waiting_requests=0.0 kv_cache_usage=0.0"),
        (), None, ("vllm", "rust", ("tiny", "0")),
    ),
    "vllm-0.33.0-rust-k4.om": (
        ("drafts=9097 draft_tokens=36388 accepted_tokens=19883 generation_tokens=28795 first_tokens=291 "
        "decode_steps=9097 decode_nanoseconds=112285765378 preemptions=0 prefix_cache_queries=7997 "
        "prefix_cache_hits=0 prompt_tokens=7997 finished_requests=291 end_to_end_nanoseconds=118255316257 "
        "first_token_nanoseconds=5960788488 running_requests=0.0 waiting_requests=0.0 kv_cache_usage=0.0"),
        (5724, 5104, 4708, 4347), None, ("vllm", "rust", ("tiny", "0")),
    ),
    "vllm-0.33.0-python-k4.prom": (
        ("drafts=3287 draft_tokens=13148 accepted_tokens=8032 generation_tokens=11246 first_tokens=113 "
        "decode_steps=3287 decode_nanoseconds=42003770054 preemptions=0 prefix_cache_queries=3081 "
        "prefix_cache_hits=0 prompt_tokens=3081 finished_requests=113 end_to_end_nanoseconds=44889250040 "
        "first_token_nanoseconds=2885927439 running_requests=0.0 waiting_requests=0.0 kv_cache_usage=0.0"),
        (2300, 2064, 1902, 1766), 1795332234.7128363, ("vllm", "python", ("tiny", "0")),
    ),
    "vllm-ray.prom": (
        ("drafts=450 draft_tokens=1350 accepted_tokens=890 generation_tokens=1500 first_tokens=9 "
        "first_token_nanoseconds=375000000 decode_steps=465 decode_nanoseconds=3750000000 running_requests=7 "
        "waiting_requests=1 kv_cache_usage=0.5"),
        (450, 320, 120), None, ("vllm", "ray", ("qwen", "0")),
    ),
    "vllm-ray-old.prom": (
        ("drafts=450 draft_tokens=1350 accepted_tokens=890 generation_tokens=1500 first_tokens=9 "
        "first_token_nanoseconds=375000000 decode_steps=465 decode_nanoseconds=3750000000 running_requests=7 "
        "waiting_requests=1 kv_cache_usage=0.5"),
        (450, 320, 120), None, ("vllm", "ray", ("qwen", "0")),
    ),
    "vllm-mangled.prom": (
        ("drafts=33 draft_tokens=66 accepted_tokens=44 generation_tokens=99 decode_steps=33 "
        "decode_nanoseconds=250000000 running_requests=1"),
        (30, 14), None, ("vllm", "python", ("opt", "0")),
    ),
    "vllm-future.prom": (
        "drafts=100 draft_tokens=270 accepted_tokens=180 generation_tokens=330 running_requests=1",
        (90, 60, 30), 1795224832.0761836, None,
    ),
    "lmdeploy.prom": (
        ("drafts=210 draft_tokens=630 accepted_tokens=480 generation_tokens=700 first_tokens=7 "
        "first_token_nanoseconds=750000000 finished_requests=7 end_to_end_nanoseconds=20500000000 "
        "running_requests=2 waiting_requests=1 kv_cache_usage=0.5"),
        (200, 160, 120), None, ("lmdeploy", "", ("internlm3", "0")),
    ),
    "llamacpp.prom": (
        ("drafts=150 draft_tokens=700 accepted_tokens=290 generation_tokens=456 running_requests=1 "
        "waiting_requests=0"),
        (120, 90, 55, 25), None, ("llamacpp", "", ("", "0")),
    ),
    "sglang-tp2.prom": (
        ("generation_tokens=9001 first_tokens=44 first_token_nanoseconds=6500000000 running_requests=5 "
        "waiting_requests=2 kv_cache_usage=0.25 reported_acceptance_ratio=0.5833 "
        "reported_acceptance_length=2.75"),
        (), None, ("sglang", "", ("deepseek-v3", "0")),
    ),
}  # fmt: skip
"""By page: values, positions and creation time of its only sample; kind of engine, front end and engine."""


@pytest.mark.parametrize("name", EXPECTED)
def test_a_page_of_one_engine_has_the_expected_sample(name):
    values, positions, created, kind = EXPECTED[name]
    sample, reading = only(name), read(name)
    expected = {key: float(value) for key, value in (one.split("=") for one in values.split())}
    assert (told(sample), sample.positions, sample.created) == (expected, positions, created)
    assert kind is None or (reading.engine_kind, reading.front_end, *reading.samples) == kind


@pytest.mark.parametrize("name", ["vllm-0.32.0-rust-idle.om", "vllm-0.32.0-rust-k4.om"])
def test_a_page_of_the_rust_front_end_is_detected(name):
    assert read(name).front_end == "rust"


def test_an_openmetrics_page_with_creation_times_is_of_the_python_front_end():
    page = (PAGES / "vllm-0.33.0-python-k4.prom").read_bytes() + b"# EOF\n"
    assert read(page).front_end == "python"


def test_data_parallel_engines_have_one_sample_each():
    samples = read(DP2).samples
    assert list(samples) == [EngineName("tiny-llama", "0"), EngineName("tiny-llama", "1")]
    assert [sample[Counter.DECODE_NANOSECONDS] for sample in samples.values()] == [5979753687, 3096550506]
    assert {sample.positions for sample in samples.values()} == {(0, 0, 0)}


# What is left out.


def test_v0_is_detected_by_its_counter_of_emitted_tokens_even_without_its_gauges():
    page = (PAGES / "vllm-0.8.5-v1.prom").read_bytes()
    assert only(page)[Counter.DRAFTS] == 400
    mixed = read(page + b'vllm:spec_decode_num_emitted_tokens_total{model_name="m"} 5\n')
    assert mixed.front_end == "v0"
    assert {sample[Counter.DRAFTS] for sample in mixed.samples.values()} == {None}
    assert {sample.positions for sample in mixed.samples.values()} == {()}


def test_of_two_names_for_one_quantity_the_newest_is_read():
    old, new = (
        b'vllm:gpu_prefix_cache_hits_total{engine="0"} 5\n',
        b'vllm:prefix_cache_hits_total{engine="0"} 7\n',
    )
    assert only(old)[Counter.PREFIX_CACHE_HITS] == 5
    assert only(old + new)[Counter.PREFIX_CACHE_HITS] == 7
    assert only(new + old)[Counter.PREFIX_CACHE_HITS] == 7


def test_of_the_ranks_that_repeat_an_engine_the_lowest_counts():
    samples = read("sglang-dp-attention.prom").samples
    assert {name.engine: sample.gauge(Gauge.RUNNING_REQUESTS) for name, sample in samples.items()} == {
        "0": 5.0,
        "1": 6.0,
    }
    ranks = b"".join(b'sglang:num_running_reqs{tp_rank="%d"} %d\n' % (rank, rank) for rank in (10, 9, 2))
    assert only(ranks).gauge(Gauge.RUNNING_REQUESTS) == 2


def test_a_page_is_read_as_one_kind_of_engine():
    both = b"vllm:generation_tokens_total 5\nray_vllm_generation_tokens_total 7\nlmdeploy:generation_tokens_total 9\n"
    assert told(only(both)) == {"generation_tokens": 5}
    newer = b"vllm:gpu_cache_usage_perc 0.5\nvllm_kv_cache_usage_perc 0.7\n"
    assert told(only(newer)) == {"kv_cache_usage": 0.5}


# How samples are made of series.


def test_replicas_of_one_engine_add_up_and_their_usage_is_averaged():
    page = b"".join(
        b'ray_vllm_generation_tokens_total{ReplicaId="%d"} 1.5e3\nray_vllm_kv_cache_usage_perc{ReplicaId="%d"} 0.%d\n'
        % (number, number, number)
        for number in (2, 4, 6)
    )
    assert told(only(page)) == {"generation_tokens": 4500, "kv_cache_usage": pytest.approx(0.4)}


def test_a_position_that_is_missing_has_none_accepted():
    page = b'vllm:spec_decode_num_accepted_tokens_per_pos_total{position="3"} 5\n'
    assert only(page).positions == (0, 0, 0, 5)
    assert only("vllm-0.32.0-rust-idle.om").positions == ()


@pytest.mark.parametrize("position", ["-1", "1.0", "x", "", "²", "128", "99999999999999999999"])
def test_an_invalid_position_is_rejected(position):
    page = f'vllm:spec_decode_num_accepted_tokens_per_pos_total{{position="{position}"}} 5\n'.encode()
    with pytest.raises(PageError, match="position"):
        read(page)
    with pytest.raises(PageError, match="position"):
        read(b"vllm:spec_decode_num_accepted_tokens_per_pos_total 5\n")


@pytest.mark.parametrize("value", ["NaN", "-1", "-0.5", "+Inf", "-Inf", str(MAX_COUNT), "1e300"])
def test_a_value_that_no_counter_can_have_is_rejected(value):
    with pytest.raises(PageError, match="which no counter can have"):
        read(counter(value))


def test_decode_time_is_counted_in_nanoseconds():
    page = b"vllm:inter_token_latency_seconds_sum %s\n"
    assert only(page % b"0.0000000016")[Counter.DECODE_NANOSECONDS] == 2
    assert only(page % b"2.693510425277054")[Counter.DECODE_NANOSECONDS] == 2_693_510_425


def test_decode_time_of_many_requests_over_years_is_exact():
    """A hundred running requests add 100 s each second: 9e6 s within a day."""
    page = b"vllm:inter_token_latency_seconds_sum 3153600000.5\n"
    assert only(page)[Counter.DECODE_NANOSECONDS] == pytest.approx(3_153_600_000_500_000_000, rel=1e-15)


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-Inf", "-5", "-1e-9", "1e300", str(MOST + 1)])
def test_an_implausible_gauge_is_absent(value):
    page = f'vllm:num_requests_running{{engine="0"}} {value}\nvllm:num_requests_waiting{{engine="0"}} 2\n'
    assert told(only(page.encode())) == {"waiting_requests": 2}


def test_gauges_with_an_implausible_sum_are_absent():
    page = b"".join(b'ray_vllm_num_requests_running{ReplicaId="%d"} %d\n' % (n, MOST) for n in (1, 2))
    assert only(page).gauge(Gauge.RUNNING_REQUESTS) is None


def test_the_creation_time_of_replicas_is_that_of_the_youngest():
    page = b"".join(
        b'ray_vllm_generation_tokens_total{R="%d"} 1\nray_vllm_generation_tokens_created{R="%d"} 1.%de9\n'
        % (n, n, n)
        for n in (7, 9, 8)
    )
    assert only(page).created == 1.9e9


# Histograms.


def test_histograms_are_read_only_on_request():
    assert only(NGRAM).latencies is None
    latencies = only(NGRAM, with_latencies=True).latencies
    assert set(latencies) == set(Latency)
    steps = latencies[Latency.DECODE_STEP]
    assert steps.bounds[:3] == (0.01, 0.025, 0.05)
    assert steps.bounds[-1] == math.inf
    assert steps.counts[-1] == 45


def test_buckets_are_sorted_and_those_of_replicas_added_up():
    page = b"".join(
        b'ray_vllm_e2e_request_latency_seconds_bucket{R="%d",le="%s"} %d\n' % (replica, bound, count)
        for replica in (1, 2)
        for bound, count in ((b"+Inf", 5), (b"10", 3), (b"0.5", 1))
    )
    latencies = only(page, with_latencies=True).latencies
    assert latencies == {Latency.END_TO_END: Buckets((0.5, 10, math.inf), (2, 6, 10))}


def test_a_histogram_without_its_last_bucket_is_left_out():
    page = b'vllm:e2e_request_latency_seconds_bucket{le="1"} 5\n'
    assert only(page, with_latencies=True).latencies == {}
    page = b'vllm:request_generation_tokens_bucket{le="1"} 5\n'
    assert only(page, with_latencies=True).answer_lengths is None


@pytest.mark.parametrize(
    "labels",
    [
        "",
        *(f'{{le="{bound}"}}' for bound in ("", "x", "NaN", "-1", "-Inf", "1e10", "5" * 15_000 + "e-14999")),
    ],
)
def test_a_bucket_without_a_bound_is_rejected(labels):
    page = f"vllm:e2e_request_latency_seconds_bucket{labels} 5\n".encode()
    with pytest.raises(PageError, match="upper bound"):
        read(page, with_latencies=True)
    assert read(page + counter("1")).engine_kind == "vllm"


# Reading again.


@pytest.fixture
def first_readings(monkeypatch):
    """Count readings without a layout; layouts of other tests may wait for a garbage collection."""
    count = []
    monkeypatch.setattr(reader_module, "_shared", WeakValueDictionary())
    monkeypatch.setattr(
        reader_module,
        "read_layout",
        lambda *args, read=reader_module.read_layout: count.append(args) or read(*args),
    )
    return count


def test_a_page_of_a_known_layout_is_not_read_from_the_start(first_readings):
    reader = SampleReader()
    for with_latencies in (True, False, False, True, False):
        reading = reader.read(NGRAM.replace(b" 41.0\n", b" 42.0\n"), with_latencies=with_latencies)
        assert reading == read(NGRAM.replace(b" 41.0\n", b" 42.0\n"), with_latencies=with_latencies)
    assert len(first_readings) == 2 + 5


def test_replicas_share_one_layout_and_others_do_not():
    other = NGRAM.replace(b'"tiny-llama"', b'"other-llama"')
    readers = [SampleReader() for _ in range(3)]
    for reader, page in zip(readers, (NGRAM, NGRAM, other), strict=True):
        reader.read(page, with_latencies=True)
    one, same, another = (reader.shown for reader in readers)
    assert one is same
    assert one != another


def engines_page(engines: int, name: bytes = b"m") -> bytes:
    return b"".join(
        b'vllm:generation_tokens_total{model_name="%b",engine="%d"} 1\n' % (name, engine)
        for engine in range(engines)
    )


@pytest.mark.parametrize(
    ("page", "first", "known"),
    [
        (NGRAM, True, True),
        (engines_page(200) + b"#" * (QUICK_PAGE // 2) + b"\n", True, True),
        (engines_page(200) + b"#" * QUICK_PAGE + b"\n", False, True),
        (engines_page(200) + b"#\n" * QUICK_LINES, False, True),
        (engines_page(200) + b"#\n" * QUICK_KNOWN_LINES, False, False),
    ],
    ids=["vLLM's", "usual", "large", "many lines", "very many lines"],
)
def test_a_large_page_of_an_unknown_layout_is_left_to_a_thread(page, first, known):
    reader = SampleReader()
    assert (reader.read_quickly(page, with_latencies=False) is not None) == first
    reading = reader.read(page, with_latencies=False)
    assert reader.read_quickly(page, with_latencies=False) == (reading if known else None)


def test_threads_read_pages_at_the_same_time_as_the_event_loop():
    pages = [engines_page(100, b"%d" % number) for number in range(24)]

    def read_all(order):
        readers = [SampleReader(2**20) for _ in pages]
        return [
            len(reader.read(page, with_latencies=False).samples)
            for _ in range(3)
            for reader, page in list(zip(readers, pages, strict=True))[::order]
        ]

    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(read_all, [1, -1, 1, -1]))
    assert found == [[100] * len(pages) * 3] * 4


def test_a_page_that_cannot_be_read_leaves_the_reader_as_it_was():
    reader = SampleReader()
    reader.read(NGRAM, with_latencies=False)
    shown = reader.shown
    for page in (b"", b"<html>\n", NGRAM[:-5], NGRAM.replace(b" 41.0\n", b" -41.0\n")):
        with pytest.raises(PageError):
            reader.read(page, with_latencies=False)
    assert reader.shown == shown
    assert reader.read(NGRAM, with_latencies=False) == read(NGRAM)


def test_shown_series_are_those_of_the_pages_engines():
    reader = SampleReader()
    reader.read(
        FILTERED + b"process_start_time_seconds 1\nray_vllm_num_requests_running 1\nother 1\n",
        with_latencies=False,
    )
    assert reader.shown.names == {
        b"process_start_time_seconds",
        b"vllm:spec_decode_num_drafts_total",
        b"vllm:spec_decode_num_draft_tokens_total",
        b"vllm:spec_decode_num_accepted_tokens_total",
        b"vllm:spec_decode_num_accepted_tokens_per_pos_total",
    }
    assert len(reader.shown.series) == 1 + 3 + 4
    reader.read(NGRAM, with_latencies=True)
    assert b"vllm:inter_token_latency_seconds_bucket" in reader.shown.names
    assert all(not one.name.endswith(b"_bucket") for one in reader.shown.series)


_pages = st.sampled_from([path.read_bytes() for path in sorted(PAGES.glob("*.[op]*m"))])


@given(st.lists(st.tuples(_pages, st.booleans()), max_size=6))
def test_earlier_pages_do_not_affect_a_reading(polls):
    reader = SampleReader()
    for page, with_latencies in polls:
        assert reader.read(page, with_latencies=with_latencies) == read(page, with_latencies=with_latencies)


_lines = st.lists(
    st.builds(
        lambda name, labels, value: name + labels + b" " + value,
        st.sampled_from(sorted(MEANINGS)),
        st.sampled_from(
            [
                b"",
                b'{engine="0"}',
                b'{engine="1",position="2"}',
                b'{position="0",le="1"}',
                b'{le="+Inf"}',
                b'{tp_rank="1"}',
            ]
        ),
        st.sampled_from([b"1", b"0", b"NaN", b"-1", b"1e15", b"1e999", b"0.5"]),
    ),
    max_size=12,
    unique_by=lambda line: line.rpartition(b" ")[0],
)


@given(_lines, st.booleans())
def test_any_series_give_a_reading_or_a_page_error(lines, with_latencies):
    try:
        reading = read(b"\n".join([b"# any", *lines, b""]), with_latencies=with_latencies)
    except PageError:
        return
    for sample in reading.samples.values():
        assert all(value is None or (isinstance(value, int) and value >= 0) for value in sample.counters)
        for gauge, value in zip(Gauge, sample.gauges, strict=True):
            assert value is None or 0 <= value <= MAX_GAUGES[gauge]
        assert (sample.latencies is not None) == with_latencies


def test_layouts_are_kept_first_come_first_served_and_those_of_small_pages_always(first_readings):
    small, *large = [engines_page(3), *(engines_page(200, name) for name in (b"a", b"b", b"c"))]
    assert len(small) < SMALL_PAGE < len(large[0])
    pages = [*large, small]
    readers = [SampleReader(2 * len(large[0]) + len(small)) for _ in pages]
    for _ in range(3):
        for reader, page in zip(readers, pages, strict=True):
            assert reader.read(page, with_latencies=True).engine_kind == "vllm"
    assert len(first_readings) == 3 + 1 + 2
    del readers[0]
    for _ in range(2):
        readers[1].read(large[2], with_latencies=True)
    assert len(first_readings) == 3 + 1 + 2 + 1


@pytest.mark.parametrize(
    ("more", "created"),
    [
        (b"", None),
        (b"process_start_time_seconds 1.7e9\n", 1.7e9),
        (b"process_start_time_seconds NaN\n", None),
        (b'process_start_time_seconds{pid="1"} 1.7e9\nprocess_start_time_seconds{pid="2"} 1.8e9\n', None),
        (b'process_start_time_seconds 1.7e9\nvllm:generation_tokens_created{engine="0"} 1.8e9\n', 1.8e9),
    ],
)
def test_the_creation_time_is_that_of_the_counters_else_that_of_the_only_process(more, created):
    assert only(counter("1") + more).created == created
