"""One mix of requests, told by the installed program: its page, API, metrics, log and report say the same."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from itertools import accumulate

import pytest
from prometheus_client.parser import text_string_to_metric_families as parse

from spec_decode_exporter.figures.quantile import SPREAD_QUANTILES
from spec_decode_exporter.simulator.scenario import load_scenario

SPEED = 10
"""Simulated seconds in one."""
ENDS = "10m"
"""Time at which the load ends, so that all requests end; then the long window no longer changes."""
LONG = "5m"
LOSER = ("creative", "0.7-1")


class Rows(HTMLParser):
    """The exact numbers of each row of the page's table of requests, by the type."""

    def __init__(self, page):
        super().__init__()
        self.numbers, self._row, self._type = {}, [], None
        begin = page.index("<tbody", page.index('class="groups '))
        self.feed(page[begin : page.index("</table>", begin)])

    def handle_starttag(self, tag, attrs):
        if tag == "tr":
            self._row, self._type = [], None
        elif tag == "data":
            self._row.append(float(dict(attrs)["value"]))

    def handle_data(self, data):
        if self._type is None and self._row == [] and data.strip():
            self._type = data
            self.numbers[data] = self._row


@pytest.fixture(scope="module")
def told(e2e, tmp_path_factory):
    """An exporter that received a whole mix of requests over HTTP, and their simulated server."""
    folder, port = tmp_path_factory.mktemp("requests"), e2e.free_port()
    scenario = folder / "scenario.yml"
    phases = [{"at": ENDS, "load": {"concurrency": 0}}]
    known = load_scenario("mixed").model_dump(mode="json", exclude_unset=True)
    scenario.write_text(json.dumps({**known, "phases": phases}))
    flags = ("--speed", str(SPEED), "--requests.url", f"http://127.0.0.1:{port}")
    server = e2e.Simulator(folder, scenario, *flags)
    target = {"url": server.url, "name": "vllm", "cost": {"draft_cost_ratio": 0.6, "running_requests": 16}}
    config = {"targets": [target], "requests": {"ingest": True}, "metrics": {"profile": "full"}}
    exporter = e2e.Exporter(folder, json.dumps(config), port=port)
    try:
        e2e.eventually(
            lambda: "requests_below_break_even" in exporter.log and "mixed_workload_began" in exporter.log,
            120,
        )
        e2e.eventually(
            lambda: accepted(e2e, server) == samples(exporter)["spec_decode_request_saved_tokens_total"], 60
        )
        yield exporter, server
    finally:
        exporter.stop()
        server.stop()


def samples(exporter):
    """Return the sums of every name in the metrics."""
    sums = {}
    for family in parse(exporter.metrics()):
        for sample in family.samples:
            sums[sample.name] = sums.get(sample.name, 0.0) + sample.value
    return sums


def group(exporter, name, **labels):
    """Return the value of the type that loses, in the long window."""
    wanted = {"request_type": LOSER[0], "temperature": LOSER[1], "window": LONG, **labels}.items()
    (value,) = [
        sample.value
        for family in parse(exporter.metrics())
        for sample in family.samples
        if sample.name == name and wanted <= sample.labels.items()
    ]
    return value


def counters(e2e, server):
    """Return the server's counters of speculation, by their own names."""
    status, _, page = e2e.fetch(server.url)
    assert status == 200
    return {sample.name: sample.value for family in parse(page) for sample in family.samples}


def accepted(e2e, server):
    return counters(e2e, server)["vllm:spec_decode_num_accepted_tokens_total"]


def asked(e2e, exporter):
    status, _, body = e2e.fetch(f"{exporter.url}/api/v1/requests?window={LONG}")
    assert status == 200, body
    return json.loads(body)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("spec_decode_requests_total", "vllm:request_success_total"),
        ("spec_decode_request_saved_tokens_total", "vllm:spec_decode_num_accepted_tokens_total"),
    ],
)
def test_the_sums_over_the_requests_are_the_counters_of_the_server(e2e, told, ours, theirs):
    exporter, server = told
    status, _, page = e2e.fetch(server.url)
    assert status == 200
    counted = sum(s.value for family in parse(page) for s in family.samples if s.name == theirs)
    assert samples(exporter)[ours] == counted > 1000


