"""Samples of engines: what each page means, and readings of later pages."""

from __future__ import annotations

import math
from weakref import WeakValueDictionary

import pytest
import yaml

from spec_decode_exporter.scrape import sample as reader_module
from spec_decode_exporter.scrape.engines import ENGINES, REPLICA_LABELS, Counter, Gauge, Latency
from spec_decode_exporter.scrape.errors import PageError
from spec_decode_exporter.scrape.sample import (
    COMPARED_EVERY,
    MAX_COUNT,
    MAX_GAUGES,
    QUICK_KNOWN_LINES,
    QUICK_LINES,
    QUICK_PAGE,
    SMALL_PAGE,
    Buckets,
    EngineName,
    EnginePlaces,
    SampleReader,
)
from tests.paths import DATA

MOST = MAX_GAUGES[Gauge.RUNNING_REQUESTS]
PAGES = DATA / "pages"
SAMPLES = yaml.safe_load((PAGES / "samples.yml").read_text())
NGRAM = (PAGES / "vllm-0.32.0-python-ngram-k4.prom").read_bytes()
DP2 = (PAGES / "vllm-0.32.0-python-dp2-multiapi-k3.prom").read_bytes()


def read(page: bytes | str, *, with_latencies=False):
    page = page if isinstance(page, bytes) else (PAGES / page).read_bytes()
    return SampleReader().read(page, with_latencies=with_latencies)


def only(page: bytes | str, *, with_latencies=False):
    [sample] = read(page, with_latencies=with_latencies).samples.values()
    return sample


def told(sample) -> dict[str, float]:
    values = [*zip(Counter, sample.counters, strict=True), *zip(Gauge, sample.gauges, strict=True)]
    return {quantity.name.lower(): value for quantity, value in values if value is not None}


def each(template: str, *values: object) -> bytes:
    """Return a page with the line for each value; ``%`` stands for the value."""
    return "".join(template.replace("%", str(value)) + "\n" for value in values).encode()


GENERATED = 'vllm:generation_tokens_total{engine="0"} %'
GENERATED_1 = each(GENERATED, 1)


# Engines and versions.


def test_a_routers_page_has_no_engine_and_a_server_that_names_a_server_has_one():
    assert not read("routers/production-stack.prom").samples
    relabelled = NGRAM.replace(b'model_name="', b'server="http://10.0.0.1:8000",model_name="')
    assert relabelled != NGRAM
    assert read(relabelled)._replace(shown=read(NGRAM).shown) == read(NGRAM)
    assert read(b'vllm:generation_tokens_total{server="http://10.0.0.1:8000",model_name="m"} 5\n').samples


def test_the_kv_cache_is_that_of_the_first_engine():
    caches = (
        f'vllm:cache_config_info{{engine="{n}",num_gpu_blocks="{n + 5}",block_size="16"}} 1' for n in range(3)
    )
    assert read("\n".join([*caches, ""]).encode()).kv_cache == (80, "")


@pytest.mark.parametrize("name", SAMPLES)
def test_a_page_of_one_engine_has_the_expected_sample(name):
    expected = SAMPLES[name]
    sample, reading = only(name), read(name)
    assert told(sample) == expected["values"]
    assert sample.positions == tuple(expected.get("positions", ()))
    assert sample.drafted == tuple(expected.get("drafted", ()))
    assert sample.created == expected.get("created")
    if "engine" in expected:
        found = reading.engine_kind, reading.front_end, *next(iter(reading.samples))
        assert list(found) == expected["engine"]


def test_a_page_in_openmetrics_with_creation_times_is_pythons():
    assert read((PAGES / "vllm-0.33.0-python-k4.prom").read_bytes() + b"# EOF\n").front_end == "python"


def test_data_parallel_engines_have_one_sample_each():
    samples = read(DP2).samples
    assert list(samples) == [EngineName("tiny-llama", "0"), EngineName("tiny-llama", "1")]
    assert [sample[Counter.DECODE_NANOSECONDS] for sample in samples.values()] == [5979753687, 3096550506]
    assert {sample.positions for sample in samples.values()} == {(0, 0, 0)}


