"""Requests that a server's responses describe reach the installed exporter over HTTP, and none is lost or counted twice."""

import json
from collections import Counter

from prometheus_client.parser import text_string_to_metric_families as parse

from spec_decode_exporter.simulator.scenario import load_scenario

ENDS = "10m"  # time at which the load ends, so that all requests end; ten minutes pass in one


def sums(page):
    """Return the sums of every name on a metrics page."""
    found = Counter()
    for family in parse(page):
        for sample in family.samples:
            found[sample.name] += sample.value
    return found


def test_the_sums_over_the_requests_are_the_counters_of_the_server(e2e, start, tmp_path):
    scenario = tmp_path / "scenario.yml"
    known = load_scenario("mixed").model_dump(mode="json", exclude_unset=True)
    scenario.write_text(json.dumps({**known, "phases": [{"at": ENDS, "load": {"concurrency": 0}}]}))
    port = e2e.free_port()
    target = {
        "url": f"http://127.0.0.1:{port}/metrics",
        "cost": {"draft_cost_ratio": 0.6, "running_requests": 16},
    }
    config = {"targets": [target], "requests": {"ingest": True}, "metrics": {"profile": "full"}}
    exporter = start(e2e.Exporter, json.dumps(config))
    # A batch that nobody takes is lost: the exporter listens before the first request ends.
    exporter.wait_for(f"{exporter.url}/-/healthy")
    sending = ("--speed", "10", "--requests.url", exporter.url)
    server = start(e2e.Simulator, scenario, *sending, port=port)
    e2e.eventually(lambda: sums(exporter.metrics())["spec_decode_mixed_workload"])

    def ours_and_theirs():
        ours, theirs = sums(exporter.metrics()), sums(e2e.fetch(server.url)[2])
        accepted = theirs["vllm:spec_decode_num_accepted_tokens_total"]
        return theirs["vllm:num_requests_running"] == 0 and (
            accepted == ours["spec_decode_request_saved_tokens_total"] and (ours, theirs)
        )

    ours, theirs = e2e.eventually(ours_and_theirs)
    assert ours["spec_decode_requests_total"] == theirs["vllm:request_success_total"] > 1000

    def all_in_the_window():
        # Readers share a snapshot, which may be older than the last requests.
        found = json.loads(e2e.fetch(f"{exporter.url}/api/v1/requests?window=5m")[2])
        names = ("drafts", "accepted_tokens")
        shown = [sum(each[name] for each in found["models"]) for name in names]
        return shown == [theirs[f"vllm:spec_decode_num_{name}_total"] for name in names] and found

    found = e2e.eventually(all_in_the_window)
    assert sum(each["requests"] for each in found["models"]) == found["taken"]
    assert set(found["refused"].values()) == {0}
