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
    """Return the series on a page with only the requested names."""
    return PageSeries(whole.names & names, frozenset(one for one in whole.series if one.name in names))


def asked(url: str) -> set[bytes]:
    return {value.encode() for name, value in parse_qsl(urlsplit(url).query) if name == "name[]"}


@pytest.fixture
def choice():
    """Return a choice that has read the whole page of a server."""
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


def test_other_characters_are_percent_encoded_in_the_query():
    assert filtered_url("http://h/", ["a&b=c d#e%"]) == "http://h/?name[]=a%26b%3Dc%20d%23e%25"


def test_the_longest_address_is_short_enough_for_any_server():
    """8 kB is the lowest common limit."""
    for page in PAGES.glob("*.[op]*m"):
        names = wanted_names(shown(page.name).names, with_latencies=True)
        assert len(filtered_url(URL, names)) < 2500


# Which names are asked for.


def test_names_are_requested_as_the_page_has_them():
    names = wanted_names(shown("vllm-0.8.5-v1.prom").names, with_latencies=True)
    assert {"vllm:gpu_prefix_cache_hits_total", "vllm:time_per_output_token_seconds_bucket"} <= set(names)
    assert not any("inter_token" in name or ":prefix" in name or "created" in name for name in names)
    assert names == sorted(set(names))


def test_of_two_names_only_the_newest_is_requested():
    names = wanted_names(shown("vllm-0.10.2.prom").names, with_latencies=True)
    assert "vllm:inter_token_latency_seconds_sum" in names
    assert not any("gpu_" in name or ":time_per_output" in name for name in names)


def test_buckets_are_requested_only_with_latencies():
    present = shown(NGRAM).names
    few, many = (set(wanted_names(present, with_latencies=one)) for one in (False, True))
    assert {name for name in many if name.endswith("_bucket")} == many - few
    assert len(many - few) == 6


def test_absent_counters_of_speculation_are_requested_too():
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


def test_the_process_start_is_requested_only_without_creation_times():
    assert "process_start_time_seconds" not in wanted_names(shown(NGRAM).names, with_latencies=False)
    assert "process_start_time_seconds" in wanted_names(shown("vllm-0.10.2.prom").names, with_latencies=False)


@pytest.mark.parametrize("present", [frozenset(), frozenset({b"process_start_time_seconds"})])
def test_without_an_engine_no_names_are_requested(present):
    assert wanted_names(present, with_latencies=True) == []
    choice = PageChoice(URL, enabled=True)
    choice.learn(PageSeries(present), with_latencies=True)
    assert choice.filtered(with_latencies=True) is None


# Which page is asked for.


def test_the_whole_page_comes_first():
    choice = PageChoice(URL, enabled=True)
    assert choice.filtered(with_latencies=False) is None
    assert choice.filtered(with_latencies=True) is None


def test_after_it_comes_the_filtered_page_of_either_tier(choice):
    few, many = (asked(choice.filtered(with_latencies=one)) for one in (False, True))
    assert few < many
    assert b"vllm:spec_decode_num_drafts_total" in few


def test_histograms_are_not_requested_before_a_whole_page_with_them():
    choice = PageChoice(URL, enabled=True)
    choice.learn(shown(NGRAM, with_latencies=False), with_latencies=False)
    assert choice.filtered(with_latencies=False)
    assert choice.filtered(with_latencies=True) is None


def test_a_server_without_histograms_gets_filtered_requests_too():
    choice = PageChoice(URL, enabled=True)
    for with_latencies in (False, True):
        choice.learn(shown("llamacpp.prom"), with_latencies=with_latencies)
    assert choice.filtered(with_latencies=True) == choice.filtered(with_latencies=False) != None  # noqa: E711


def test_a_disabled_choice_stays_with_the_whole_page():
    choice = PageChoice(URL, enabled=False)
    choice.learn(shown(NGRAM), with_latencies=True)
    assert choice.filtered(with_latencies=False) is None


@pytest.mark.parametrize("with_latencies", [False, True])
def test_a_page_with_all_requested_series_is_complete(choice, with_latencies):
    names = asked(choice.filtered(with_latencies=with_latencies))
    assert choice.is_complete(answer(shown(NGRAM), names), with_latencies=with_latencies)


@pytest.mark.parametrize("with_latencies", [False, True])
def test_a_page_without_a_requested_name_is_incomplete(choice, with_latencies):
    names = asked(choice.filtered(with_latencies=with_latencies))
    for name in names:
        assert not choice.is_complete(answer(shown(NGRAM), names - {name}), with_latencies=with_latencies)
    assert not choice.is_complete(PageSeries(), with_latencies=with_latencies)


def test_a_page_without_an_expected_series_is_incomplete(choice):
    whole = shown(NGRAM)
    for series in whole.series:
        if series.name in asked(choice.filtered(with_latencies=False)):
            page = PageSeries(whole.names, whole.series - {series})
            assert not choice.is_complete(page, with_latencies=False)


def test_additional_series_of_a_filtered_page_are_required_afterwards(choice):
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


def test_a_series_that_vanished_from_the_whole_page_is_not_expected(choice):
    whole = shown(NGRAM)
    fewer = PageSeries(
        whole.names, frozenset(one for one in whole.series if dict(one.labels).get("position") != "3")
    )
    assert not choice.is_complete(fewer, with_latencies=False)
    choice.learn(fewer, with_latencies=False)
    assert choice.is_complete(fewer, with_latencies=False)


def test_a_new_series_on_the_whole_page_is_requested_afterwards():
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


def test_two_consecutive_failed_requests_refuse_the_filtered_page(choice):
    choice.doubt(with_latencies=False)
    assert choice.filtered(with_latencies=False)
    choice.doubt(with_latencies=False)
    assert choice.filtered(with_latencies=False) is None
    assert choice.filtered(with_latencies=True)


def test_failed_requests_with_a_success_between_them_refuse_nothing(choice):
    for _ in range(5):
        choice.doubt(with_latencies=False)
        choice.trust(shown(NGRAM))
    assert choice.filtered(with_latencies=False)


def test_a_reset_drops_all_knowledge_of_pages(choice):
    choice.refuse(with_latencies=False)
    choice.reset()
    assert choice.filtered(with_latencies=True) is None
    choice.learn(shown("vllm-0.32.0-rust.om"), with_latencies=True)
    assert asked(choice.filtered(with_latencies=False)) & {b"vllm:spec_decode_num_drafts_created"} == set()
