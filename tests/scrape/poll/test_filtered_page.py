from __future__ import annotations

from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import pytest

from spec_decode_exporter.core.cooperative_yield import finish
from spec_decode_exporter.scrape.page.layout_map import PageSeries
from spec_decode_exporter.scrape.page.sample_reader import SampleReader
from spec_decode_exporter.scrape.poll.filtered_page import PageChoice, filtered_url, wanted_names

PAGES = Path(__file__).parents[2] / "pages"
URL = "http://vllm:8000/metrics"


def shown(name: str, *, with_latencies=True) -> PageSeries:
    reader = SampleReader()
    finish(reader.read((PAGES / name).read_bytes(), with_latencies=with_latencies))
    return reader.shown


NGRAM = "vllm-0.32.0-python-ngram-k4.prom"


def without(whole: PageSeries, name: bytes) -> PageSeries:
    return PageSeries(whole.names - {name}, frozenset(one for one in whole.series if one.name != name))


def answer(whole: PageSeries, names: set[bytes]) -> PageSeries:
    """What a server shows that gives just the samples it is asked for."""
    return PageSeries(whole.names & names, frozenset(one for one in whole.series if one.name in names))


def asked(url: str) -> set[bytes]:
    return {value.encode() for name, value in parse_qsl(urlsplit(url).query) if name == "name[]"}


@pytest.fixture
def choice():
    """A choice that has seen the whole page of a server."""
    choice = PageChoice(URL, enabled=True)
    choice.learn(shown(NGRAM), with_latencies=True)
    return choice


# The address.


@pytest.mark.parametrize(
    ("url", "filtered"),
    [
        ("http://h:1/metrics", "http://h:1/metrics/?name[]=vllm:a&name[]=b_c"),
        ("http://h:1/metrics/", "http://h:1/metrics/?name[]=vllm:a&name[]=b_c"),
        ("http://h:1", "http://h:1/?name[]=vllm:a&name[]=b_c"),
        (
            "https://h/x/metrics?token=%2Fa&b=c%20d",
            "https://h/x/metrics/?token=%2Fa&b=c%20d&name[]=vllm:a&name[]=b_c",
        ),
        ("http://[::1]:8/m?name[]=up", "http://[::1]:8/m/?name[]=up&name[]=vllm:a&name[]=b_c"),
    ],
)
def test_the_filtered_page_is_at_the_path_with_a_slash_and_keeps_the_query(url, filtered):
    assert filtered_url(url, ["vllm:a", "b_c"]) == filtered


def test_what_does_not_belong_into_a_query_is_percent_encoded():
    assert filtered_url("http://h/", ["a&b=c d#e%"]) == "http://h/?name[]=a%26b%3Dc%20d%23e%25"


def test_the_longest_address_is_short_enough_for_any_server():
    """8 kB is the least of the common bounds."""
    for page in PAGES.glob("*.[op]*m"):
        names = wanted_names(shown(page.name).names, with_latencies=True)
        assert len(filtered_url(URL, names)) < 2500


# Which names are asked for.


def test_names_are_asked_for_as_the_page_has_them():
    names = wanted_names(shown("vllm-0.8.5-v1.prom").names, with_latencies=True)
    assert {"vllm:gpu_prefix_cache_hits_total", "vllm:time_per_output_token_seconds_bucket"} <= set(names)
    assert not any("inter_token" in name or ":prefix" in name or "created" in name for name in names)
    assert names == sorted(set(names))


def test_of_two_names_only_the_one_that_is_read_is_asked_for():
    names = wanted_names(shown("vllm-0.10.2.prom").names, with_latencies=True)
    assert "vllm:inter_token_latency_seconds_sum" in names
    assert not any("gpu_" in name or ":time_per_output" in name for name in names)


def test_buckets_are_only_asked_for_with_the_latencies():
    present = shown(NGRAM).names
    few, many = (set(wanted_names(present, with_latencies=one)) for one in (False, True))
    assert {name for name in many if name.endswith("_bucket")} == many - few
    assert len(many - few) == 5


def test_counters_of_speculation_are_asked_for_although_they_may_come_later():
    rust = wanted_names(shown("vllm-0.32.0-rust-idle.om").names, with_latencies=False)
    assert "vllm:spec_decode_num_accepted_tokens_per_pos_total" in rust
    ray = wanted_names(frozenset({b"ray_vllm_num_requests_running"}), with_latencies=False)
    assert ray == [
        "ray_vllm_num_requests_running",
        "ray_vllm_spec_decode_num_accepted_tokens_per_pos_total",
        "ray_vllm_spec_decode_num_accepted_tokens_total",
        "ray_vllm_spec_decode_num_draft_tokens_total",
        "ray_vllm_spec_decode_num_drafts_total",
    ]


def test_the_process_start_is_only_asked_for_where_no_counter_tells_when_it_began():
    assert "process_start_time_seconds" not in wanted_names(shown(NGRAM).names, with_latencies=False)
    assert "process_start_time_seconds" in wanted_names(shown("vllm-0.10.2.prom").names, with_latencies=False)


@pytest.mark.parametrize("present", [frozenset(), frozenset({b"process_start_time_seconds"})])
def test_nothing_is_asked_for_where_no_engine_was_seen(present):
    assert wanted_names(present, with_latencies=True) == []
    choice = PageChoice(URL, enabled=True)
    choice.learn(PageSeries(present), with_latencies=True)
    assert choice.filtered(with_latencies=True) is None


