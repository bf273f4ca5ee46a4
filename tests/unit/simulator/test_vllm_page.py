"""Pages, compared with those of a real vLLM."""

import re

import pytest
from prometheus_client.parser import text_string_to_metric_families

from spec_decode_exporter.simulator.vllm_page import metrics_page
from tests.paths import DATA
from tests.unit.simulator.conftest import make_simulation

START = 1_795_224_832.0
# Left out: they are of the web framework, count requests for completions, and nothing here reads them.
LEFT_OUT = re.compile(r"^(# (HELP|TYPE) )?http_")


def lines(page):
    """Return the comments, and the series without their values; the cache's sizes belong to the machine."""
    kept = (line for line in page.splitlines() if not LEFT_OUT.match(line))
    found = (line if line.startswith("#") else line.rpartition(" ")[0] for line in kept)
    return {re.sub('="[^"]*"', "", line) if "cache_config_info{" in line else line for line in found}


def page_like(names=(), **keys):
    """Return the page of the server of a recording after a minute."""
    simulation = make_simulation(**{"model_name": "tiny-llama", "machine": {"max_model_len": 1024}, **keys})
    simulation.advance(60)
    return metrics_page(simulation, names, start=START).decode()


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
def test_a_python_page_has_the_lines_of_the_recorded_one(name, keys):
    page = page_like(**keys)
    assert lines(page) == lines((DATA / "pages" / name).read_text())
    assert len(page.splitlines()) == len(set(page.splitlines()))


def test_numbers_are_written_as_the_recorded_pages_write_them():
    page = page_like()
    assert '\nvllm:num_requests_running{engine="0",model_name="tiny-llama"} 16.0\n' in page
    assert "\nprocess_start_time_seconds 1.795224832e+09\n" in page
    assert re.search(r"^vllm:spec_decode_num_drafts_created\{\S+\} 1\.795224832e\+09$", page, re.MULTILINE)


def test_the_filtered_page_has_the_lines_of_the_recorded_one():
    page = (DATA / "pages" / "vllm-0.32.0-filtered-k4.prom").read_text()
    names = {line.partition("{")[0] for line in page.splitlines() if not line.startswith("#")}
    assert lines(page_like(names)) == lines(page)


@pytest.mark.parametrize(
    ("names", "api_servers", "samples"),
    [
        (["vllm:mm_cache_hits_total", "vllm:num_requests_running"], 1, 4),  # not simulated, but known
        (["absent"], 1, 0),
        (["vllm:num_requests_running"], 2, 0),  # with several API servers the filtered page is empty
    ],
)
def test_a_filter_by_name(names, api_servers, samples):
    page = page_like(names, engines=2, api_servers=api_servers)
    assert len([line for line in page.splitlines() if not line.startswith("#")]) == samples


def test_the_name_of_a_model_is_escaped_in_each_line():
    families = text_string_to_metric_families(page_like(model_name='a"b\\c'))
    labels = [sample.labels for family in families for sample in family.samples]
    assert {each["model_name"] for each in labels if "model_name" in each} == {'a"b\\c'}
