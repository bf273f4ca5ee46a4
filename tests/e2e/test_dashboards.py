"""Every query of every dashboard and of every integration, asked of a real Prometheus: with data and without."""

from __future__ import annotations

import json
import re
from types import SimpleNamespace

import pytest

from grafana.style import VERDICTS
from tests.contract.integrations.shipped import KEDA_MATCHERS, keda_queries
from tests.paths import CHECKOUT

FOLDER = CHECKOUT / "grafana" / "dashboards"
BOARDS = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(FOLDER.glob("*.json"))]

SCENARIO = """
speculation: {tokens: 4}
acceptance: {mean: 0.7}
load: {concurrency: 16}
prompts: {spread: 0}
outputs: {spread: 0}
"""
"""Requests of one length: in windows as short as these, others would differ by chance, and arms not be compared."""

ASKED = (
    SCENARIO
    + """
mix:
  - {request_type: chat, temperature: 0, share: 1}
  - {request_type: creative, temperature: 1, share: 1}
"""
)
"""Kinds that are alike in all but their names; the responses of this server are sent to the exporter."""

DROP = (
    SCENARIO
    + """
phases:
  - at: 70s
    acceptance: {mean: 0.1}
"""
)
RESTART = (
    SCENARIO
    + """
phases:
  - at: 60s
    restart: {down: 3s, tokens: 6}
"""
)
COST = {
    "loads": [
        {"running_requests": 8, "draft_cost_ratio": 0.1},
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
    ("Speed-up of the fleet", "B"): "the cost is known on every engine",
    ("Exporters", "D"): "no state file is configured",
    **dict.fromkeys(
        [("Experiments that the exporter compares", bound) for bound in "BC"],
        "too few requests pass in 30 s to say how sure a speed-up is",
    ),
}
"""Queries that give nothing here, and why."""

OF_THE_DROP = {("Acceptance length against its baseline", "E")}
"""Queries that are asked about the server whose acceptance drops."""


def queries():
    for board in BOARDS:
        hidden = [panel for row in board["panels"] for panel in row.get("panels", ())]
        for panel in [*board["panels"], *hidden]:
            for target in panel.get("targets", ()):
                name = f"{board['uid']} · {panel['title']} · {target['refId']}"
                yield pytest.param(board["uid"], (panel["title"], target["refId"]), target["expr"], id=name)


QUERIES = list(queries())


def interpolated(expr, target="steady"):
    chosen = {**CHOSEN, "target": target}
    return re.sub(r"\$\{?([a-zA-Z_]\w*)\}?", lambda found: chosen.get(found[1], ".+"), expr)


@pytest.fixture(scope="module")
def stack(start, e2e, prometheus_tools, tmp_path_factory):
    """Three simulated servers and an exporter with short windows, watched for 100 s by a Prometheus of itself too.

    What the responses of one of them say is sent to the exporter.
    """
    scenarios = tmp_path_factory.mktemp("scenarios")
    targets, port = [], e2e.free_port()
    sending = {"steady": ("--requests.url", f"http://127.0.0.1:{port}")}
    for name, text in (("steady", ASKED), ("restart", RESTART), ("drop", DROP)):
        (scenarios / f"{name}.yml").write_text(text)
        server = start(e2e.Simulator, scenarios / f"{name}.yml", *sending.get(name, ()), name=name)
        targets.append(
            {"name": name, "url": server.url, "cost": COST, "speculative": {"method": "draft_model"}}
        )
    policy = {"drops": {"warm_up": "10s"}}
    exporter = start(
        e2e.Exporter,
        json.dumps(
            {
                "windows": ["10s", "30s"],
                "policy": policy,
                "targets": targets,
                "reference": {"acceptance_ratio": 0.6},
                "experiments": [EXPERIMENT],
                "requests": {"ingest": True},
            }
        ),
        port=port,
    )
    exporter.wait_for(f"{exporter.url}/-/ready")
    other = start(e2e.Prometheus, {}, name="other")
    full = start(
        e2e.Prometheus,
        {"exporter": [f"127.0.0.1:{exporter.port}"], "other": [f"127.0.0.1:{other.port}"]},
        name="full",
    )
    full.wait_for(f"{full.url}/-/ready")
    e2e.eventually(lambda: full.value('count_over_time(up{job="exporter"}[5m])>=100'))
    return SimpleNamespace(full=full)


@pytest.fixture(scope="module")
def nothing(e2e, prometheus_tools, tmp_path_factory):
    """A Prometheus that scrapes nothing."""
    prometheus = e2e.Prometheus(tmp_path_factory.mktemp("nothing"), {})
    prometheus.wait_for(f"{prometheus.url}/-/ready")
    yield prometheus
    prometheus.stop()


@pytest.mark.parametrize(("uid", "query", "expr"), QUERIES)
def test_a_query_finds_data(stack, uid, query, expr):
    found = stack.full.query(interpolated(expr, "drop" if query in OF_THE_DROP else "steady"))
    assert found or query in EMPTY
    assert "other" not in {labels.get("job") for labels, _ in found}, "a process that is no exporter is shown"
    assert all(value == value for _, value in found), "a value is NaN"  # noqa: PLR0124


def integration_queries(matchers):
    """Return KEDA's queries about some engines, over the longest window of this exporter."""
    return {
        name: query.replace(KEDA_MATCHERS, matchers).replace('window="5m"', 'window="30s"')
        for name, query in keda_queries().items()
    }


def test_a_query_of_an_integration_finds_one_value(stack, nothing):
    found = {name: stack.full.value(query) for name, query in integration_queries('target="steady"').items()}
    milliseconds = 1000 * stack.full.value(
        'spec_decode_time_per_output_token_seconds{target="steady",window="30s"}'
    )
    load = stack.full.value('spec_decode_running_requests{target="steady",window="30s"}')
    assert found["time-per-output-token"] == pytest.approx(milliseconds, rel=0.05)
    assert (
        0.2
        < found["load-over-crossover"]
        == pytest.approx(
            load / stack.full.value('spec_decode_crossover_running_requests{target="steady"}'), rel=0.05
        )
    )
    assert {nothing.value(query) for query in integration_queries('target="steady"').values()} == {None}


def expression(uid, title, ref="A"):
    (found,) = [query.values[2] for query in QUERIES if query.values[:2] == (uid, (title, ref))]
    return interpolated(found)


def test_the_speed_up_of_the_fleet_is_between_those_of_its_engines(stack):
    engines = stack.full.query('spec_decode_estimated_speedup_ratio{window="30s"}')
    ((labels, fleet),) = stack.full.query(expression("spec-decode-overview", "Speed-up of the fleet"))
    assert labels == {"known": "3"}
    assert len(engines) == 3
    assert min(value for _, value in engines) <= fleet <= max(value for _, value in engines)


def test_the_number_of_a_verdict_is_its_place(stack):
    ((labels, _),) = stack.full.query('spec_decode_verdict{target="steady"} == 1')
    ((_, number),) = stack.full.query(expression("spec-decode-engine", "Verdict"))
    assert VERDICTS[int(number)].value == labels["verdict"]


def test_the_baseline_is_as_fast_as_itself(stack):
    # The speed-up, and the time of a token beside it.
    speedups, arms = (
        stack.full.query(expression("spec-decode-overview", "Arms side by side", ref)) for ref in "AB"
    )
    assert {labels["arm"] for labels, _ in arms} == {"steady", "restart", "drop"}
    by_arm = {labels["arm"]: value for labels, value in speedups}
    assert by_arm["steady"] == pytest.approx(1)
    seconds = {labels["arm"]: value for labels, value in arms}
    assert by_arm["restart"] == pytest.approx(seconds["steady"] / seconds["restart"], rel=0.05)


@pytest.mark.parametrize(("uid", "query", "expr"), QUERIES)
def test_a_query_of_nothing_is_no_error(nothing, uid, query, expr):
    assert not nothing.query(interpolated(expr)), "what is not known is not 0"
