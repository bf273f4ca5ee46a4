from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric

from spec_decode_exporter.simulator.python_page import filtered_page, python_families, python_page
from spec_decode_exporter.simulator.scenario import Scenario
from spec_decode_exporter.simulator.simulation import Simulation
from spec_decode_exporter.simulator.unix_time import UnixTime

UNIX = UnixTime(wall=1_795_224_832.0)

# Left out: they are of the web framework, count requests for completions, and nothing here reads them.
LEFT_OUT = re.compile(r"^(# (HELP|TYPE) )?http_")


def series(page):
    """Return each line without its value and without labels about the machine."""
    found = []
    for line in page.splitlines():
        if not LEFT_OUT.match(line):
            name = line if line.startswith("#") else line.rpartition(" ")[0]
            if "cache_config_info{" in name:
                name = re.sub(r'="[^"]*"', "", name)
            found.append(re.sub(r'(major|minor|patchlevel|version)="[^"]*"', r"\1", name))
    return found


@pytest.fixture
def like_the_recording(make_simulation):
    """Function that simulates the server of a recording for a minute."""

    def make(**keys):
        simulation = make_simulation(
            model_name="tiny-llama",
            machine={"max_model_len": 1024},
            **keys,
        )
        simulation.advance(60)
        return simulation

    return make


class Registered:
    """Return a family of prometheus_client."""

    def __init__(self, family):
        self.family = family

    def collect(self):
        metric = Metric(self.family.name, self.family.help, str(self.family.kind))
        for sample in [*self.family.samples, *self.family.created]:
            metric.add_sample(sample.name, dict(sample.labels), sample.value)
        yield metric


def registry(simulation):
    made = CollectorRegistry(auto_describe=True)
    for family in python_families(simulation, UNIX):
        made.register(Registered(family))
    return made


def test_one_process_has_the_lines_of_the_recorded_page_in_their_order(like_the_recording, recorded):
    simulation = like_the_recording(speculation={"method": "ngram", "tokens": 4})
    page = python_page(simulation, UNIX).decode()
    assert series(page) == series(recorded("vllm-0.32.0-python-ngram-k4.prom"))
    assert 45_000 < len(page) < 60_000


def test_several_api_servers_have_the_lines_of_the_recorded_page_in_their_order(like_the_recording, recorded):
    simulation = like_the_recording(engines=2, api_servers=2, speculation={"method": "ngram", "tokens": 3})
    page = python_page(simulation, UNIX).decode()
    assert series(page) == series(recorded("vllm-0.32.0-python-dp2-multiapi-k3.prom"))


def test_numbers_are_written_as_the_recorded_page_writes_them(like_the_recording):
    page = python_page(like_the_recording(), UNIX).decode()
    assert re.search(
        r'^vllm:num_requests_running\{engine="0",model_name="tiny-llama"\} 16\.0$', page, re.MULTILINE
    )
    assert re.search(r"^process_start_time_seconds 1\.795224832e\+09$", page, re.MULTILINE)
    assert re.search(r"^vllm:spec_decode_num_drafts_created\{\S+\} 1\.795224832\d*e\+09$", page, re.MULTILINE)


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 1000), st.integers(0, 3))
def test_the_whole_page_is_what_prometheus_client_writes_of_the_same_families(seed, tokens):
    simulation = Simulation(Scenario.model_validate({"speculation": {"tokens": tokens}}), seed)
    simulation.advance(seed / 50)
    assert python_page(simulation, UNIX) == generate_latest(registry(simulation))


def test_the_filtered_page_has_the_lines_of_the_recorded_one(like_the_recording, recorded):
    page = recorded("vllm-0.32.0-filtered-k4.prom")
    names = {line.partition("{")[0] for line in page.splitlines() if not line.startswith("#")}
    assert sorted(series(filtered_page(like_the_recording(), UNIX, names).decode())) == sorted(series(page))


def test_with_several_api_servers_the_filtered_page_is_empty(like_the_recording):
    simulation = like_the_recording(api_servers=2)
    assert filtered_page(simulation, UNIX, {"vllm:spec_decode_num_drafts_total"}) == b""
