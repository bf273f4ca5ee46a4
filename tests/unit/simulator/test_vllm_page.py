"""Pages of both front ends, compared with those of a real vLLM."""

from __future__ import annotations

import re

import pytest
from prometheus_client.parser import text_string_to_metric_families

from spec_decode_exporter.simulator.vllm_page import metrics_page
from tests.fakes.simulated_history import wanted_samples

START = 1_795_224_832.0
# Left out: they are of the web framework, count requests for completions, and nothing here reads them.
LEFT_OUT = re.compile(r"^(# (HELP|TYPE) )?http_")
DRAFTS = "vllm:spec_decode_num_drafts_total"


def lines(page):
    """Return the comments, and the series without their values."""
    kept = (line for line in page.splitlines() if not LEFT_OUT.match(line))
    return {line if line.startswith("#") else line.rpartition(" ")[0] for line in kept}


@pytest.fixture
def page_like(make_simulation):
    """Function that returns the page of the server of a recording after a minute."""

    def make(names=(), **keys):
        simulation = make_simulation(
            **{"model_name": "tiny-llama", "machine": {"max_model_len": 1024}, **keys}
        )
        simulation.advance(60)
        return metrics_page(simulation, names, start=START).decode()

    return make


@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("vllm-0.32.0-python-ngram-k4.prom", {"speculation": {"method": "ngram", "tokens": 4}}),
        (
            "vllm-0.32.0-python-dp2-multiapi-k3.prom",
            {"engines": 2, "api_servers": 2, "speculation": {"method": "ngram", "tokens": 3}},
        ),
    ],
)
def test_a_python_page_has_the_lines_of_the_recorded_one(page_like, recorded, name, keys):
    def known(page):  # the cache's sizes belong to the machine
        return {
            line if "cache_config_info{" not in line else re.sub('="[^"]*"', "", line) for line in lines(page)
        }

    page = page_like(**keys)
    assert known(page) == known(recorded(name))
    assert len(page.splitlines()) == len(set(page.splitlines()))


def test_a_rust_page_has_lines_of_the_recorded_one(page_like, recorded):
    page = page_like(front_end="rust", model_name="tiny")
    # A recorded page has the reasons that ended a request, a simulated one all.
    assert all("finished_reason" in line for line in lines(page) - lines(recorded("vllm-0.32.0-rust-k4.om")))
    assert len(lines(page)) > 400
    assert page.endswith("# EOF\n")


def test_numbers_are_written_as_the_recorded_pages_write_them(page_like):
    page, rust = page_like(), page_like(front_end="rust")
    assert '\nvllm:num_requests_running{engine="0",model_name="tiny-llama"} 16.0\n' in page
    assert "\nprocess_start_time_seconds 1.795224832e+09\n" in page
    assert re.search(r"^vllm:spec_decode_num_drafts_created\{\S+\} 1\.795224832e\+09$", page, re.MULTILINE)
    assert 'vllm:num_requests_running{model_name="tiny-llama",engine="0"} 16\n' in rust


def test_both_front_ends_show_the_same_counters(page_like):
    def values(page):
        found = (
            (name, tuple(sorted(labels.items())), value)
            for name, labels, value in wanted_samples(page.encode())
        )
        return {each for each in found if not each[0].endswith(("_created", "_info", "_seconds"))}

    assert values(page_like()) == values(page_like(front_end="rust"))
    assert len(values(page_like())) > 15


def test_draft_positions_of_a_rust_page_appear_with_the_first_draft(make_simulation):
    simulation = make_simulation(
        front_end="rust", load={"concurrency": 0}, phases=[{"at": "30s", "load": {"rate": 5}}]
    )
    found = []
    for _ in range(2):
        simulation.advance(29)
        found.append("accepted_tokens_per_pos" in metrics_page(simulation).decode())
    assert found == [False, True]


def test_without_speculation_the_python_page_has_none_of_its_families(page_like):
    assert "spec_decode" not in page_like(speculation={"tokens": 0})


def test_the_filtered_page_has_the_lines_of_the_recorded_one(page_like, recorded):
    page = recorded("vllm-0.32.0-filtered-k4.prom")
    names = {line.partition("{")[0] for line in page.splitlines() if not line.startswith("#")}
    assert lines(page_like(names)) == lines(page)


def test_a_filter_knows_the_families_that_are_not_simulated(page_like):
    page = page_like(["vllm:mm_cache_hits_total", "vllm:num_requests_running"], engines=2)
    samples = [line for line in page.splitlines() if not line.startswith("#")]
    assert len(samples) == 4
    assert page_like(["absent"]) == ""


def test_with_several_api_servers_the_filtered_page_is_empty(page_like):
    assert page_like({DRAFTS}, api_servers=2) == ""


def test_the_name_of_a_model_is_escaped_in_each_line(page_like):
    page = page_like(model_name='a"b\\c')
    names = {
        sample.labels["model_name"]
        for family in text_string_to_metric_families(page)
        for sample in family.samples
        if "model_name" in sample.labels
    }
    assert names == {'a"b\\c'}
    assert 'model_name="a\\"b\\\\c",engine="0"' in page_like(model_name='a"b\\c', front_end="rust")
