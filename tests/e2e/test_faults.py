"""One exporter watches every broken and hostile server of the catalogue at once, and a good one beside them."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.e2e.faults.catalogue import READ, catalogue
from tests.e2e.faults.servers import serving

INTERVAL = 1.0
MIN_POLLS = 22
"""Polls of the good server, one a second; the exporter asks every other server several times during them."""
MOST_RESIDENT = 300.0
"""MB (10^6 bytes), with over eighty servers that all misbehave at the same time."""
FIRST, LAST = "spec-decode-exporter ", "Page: "
"""Beginnings of the first and last line of what ``run`` prints at its start; every other line is an event."""


@pytest.fixture(scope="module")
def seen(e2e, tmp_path_factory):
    """Watch all servers; return the exporter's page, log and memory, and the times of the good server's polls."""
    faults = catalogue()
    folder = tmp_path_factory.mktemp("faults")
    with serving({name: fault.respond for name, fault in faults.items()}) as servers:
        targets = {"good": servers.good, **servers.ports}
        config = {
            "poll": {"timeout": "3s", "max_duty_cycle": 1},
            "targets": [
                {"url": f"http://127.0.0.1:{port}/metrics", "name": name} for name, port in targets.items()
            ],
        }
        exporter = e2e.Exporter(folder, json.dumps(config), "--log.format=json")
        exporter.wait_for(f"{exporter.url}/-/ready")
        servers.most_resident = _watch(e2e, exporter, servers)
        servers.waited_for_cpu = exporter.waited_for_cpu()
        servers.page = exporter.metrics()
        servers.html = e2e.fetch(exporter.url)[2]
        servers.stopped = exporter.stop()
        servers.start, servers.lines = _parts(exporter.log.splitlines())
    servers.samples = [
        sample for family in text_string_to_metric_families(servers.page) for sample in family.samples
    ]
    return servers


def _parts(lines):
    """Return what ``run`` prints at its start, and the events."""
    first = next(number for number, line in enumerate(lines) if line.startswith(FIRST))
    after = next(number for number, line in enumerate(lines) if line.startswith(LAST)) + 1
    return lines[first:after], lines[:first] + lines[after:]


def _watch(e2e, exporter, servers):
    """Wait until every server has been polled; return the largest resident memory on the way, in MB."""
    resident = []

    def polled():
        status = Path(f"/proc/{exporter.process.pid}/status").read_text()
        resident.append(int(status.partition("VmRSS:")[2].split()[0]) * 1024 / 1e6)
        return len(servers.asked) > MIN_POLLS and not _unpolled(exporter.metrics(), servers)

    e2e.eventually(polled)
    return max(resident)


def _unpolled(page, servers):
    """Return the servers without two polls."""
    polls = {
        sample.labels["target"]: sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
        if sample.name == "spec_decode_exporter_polls_total"
    }
    return {name for name in servers.ports if polls.get(name, 0) < 2}


def _outcome(seen, target):
    reasons = {
        sample.labels["reason"]
        for sample in seen.samples
        if sample.name == "spec_decode_exporter_poll_failures_total"
        and sample.labels["target"] == target
        and sample.value
    }
    return reasons or {READ}


@pytest.mark.parametrize("name", catalogue())
def test_what_a_server_does_is_told_by_its_reason_and_in_the_log(seen, name):
    fault = catalogue()[name]
    assert seen.requests[name] or fault.respond is None
    assert _outcome(seen, name) <= fault.outcome
    (up,) = (
        sample.value
        for sample in seen.samples
        if sample.name == "spec_decode_exporter_target_up" and sample.labels["target"] == name
    )
    assert fault.outcome > {READ} or up == (fault.outcome == {READ})
    if fault.says:
        assert any(f'"target": "{name}"' in line and fault.says in line for line in seen.lines)


def test_the_polls_of_the_good_server_are_never_late_by_an_interval(seen):
    gaps = [after - before for before, after in itertools.pairwise(seen.asked)]
    assert len(gaps) >= MIN_POLLS - 2
    assert max(gaps) < 2 * INTERVAL + seen.waited_for_cpu + seen.stalled
    assert _outcome(seen, "good") == {READ}


def test_memory_stays_within_its_bound(seen):
    assert seen.most_resident < MOST_RESIDENT


def test_no_name_of_a_stranger_gets_out_of_its_place(seen):
    assert "evil_total" not in {sample.name for sample in seen.samples}
    assert "<script>alert" not in seen.html
    for line in seen.lines:
        assert json.loads(line)["event"] != "forged"
    assert len(seen.start) < 30
    assert all(line.isprintable() for line in [*seen.start, *seen.lines])


def test_it_ends_promptly(seen, e2e):
    status, seconds = seen.stopped
    assert status == 0
    assert seconds < e2e.PROMPTLY
    assert not any("Traceback" in line for line in seen.lines)