# Which page is asked for.


def test_the_whole_page_comes_first():
    choice = PageChoice(URL, enabled=True)
    assert choice.filtered(with_latencies=False) is None
    assert choice.filtered(with_latencies=True) is None


def test_then_the_filtered_one_of_either_tier(choice):
    few, many = (asked(choice.filtered(with_latencies=one)) for one in (False, True))
    assert few < many
    assert b"vllm:spec_decode_num_drafts_total" in few


def test_histograms_are_not_asked_for_before_they_were_seen():
    choice = PageChoice(URL, enabled=True)
    choice.learn(shown(NGRAM, with_latencies=False), with_latencies=False)
    assert choice.filtered(with_latencies=False)
    assert choice.filtered(with_latencies=True) is None


def test_a_server_without_histograms_is_asked_for_filtered_pages_all_the_same():
    choice = PageChoice(URL, enabled=True)
    for with_latencies in (False, True):
        choice.learn(shown("llamacpp.prom"), with_latencies=with_latencies)
    assert choice.filtered(with_latencies=True) == choice.filtered(with_latencies=False) != None  # noqa: E711


def test_a_choice_that_is_switched_off_stays_with_the_whole_page():
    choice = PageChoice(URL, enabled=False)
    choice.learn(shown(NGRAM), with_latencies=True)
    assert choice.filtered(with_latencies=False) is None


@pytest.mark.parametrize("with_latencies", [False, True])
def test_a_page_with_all_that_was_asked_for_is_complete(choice, with_latencies):
    names = asked(choice.filtered(with_latencies=with_latencies))
    assert choice.is_complete(answer(shown(NGRAM), names), with_latencies=with_latencies)


@pytest.mark.parametrize("with_latencies", [False, True])
def test_a_page_that_lacks_a_name_is_not(choice, with_latencies):
    names = asked(choice.filtered(with_latencies=with_latencies))
    for name in names:
        assert not choice.is_complete(answer(shown(NGRAM), names - {name}), with_latencies=with_latencies)
    assert not choice.is_complete(PageSeries(), with_latencies=with_latencies)


def test_nor_is_one_that_lacks_a_series(choice):
    whole = shown(NGRAM)
    for series in whole.series:
        if series.name in asked(choice.filtered(with_latencies=False)):
            page = PageSeries(whole.names, whole.series - {series})
            assert not choice.is_complete(page, with_latencies=False)


def test_a_filtered_page_may_bring_more_and_then_has_to_go_on_doing_so(choice):
    whole = shown(NGRAM)
    fewer = PageSeries(
        whole.names, frozenset(one for one in whole.series if dict(one.labels).get("position") != "3")
    )
    choice.learn(fewer, with_latencies=True)
    assert choice.is_complete(fewer, with_latencies=False)
    assert choice.is_complete(whole, with_latencies=False)
    choice.trust(whole)
    assert choice.is_complete(whole, with_latencies=False)
    assert not choice.is_complete(fewer, with_latencies=False)


def test_what_the_whole_page_no_longer_has_is_no_longer_expected(choice):
    whole = shown(NGRAM)
    fewer = PageSeries(
        whole.names, frozenset(one for one in whole.series if dict(one.labels).get("position") != "3")
    )
    assert not choice.is_complete(fewer, with_latencies=False)
    choice.learn(fewer, with_latencies=False)
    assert choice.is_complete(fewer, with_latencies=False)


def test_a_new_series_on_the_whole_page_is_asked_for_from_then_on():
    choice = PageChoice(URL, enabled=True)
    whole, late = shown(NGRAM), b"vllm:num_preemptions_total"
    choice.learn(without(whole, late), with_latencies=True)
    assert late not in asked(choice.filtered(with_latencies=False))
    choice.learn(whole, with_latencies=True)
    assert late in asked(choice.filtered(with_latencies=False))
    assert late in asked(choice.filtered(with_latencies=True))


def test_each_tier_is_refused_on_its_own(choice):
    choice.refuse(with_latencies=True)
    assert choice.filtered(with_latencies=True) is None
    assert choice.filtered(with_latencies=False)
    choice.learn(shown(NGRAM), with_latencies=True)
    assert choice.filtered(with_latencies=True) is None


def test_two_requests_that_came_to_nothing_are_too_many(choice):
    choice.doubt(with_latencies=False)
    assert choice.filtered(with_latencies=False)
    choice.doubt(with_latencies=False)
    assert choice.filtered(with_latencies=False) is None
    assert choice.filtered(with_latencies=True)


def test_unless_there_was_an_answer_between_them(choice):
    for _ in range(5):
        choice.doubt(with_latencies=False)
        choice.trust(shown(NGRAM))
    assert choice.filtered(with_latencies=False)


def test_all_is_forgotten_with_a_restart(choice):
    choice.refuse(with_latencies=False)
    choice.reset()
    assert choice.filtered(with_latencies=True) is None
    choice.learn(shown("vllm-0.32.0-rust.om"), with_latencies=True)
    assert asked(choice.filtered(with_latencies=False)) & {b"vllm:spec_decode_num_drafts_created"} == set()