def test_a_series_with_a_name_of_v0_alone_such_as_a_recording_rule_makes_no_v0():
    page = (PAGES / "vllm-0.8.5-v1.prom").read_bytes()
    rule = b'vllm:spec_decode_efficiency{model_name="facebook/opt-125m"} 0.7\n'
    gauge = b'vllm:spec_decode_draft_acceptance_rate{model_name="facebook/opt-125m"} 0.7\n'
    for added in (rule, rule + gauge):
        mixed = read(page + added)
        assert (mixed.front_end, only(page + added)[Counter.DRAFTS]) == ("python", 400)
    generated = each(GENERATED, 5) + rule
    assert (read(generated).front_end, read(generated + gauge).front_end) == ("python", "v0")


@pytest.mark.parametrize("label", REPLICA_LABELS)
def test_a_label_of_replicas_or_stages_divides_the_engines_of_a_page(label):
    template = f'vllm:num_requests_running{{engine="0",model_name="m",{label}="%"}} %\n'
    samples = read("".join(template.replace("%", str(load)) for load in (3, 4)).encode()).samples
    running = {name.engine: sample.gauge(Gauge.RUNNING_REQUESTS) for name, sample in samples.items()}
    assert running == {"0@3": 3.0, "0@4": 4.0}


def test_replicas_are_told_apart_where_drafts_have_no_number_of_their_engine():
    drafts = each('sglang:spec_verify_calls_total{model_name="m",ReplicaId="%"} 5', "a", "b")
    load = each('sglang:num_running_reqs{model_name="m",dp_rank="1",ReplicaId="%"} 2', "a", "b")
    assert [name.engine for name in read(drafts + load).samples] == ["0@a", "0@b"]


def test_stages_have_replicas_and_of_rays_two_labels_the_replica_counts():
    page = each('vllm:num_requests_running{stage="%",replica="1",model_name="m"} 2', "thinker", "talker")
    assert [name.engine for name in read(page).samples] == ["0@thinker/1", "0@talker/1"]
    for name in ("vllm-ray.prom", "vllm-ray-old.prom"):
        samples = read(name).samples
        assert [name.engine for name in samples] == ["0@zvh2lx90", "0@k2mm3d0p"]
        assert [sample[Counter.DRAFTS] for sample in samples.values()] == [300, 150]
        assert [sample.gauge(Gauge.RUNNING_REQUESTS) for sample in samples.values()] == [3.0, 4.0]


def test_of_the_ranks_that_repeat_an_engine_the_lowest_counts():
    page = (PAGES / "sglang-dp-attention.prom").read_bytes().replace(b"spec_verify_calls", b"spec_calls")
    samples = read(page).samples
    running = {name.engine: sample.gauge(Gauge.RUNNING_REQUESTS) for name, sample in samples.items()}
    assert running == {"0": 5.0, "1": 6.0}
    priorities = each('sglang:num_running_reqs{priority="%"} 7', "", 1, 2)
    assert told(only(priorities)) == {"running_requests": 7}
    ranks = each('sglang:num_running_reqs{tp_rank="%"} %', 10, 9, 2)
    assert told(only(ranks)) == {"running_requests": 2}


def test_engines_whose_drafts_are_counted_together_are_one():
    values = told(only("sglang-dp-attention.prom"))
    assert (values["drafts"], values["running_requests"], values["waiting_requests"]) == (3200, 11, 5)
    assert (values["kv_cache_usage"], values["reported_acceptance_length"]) == (0.25, 2.75)


# Series of one engine.

OLD, NEW = (
    b'vllm:gpu_prefix_cache_hits_total{engine="0"} 5\n',
    b'vllm:prefix_cache_hits_total{engine="0"} 7\n',
)
LATENCY = "vllm:inter_token_latency_seconds_sum %"


