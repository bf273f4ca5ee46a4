"""The installed program beside broken and hostile servers and clients: memory, answers, and the polls of good targets.

Times are measured by ``python -m benchmarks.hostile``: here a busy machine must not fail a test.
"""

import json
import time

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.robustness.attacks import representative
from tests.robustness.faults import READ, faults
from tests.robustness.scene import SIDECAR_MEMORY, Attack, running, watched

SECONDS = 4.0
POLLS = 3
"""Of each good target during an attack: nothing stands still."""
MIN_POLLS = 22
"""Of the good servers, one a second: every other server is polled several times during them."""
INTERVAL = 1.0
MAX_RESIDENT = 300e6
"""Bytes, with some 60 servers that all misbehave at the same time."""


@pytest.mark.parametrize("trial", representative(), ids=lambda trial: f"{trial.row}-{trial.case}")
def test_a_hostile_source_costs_bounded_memory_and_leaves_good_targets_polled(trial, tmp_path):
    measured = watched(trial.attack(), tmp_path, SECONDS, POLLS)
    assert measured.healthy_failures == 0
    # Hostile clients have the address of the scrapes here, and share their permits: a slow machine may reject some.
    assert measured.scrapes > 0
    assert measured.resident <= SIDECAR_MEMORY, f"{measured.resident / 2**20:.0f} MiB"
    assert measured.polls >= POLLS


@pytest.fixture(scope="module")
def seen(e2e, tmp_path_factory):
    """Let one exporter poll a server with each fault; return its page, log and memory, and how it has ended."""
    attack = Attack(faults=[*faults()], config={"poll": {"timeout": "3s", "max_duty_cycle": 1}, "limits": {}})
    with running(attack, tmp_path_factory.mktemp("faults")) as program:
        url, begin = f"http://127.0.0.1:{program.port}", time.monotonic()
        _wait(e2e, program, url)
        seen = {
            "gap": program.longest_gap(begin, time.monotonic()) - program.waited_for_cpu(),
            "resident": program.resident(),
            "samples": samples(e2e, url),
            "html": e2e.fetch(url)[2],
            "requests": {name: len(program.requests(name)) for name in faults()},
        }
        program.process.terminate()
        seen["status"] = program.process.wait(e2e.PROMPTLY)
    return {**seen, "events": program.log.read_text().splitlines()}


def _wait(e2e, program, url):
    """Wait until every server has been polled twice."""

    def is_polled():
        polls = values(samples(e2e, url), "spec_decode_exporter_polls_total")
        return min(map(len, program.polls(0.0))) > MIN_POLLS and all(
            polls.get(each, 0) > 1 for each in faults()
        )

    e2e.eventually(is_polled)


@pytest.mark.parametrize("name", faults())
def test_a_fault_has_its_reason_on_the_page_and_in_the_log(seen, name):
    fault = faults()[name]
    failed = "spec_decode_exporter_poll_failures_total"
    reasons = {
        sample.labels["reason"]
        for sample in seen["samples"]
        if sample.name == failed and sample.labels["target"] == name and sample.value
    }
    up = values(seen["samples"], "spec_decode_exporter_target_up")[name]
    assert seen["requests"][name] or fault.respond is None
    # A busy machine adds timeouts.
    assert (reasons - {"timeout"} or reasons & fault.outcome or {READ}) <= fault.outcome
    assert fault.outcome > {READ} or "timeout" in reasons or up == (fault.outcome == {READ})
    lines = [line for line in seen["events"] if f'"target": "{name}"' in line]
    assert not fault.reason or any(fault.reason in line for line in lines)


def test_good_servers_are_polled_in_time_and_memory_is_bounded(seen):
    assert seen["gap"] < 2 * INTERVAL
    assert seen["resident"] < MAX_RESIDENT


def test_no_untrusted_name_leaves_its_place(seen):
    assert "evil_total" not in {sample.name for sample in seen["samples"]}
    assert "<script>alert" not in seen["html"]
    assert "forged" not in {json.loads(line)["event"] for line in seen["events"]}
    assert all(line.isprintable() for line in seen["events"])


def test_it_ends_promptly_without_an_internal_error(seen):
    assert seen["status"] == 0
    assert not any("Traceback" in line for line in seen["events"])


def samples(e2e, url):
    status, _, page = e2e.fetch(f"{url}/metrics")
    assert status == 200
    return [sample for family in text_string_to_metric_families(page) for sample in family.samples]


def values(samples, name):
    """Return the values of a metric by target."""
    return {sample.labels["target"]: sample.value for sample in samples if sample.name == name}
