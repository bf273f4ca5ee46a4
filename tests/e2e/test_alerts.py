"""From a server's drop to somebody's pager: simulated servers, the exporter, Prometheus and Alertmanager, as shipped.

Scrapes and evaluations are every 15 s, and every expression is the shipped one. Only waiting is cut short, or it would
take a quarter of an hour: no alert is held longer than 30 s before it fires and 20 s after, and Alertmanager sends
what is resolved after 10 s. test_alert_cases.py has all alerts with their own durations, by a faster clock.
"""

import json
import re
from datetime import datetime, timedelta
from types import SimpleNamespace

import pytest
import yaml

from tests.paths import CHECKOUT

pytestmark = pytest.mark.timeout(1200)

CONFIG = CHECKOUT / "config"
FOR, KEEP = "30s", "20s"
DROP_AT, RECOVERY_AT = 120, 300
"""The exporter is there a minute before the drop, and Prometheus sees enough of it."""
DROPPING = f"""
acceptance: {{mean: 0.85, spread: 0.08}}
phases:
  - at: {DROP_AT}s
    acceptance: {{mean: 0.3}}
  - at: {RECOVERY_AT}s
    acceptance: {{mean: 0.85}}
"""
SCENARIOS = {
    "chat": f"model_name: chat-model{DROPPING}",
    "code-1": f"model_name: code-model{DROPPING}",
    "code-2": f"model_name: code-model{DROPPING}",
    "calm": "model_name: calm-model",
    "away": "model_name: away-model",
}
"""One server drops alone, two of one model drop together, one does not, and one is stopped by the test."""

MODEL_DROPPED = ("SpecDecodeModelAcceptanceDropped", {"model_name": "code-model"})
CHAT_DROPPED = ("SpecDecodeSuddenDrop", {"target": "chat"})
TARGET_DOWN = ("SpecDecodeTargetDown", {"target": "away"})


def read(path):
    return yaml.safe_load((CONFIG / path).read_text(encoding="utf-8"))


def hurried(folder):
    """Write the shipped alerts with less waiting; return where they are."""
    for path in sorted((CONFIG / "prometheus" / "alerts").glob("*.yml")):
        document = read(path)
        for group in document["groups"]:
            for rule in group["rules"]:
                if "alert" in rule:
                    rule["for"] = FOR
                if "keep_firing_for" in rule:
                    rule["keep_firing_for"] = KEEP
        (folder / path.name).write_text(yaml.safe_dump(document))
    return str(folder / "*.yml")


def prometheus_config(exporter, servers, alertmanager, alerts):
    """Return the shipped configuration, with other addresses."""
    config = read("prometheus/prometheus.yml")
    rules = [pattern for pattern in config["rule_files"] if not pattern.startswith("alerts/")]
    config["rule_files"] = [alerts, *(str(CONFIG / "prometheus" / pattern) for pattern in rules)]
    addresses = {"spec-decode": [exporter], "vllm": servers}
    for scraped in config["scrape_configs"]:
        scraped["static_configs"] = [
            {"targets": [f"127.0.0.1:{each.port}" for each in addresses[scraped["job_name"]]]}
        ]
    config["alerting"]["alertmanagers"] = [
        {"static_configs": [{"targets": [f"127.0.0.1:{alertmanager.port}"]}]}
    ]
    return config


def alertmanager_config(webhook):
    """Return the shipped configuration, with the test's webhook in the place of the receivers."""
    config = read("alertmanager/alertmanager.yml")
    config["route"]["group_interval"] = "10s"
    for receiver in config["receivers"]:
        receiver["webhook_configs"] = [{"url": f"{webhook.url}/{receiver['name']}"}]
    return config