@pytest.mark.parametrize(
    ("page", "values"),
    [
        pytest.param(OLD, {"prefix_cache_hits": 5}, id="an older name alone"),
        pytest.param(OLD + NEW, {"prefix_cache_hits": 7}, id="the newest of two names"),
        pytest.param(NEW + OLD, {"prefix_cache_hits": 7}, id="the newest of two names, first"),
        pytest.param(
            b"vllm:gpu_cache_usage_perc 0.5\nvllm_kv_cache_usage_perc 0.7\n", {"kv_cache_usage": 0.5},
            id="one prefix of a page",
        ),
        pytest.param(
            b"vllm:generation_tokens_total 5\nray_vllm_generation_tokens_total 7\nlmdeploy:generation_tokens_total 9\n",
            {"generation_tokens": 5}, id="one kind of engine of a page",
        ),
        pytest.param(
            each('ray_vllm_generation_tokens_total{R="%"} 1.5e3\nray_vllm_kv_cache_usage_perc{R="%"} 0.%', 2, 4, 6),
            {"generation_tokens": 4500, "kv_cache_usage": pytest.approx(0.4)}, id="replicas: a sum, and a mean of shares",
        ),
        pytest.param(
            each(f'ray_vllm_num_requests_running{{R="%"}} {MOST}\nray_vllm_num_requests_waiting{{R="%"}} 1', 1, 2),
            {"waiting_requests": 2}, id="gauges with an implausible sum",
        ),
        *(
            pytest.param(
                each("vllm:num_requests_running %", value) + b"vllm:num_requests_waiting 2\n", {"waiting_requests": 2},
                id=f"implausible gauge {value}",
            )
            for value in ("NaN", "+Inf", "-Inf", "-5", "-1e-9", "1e300", MOST + 1)
        ),
        *(
            pytest.param(each(LATENCY, seconds), {"decode_nanoseconds": nanoseconds}, id=f"{seconds} s")
            for seconds, nanoseconds in (("0.0000000016", 2), ("2.693510425277054", 2_693_510_425), (
                "3153600000.5", pytest.approx(3_153_600_000_500_000_000, rel=1e-15)))
        ),
    ],
)  # fmt: skip
def test_the_values_of_a_sample_are_made_of_its_series(page, values):
    assert told(only(page)) == values


@pytest.mark.parametrize("value", ["NaN", "-1", "-0.5", "+Inf", "-Inf", str(MAX_COUNT), "1e300"])
def test_a_value_that_no_counter_can_have_is_rejected(value):
    with pytest.raises(PageError, match="which no counter can have"):
        read(each(GENERATED, value))
    alone = EnginePlaces({(counter, 0): [place] for place, counter in enumerate(Counter)}, ENGINES[0])
    with pytest.raises(PageError, match="which no counter can have"):  # also where each counter is one series
        alone.sample([1.0] * (len(Counter) - 1) + [float(value)], None, with_latencies=False)


POSITION = "vllm:spec_decode_num_accepted_tokens_per_pos_total"


def test_a_position_that_is_missing_has_none_accepted():
    assert only(each(f'{POSITION}{{position="%"}} 5', 3)).positions == (0, 0, 0, 5)
    assert only("vllm-0.32.0-rust-idle.om").positions == ()


@pytest.mark.parametrize("position", [None, "-1", "1.0", "x", "", "²", "99999999999999999999"], ids=ascii)
def test_an_invalid_position_is_rejected(position):
    labels = "" if position is None else f'{{position="{position}"}}'
    with pytest.raises(PageError, match="position"):
        read(f"{POSITION}{labels} 5\n".encode())


def test_a_count_of_draft_tokens_without_a_position_names_the_labels_of_all_engines():
    with pytest.raises(PageError, match=r"draft tokens has no .* label position or token_position"):
        read(b"trtllm_spec_decode_drafted_tokens_total 5\n")


@pytest.mark.parametrize(("first", "known"), [(0, False), (9, True)])
def test_without_drafts_that_have_the_first_position_nothing_of_drafts_is_known(first, known):
    numbers = {"drafted": (first, 8, 7), "accepted": (6, 5, 4)}
    lines = [
        f'trtllm_spec_decode_{name}_tokens_total{{token_position="{place}"}} {number}'
        for name, counts in numbers.items()
        for place, number in enumerate(counts)
        if number
    ]
    sample = only("\n".join([*lines, ""]).encode())
    assert sample.counters[:3] == ((9, 24, 15) if known else (None, None, None))
    assert (sample.drafted, sample.positions) == (tuple(numbers.values()) if known else ((), ()))


START = b"process_start_time_seconds"
CREATED = b"vllm:generation_tokens_created"


@pytest.mark.parametrize(
    ("more", "created"),
    [
        (b"", None),
        (START + b" 1.7e9\n", 1.7e9),
        (START + b" NaN\n", None),
        (START + b'{pid="1"} 1.7e9\n' + START + b'{pid="2"} 1.8e9\n', None),
        (START + b" 1.7e9\n" + CREATED + b'{engine="0"} 1.8e9\n', 1.8e9),
        (b"".join(CREATED + b'{engine="0",R="%d"} 1.%de9\n' % (n, n) for n in (7, 9, 8)), 1.9e9),
    ],
    ids=["unknown", "process", "not a number", "two processes", "counter before process", "youngest replica"],
)
def test_the_creation_time_is_that_of_the_counters_else_that_of_the_only_process(more, created):
    assert only(GENERATED_1 + more).created == created


