"""A real Prometheus: users' queries, and every query of every dashboard and integration, with data and without."""

import json
import re
from types import SimpleNamespace

import pytest

from tests.every import every
from tests.paths import CHECKOUT

FOLDER = CHECKOUT / "grafana" / "dashboards"
BOARDS = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(FOLDER.glob("*.json"))]

STEADY = {
    "speculation": {"tokens": 4},
    "acceptance": {"mean": 0.7},
    "load": {"concurrency": 16},
    "prompts": {"spread": 0},
    "outputs": {"spread": 0},
}
"""Requests of one length: in windows as short as these, others would differ by chance, and arms not be compared."""
KINDS = [
    {"request_type": name, "temperature": at, "share": 1} for at, name in enumerate(("chat", "creative"))
]
SCENARIOS = {
    "steady": {**STEADY, "mix": KINDS},
    "restart": {**STEADY, "phases": [{"at": "60s", "restart": {"down": "3s", "tokens": 6}}]},
    "drop": {**STEADY, "phases": [{"at": "70s", "acceptance": {"mean": 0.1}}]},
}
"""The responses of ``steady`` are sent to the exporter: kinds that are alike in all but their names."""
COST = {
    "loads": [
        {"running_requests": 8, "draft_cost_ratio": 0.1},
        {"running_requests": 16, "draft_cost_ratio": 0.12},
        {"running_requests": 64, "draft_cost_ratio": 0.9},
    ]
}

EXPERIMENT = {
    "name": "drop",
    "arms": {"steady": {"match": {"name": "steady"}}, "drop": {"match": {"name": "drop"}}},
    "baseline": "steady",
}

CHOSEN = {
    "__rate_interval": "15s",
    "__range": "60s",
    "short": "10s",
    "long": "30s",
    "compare": "target",
    "baseline": "steady",
    "engine": "0",
}
"""What stands for a variable; for all others, everything."""

EMPTY = {
    ("Firing alerts", "A"): "no rules are loaded",
    ("Failed polls by reason", "A"): "no poll of the last seconds failed",
    ("Tokens per step", "C"): "the drafter does not search",
    ("Fleet speed-up", "B"): "the cost is known on every engine",
    ("Exporters", "D"): "no state file is configured",
    **dict.fromkeys(
        [(f"{what}, over the baseline's", "A") for what in ("Time to first token", "Time per output token")],
        "nothing was served without speculation",
    ),
    **dict.fromkeys(
        [("Experiments that the exporter compares", bound) for bound in "BC"],
        "too few requests pass in 30 s to say how sure a speed-up is",
    ),
}
"""Queries that give nothing here, and why."""

OF_THE_DROP = {("Acceptance length against its baseline", "E")}
"""Queries that are asked about the server whose acceptance drops."""


QUERIES = [
    (board["uid"], (panel["title"], target["refId"]), target["expr"])
    for board in BOARDS
    for shown in board["panels"]
    for panel in (shown, *shown.get("panels", ()))  # a folded row holds panels
    for target in panel.get("targets", ())
]
"""Dashboard, panel and reference, and PromQL of each query."""
every_query = every(QUERIES, lambda query: f"{query[0]} · {' · '.join(query[1])}")


def interpolated(expr, target="steady"):
    chosen = {**CHOSEN, "target": target}
    return re.sub(r"\$\{?([a-zA-Z_]\w*)\}?", lambda found: chosen.get(found[1], ".+"), expr)


@pytest.fixture(scope="module")
def stack(start, e2e, prometheus_tools, tmp_path_factory):
    """Three servers, an exporter with short windows, and a Prometheus that scrapes them and another one for 100 s."""
    folder, ports = tmp_path_factory.mktemp("scenarios"), {name: e2e.free_port() for name in SCENARIOS}
    known = {"cost": COST, "speculative": {"method": "draft_model"}}
    config = {
        "windows": ["10s", "30s"],
        "policy": {"drops": {"warm_up": "10s"}},
        "targets": [
            {"name": name, "url": f"http://127.0.0.1:{port}/metrics", **known} for name, port in ports.items()
        ],
        "reference": {"acceptance_ratio": 0.6},
        "experiments": [EXPERIMENT],
        "requests": {"ingest": True},
    }
    exporter = start(e2e.Exporter, json.dumps(config))
    exporter.wait_for(f"{exporter.url}/-/ready")
    other = start(e2e.Prometheus, {}, name="other")
    scraped = {"exporter": exporter.port, "other": other.port, **ports}
    jobs = {job: [f"127.0.0.1:{port}"] for job, port in scraped.items()}
    full = start(e2e.Prometheus, jobs, name="full")
    full.wait_for(f"{full.url}/-/ready")
    # The servers last: their restart and their drop must be seen, and no batch of requests be lost.
    for name, scenario in SCENARIOS.items():
        (folder / f"{name}.yml").write_text(json.dumps(scenario))
        sending = ("--requests.url", exporter.url) if name == "steady" else ()
        start(e2e.Simulator, folder / f"{name}.yml", *sending, name=name, port=ports[name])
    for name in SCENARIOS:
        e2e.eventually(lambda name=name: full.value(f'count_over_time((up{{job="{name}"}}==1)[5m:1s])>=100'))
    return SimpleNamespace(full=full, exporter=exporter)


@pytest.fixture(scope="module")
def nothing(start, e2e, prometheus_tools):
    """A Prometheus that scrapes nothing."""
    prometheus = start(e2e.Prometheus, {}, name="nothing")
    prometheus.wait_for(f"{prometheus.url}/-/ready")
    return prometheus


def test_both_kinds_of_series_are_whole(stack, e2e):
    ups = "spec_decode_exporter_target_up"
    expected = dict.fromkeys(SCENARIOS, 1)
    e2e.eventually(lambda: {up["target"]: value for up, value in stack.full.query(ups)} == expected)
    # Of a page that it cannot read, no scrape is good; where the machine is busy, some are late.
    assert stack.full.value('avg_over_time(up{job="exporter"}[5m])') > 0.5
    assert "Traceback" not in stack.exporter.log


def test_a_restart_is_a_reset_of_the_server_but_not_of_our_counters(stack):
    assert stack.full.value('resets(vllm:spec_decode_num_accepted_tokens_total{job="restart"}[5m])') == 1
    assert stack.full.value('resets(spec_decode_accepted_tokens_total{target="restart"}[5m])') == 0
    assert stack.full.value('sum(spec_decode_engine_resets_total{target="restart"})') == 1
    assert stack.full.value('sum(spec_decode_engine_resets_total{target="steady"})') == 0


@every_query
def test_a_query_finds_data(query, stack, e2e):
    _, panel, expr = query
    asked = interpolated(expr, "drop" if panel in OF_THE_DROP else "steady")
    # After a scrape that came too late Prometheus knows nothing until the next one.
    found = (
        stack.full.query(asked)
        if panel in EMPTY
        else e2e.eventually(lambda: stack.full.query(asked), within=30)
    )
    assert "other" not in {labels.get("job") for labels, _ in found}, "a process that is no exporter is shown"
    assert all(value == value for _, value in found), "a value is NaN"  # noqa: PLR0124


@every_query
def test_a_query_of_nothing_is_no_error(query, nothing):
    assert not nothing.query(interpolated(query[2])), "what is not known is not 0"