def test_the_api_adds_up_to_the_same(e2e, told):
    exporter, server = told
    found, counted = asked(e2e, exporter), counters(e2e, server)
    since = found["since_start"]
    assert sum(each["drafts"] for each in since) == counted["vllm:spec_decode_num_drafts_total"]
    assert (
        sum(each["accepted_tokens"] for each in since)
        == counted["vllm:spec_decode_num_accepted_tokens_total"]
    )
    assert sum(each["requests"] for each in since) == found["taken"]
    assert set(found["refused"].values()) == {0}


def test_its_histograms_are_those_of_the_metrics_and_of_the_page(e2e, told):
    exporter, _ = told
    found = asked(e2e, exporter)
    (since,) = (each for each in found["since_start"] if each["request_type"] == LOSER[0])
    for name in ("acceptance_ratio", "acceptance_length_tokens"):
        said, metric = since[f"{name}_histogram"], f"spec_decode_request_{name}"
        labels = {"request_type": LOSER[0], "temperature": LOSER[1]}
        buckets = [
            sample.value
            for family in parse(exporter.metrics())
            for sample in family.samples
            if sample.name == f"{metric}_bucket" and labels.items() <= sample.labels.items()
        ]
        assert buckets == list(accumulate(said["counts"]))
        assert buckets[-1] == since["requests"] > 100
    (model,) = found["models"]
    assert sum(model["acceptance_counts"]) == model["requests"]
    number = f"{model['requests']:,}".replace(",", "\u202f")
    assert f"{number} requests by acceptance rate, with two modes: of " in e2e.fetch(exporter.url)[2]


def test_all_of_them_find_the_mix_and_say_who_loses(e2e, told):
    exporter, _ = told
    (model,) = asked(e2e, exporter)["models"]
    assert model["mixed"]
    assert model["low_mean_acceptance_ratio"] == pytest.approx(0.37, abs=0.03)
    assert model["high_mean_acceptance_ratio"] == pytest.approx(0.83, abs=0.03)
    assert (
        f'spec_decode_mixed_workload{{model_name="{model["model_name"]}",window="{LONG}"}} 1.0'
        in exporter.metrics()
    )
    lost = [line for line in exporter.log.splitlines() if "event=requests_below_break_even " in line]
    assert len(lost) == 1
    assert "request_type=creative" in lost[0]
    page = e2e.fetch(exporter.url)[2]
    assert "Mixed workload: " in page
    assert model["advice"][0] in page


def test_the_page_the_api_and_the_metrics_have_the_same_numbers(e2e, told):
    exporter, _ = told
    (found,) = (each for each in asked(e2e, exporter)["groups"] if each["request_type"] == LOSER[0])
    assert found["effect"] == "loses"
    numbers = Rows(e2e.fetch(exporter.url)[2]).numbers
    assert next(iter(numbers)) == LOSER[0]
    shown = numbers[LOSER[0]]
    percentiles = found["acceptance_ratio"]
    speedup = [found["speedup_ratio"][side] for side in ("value", "lower", "upper")]
    assert shown[0] == found["requests"] == group(exporter, "spec_decode_window_requests")
    assert [percentiles["p50"], percentiles["p10"], percentiles["p90"]] == shown[-14:-11]
    assert shown[-3:] == speedup
    for quantile in SPREAD_QUANTILES:
        exported = group(exporter, "spec_decode_request_acceptance_quantile_ratio", quantile=quantile.label)
        assert exported == percentiles[quantile.name]
    for suffix, value in zip(("", "_lower", "_upper"), speedup, strict=True):
        # Another second adds the same requests up in other parts: the last digit may differ.
        exported = group(exporter, f"spec_decode_request_speedup_ratio{suffix}")
        assert exported == pytest.approx(value, rel=1e-12)
    share = found["below_break_even"] / found["evaluated"]
    assert share in shown
    assert group(exporter, "spec_decode_requests_below_break_even_ratio") == share


def test_what_is_sent_where_nothing_is_taken_is_answered_with_what_to_do(e2e, start):
    exporter = start(e2e.Exporter, "targets: [{url: 'http://127.0.0.1:9'}]", name="closed")
    exporter.wait_for(f"{exporter.url}/-/healthy")
    status, _, body = e2e.fetch(f"{exporter.url}/api/v1/requests", method="POST")
    assert status == 404
    assert "requests.ingest: true" in body
    assert "requests-title" not in e2e.fetch(exporter.url)[2]