# Histograms.


def test_histograms_are_read_only_on_request():
    assert only(NGRAM).latencies is None
    latencies = only(NGRAM, with_latencies=True).latencies
    assert set(latencies) == set(Latency)
    steps = latencies[Latency.DECODE_STEP]
    assert (steps.bounds[:3], steps.bounds[-1], steps.counts[-1]) == ((0.01, 0.025, 0.05), math.inf, 45)


def test_buckets_are_sorted_and_those_of_replicas_added_up():
    page = b"".join(
        b'ray_vllm_e2e_request_latency_seconds_bucket{R="%d",le="%s"} %d\n' % (replica, bound, count)
        for replica in (1, 2)
        for bound, count in ((b"+Inf", 5), (b"10", 3), (b"0.5", 1))
    )
    latencies = only(page, with_latencies=True).latencies
    assert latencies == {Latency.END_TO_END: Buckets((0.5, 10, math.inf), (2, 6, 10))}


def test_a_histogram_without_its_last_bucket_is_left_out():
    for name in ("e2e_request_latency_seconds", "request_generation_tokens"):
        sample = only(each('vllm:%_bucket{le="1"} 5', name), with_latencies=True)
        assert (sample.latencies, sample.answer_lengths) == ({}, None)


@pytest.mark.parametrize("bound", [None, "", "x", "NaN", "-1", "-Inf", "1e10", "5" * 15_000 + "e-14999"])
def test_a_bucket_without_a_bound_is_rejected(bound):
    labels = "" if bound is None else f'{{le="{bound}"}}'
    page = f"vllm:e2e_request_latency_seconds_bucket{labels} 5\n".encode()
    with pytest.raises(PageError, match="upper bound"):
        read(page, with_latencies=True)
    assert read(page + GENERATED_1).engine_kind == "vllm"


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
    reader, page = SampleReader(), NGRAM.replace(b" 41.0\n", b" 42.0\n")
    for with_latencies in (True, False, False, True, False):
        assert reader.read(page, with_latencies=with_latencies) == read(page, with_latencies=with_latencies)
    assert len(first_readings) == 2 + 5


ENGINE = 'vllm:generation_tokens_total{model_name="MODEL",engine="%"} 1'
ENGINES_200 = each(ENGINE, *range(200))


@pytest.mark.parametrize(
    ("page", "first", "known"),
    [
        (NGRAM, True, True),
        (ENGINES_200 + b"#" * (QUICK_PAGE // 2) + b"\n", True, True),
        (ENGINES_200 + b"#" * QUICK_PAGE + b"\n", False, True),
        (ENGINES_200 + b"#\n" * QUICK_LINES, False, True),
        (ENGINES_200 + b"#\n" * QUICK_KNOWN_LINES, False, False),
    ],
    ids=["vLLM's", "usual", "large", "many lines", "very many lines"],
)
def test_a_large_page_of_an_unknown_layout_is_left_to_a_thread(page, first, known):
    reader = SampleReader()
    assert (reader.read_quickly(page, with_latencies=False) is not None) == first
    reading = reader.read(page, with_latencies=False)
    assert reader.read_quickly(page, with_latencies=False) == (reading if known else None)


@pytest.mark.parametrize(
    ("changed", "polls"),
    [
        (NGRAM.replace(b'engine="0"', b'engine="1"'), 1),
        (NGRAM + each(ENGINE, 0), 1),
        (NGRAM.replace(b"# TYPE vllm:num_requests_running gauge\n", each(ENGINE, 0)), COMPARED_EVERY),
    ],
    ids=["a wanted line", "one more", "an unwanted line"],
)
def test_another_page_is_seen_at_once_unless_a_line_takes_the_place_of_one_that_is_not_read(changed, polls):
    reader, other = SampleReader(), read(changed, with_latencies=False)
    before = reader.read_quickly(NGRAM, with_latencies=False)
    assert other.samples != before.samples
    seen = [reader.read_quickly(changed, with_latencies=False) for _ in range(polls)]
    assert seen[-1] == other


def test_layouts_are_kept_first_come_first_served_and_those_of_small_pages_always(first_readings):
    small, large = each(ENGINE, 0, 1, 2), [ENGINES_200.replace(b"MODEL", name) for name in (b"a", b"b", b"c")]
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