@pytest.fixture(scope="module")
def stack(start, e2e, alerting_tools, tmp_path_factory):
    """The shipped stack without containers."""
    scenarios, alerts = tmp_path_factory.mktemp("scenarios"), tmp_path_factory.mktemp("alerts")
    servers = {}
    for name, text in SCENARIOS.items():
        (scenarios / f"{name}.yml").write_text(text)
        servers[name] = start(e2e.Simulator, scenarios / f"{name}.yml", name=name)
    for server in servers.values():
        server.wait_for(server.url)
    targets = [{"name": name, "url": server.url} for name, server in servers.items()]
    told = {"cost": {"draft_cost_ratio": 0.05}, "targets": targets}
    exporter = start(e2e.Exporter, json.dumps(told))
    webhook = start(e2e.Webhook)
    alertmanager = start(e2e.Alertmanager, alertmanager_config(webhook))
    alertmanager.wait_for(f"{alertmanager.url}/-/ready")
    config = prometheus_config(exporter, list(servers.values()), alertmanager, hurried(alerts))
    prometheus = start(e2e.Prometheus, config=config)
    prometheus.wait_for(f"{prometheus.url}/-/ready")
    return SimpleNamespace(
        scenarios=scenarios,
        servers=servers,
        webhook=webhook,
        alertmanager=alertmanager,
        prometheus=prometheus,
    )


@pytest.fixture(scope="module")
def alarmed(stack, start, e2e):
    """Record the three alerts up to the webhook; the faults end afterwards."""
    prometheus, webhook = stack.prometheus, stack.webhook
    e2e.eventually(lambda: prometheus.value('spec_decode_exporter_target_up{target="away"}'))
    stack.servers["away"].stop()
    seen = SimpleNamespace()
    _, *seen.chat = e2e.eventually(lambda: notified(webhook, "firing", CHAT_DROPPED))
    seen.model_notified, *seen.model = e2e.eventually(lambda: notified(webhook, "firing", MODEL_DROPPED))
    seen.inhibited = stack.alertmanager.inhibited()
    _, *seen.down = e2e.eventually(lambda: notified(webhook, "firing", TARGET_DOWN))
    port = stack.servers["away"].port
    start(e2e.Simulator, stack.scenarios / "away.yml", name="back", port=port)
    return seen


def notified(webhook, status, alert):
    name, labels = alert
    return webhook.first(status, name, **labels)


def test_the_notification_says_what_dropped_where_and_how_far(alarmed):
    receiver, alert = alarmed.chat
    assert receiver == "day"
    assert alert["labels"]["severity"] == "warning"
    assert alert["labels"]["model_name"] == "chat-model"
    said = re.search(
        r"gives (\d\.\d\d) tokens .* gave (\d\.\d\d) before", alert["annotations"]["description"]
    )
    now, before = map(float, said.groups())
    assert 1 < now < 2.2 < before < 5
    assert "var-target=chat&" in alert["annotations"]["dashboard_url"]
    assert not alert["annotations"].get("runbook_url"), "no exporter says its address in a browser"
    assert alarmed.down[0] == "day"


def test_a_model_that_drops_everywhere_is_one_alert_for_the_night(alarmed, stack):
    receiver, alert = alarmed.model
    assert receiver == "night"
    assert "code-model: acceptance has dropped on 100% of its engines" in alert["annotations"]["description"]
    inhibited = [each for each in alarmed.inhibited if each["labels"]["alertname"] == "SpecDecodeSuddenDrop"]
    assert {each["labels"]["target"] for each in inhibited} == {"code-1", "code-2"}
    # By Prometheus' own times: a machine that stands still could let the wait pass between two evaluations.
    wait = timedelta(
        seconds=int(read("alertmanager/alertmanager.yml")["route"]["group_wait"].removesuffix("s"))
    )
    began = datetime.fromisoformat(alert["startsAt"])
    # The model's alert needs both engines: their detectors may find the drop at different times.
    assert began - max(datetime.fromisoformat(each["startsAt"]) for each in inhibited) < wait
    sent = [
        moment
        for moment, _, each in stack.webhook.received
        if each["labels"]["alertname"] == "SpecDecodeSuddenDrop"
        and each["labels"]["model_name"] == "code-model"
    ]
    assert all(moment < alarmed.model_notified for moment in sent)


@pytest.mark.parametrize("alert", [CHAT_DROPPED, MODEL_DROPPED, TARGET_DOWN], ids=lambda alert: alert[0])
def test_what_is_over_is_told_too(alert, alarmed, stack, e2e):
    e2e.eventually(lambda: notified(stack.webhook, "resolved", alert))
    assert not [one for _, _, one in stack.webhook.received if one["labels"].get("target") == "calm"]
