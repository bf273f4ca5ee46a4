"""NetworkPolicy and PodDisruptionBudget."""

from __future__ import annotations

import pytest


def policy(render, **network):
    return render({"networkPolicy": {"enabled": True, **network}}).one("NetworkPolicy")["spec"]


def exporter_labels(rendered):
    workload = (rendered.of("Deployment") + rendered.of("StatefulSet"))[0]
    return workload["spec"]["template"]["metadata"]["labels"]


def test_the_network_policy_is_that_of_the_exporter_and_its_port(render):
    rendered = render("fleet")
    spec = rendered.one("NetworkPolicy")["spec"]
    assert spec["podSelector"]["matchLabels"].items() <= exporter_labels(rendered).items()
    (container,) = rendered.one("Deployment")["spec"]["template"]["spec"]["containers"]
    (rule,) = spec["ingress"]
    assert rule["ports"] == [{"port": "spec-decode", "protocol": "TCP"}]
    assert "spec-decode" in {port["name"] for port in container["ports"]}


def test_who_may_scrape_is_as_said_and_the_pod_of_helm_test(render):
    prometheus = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}
    rendered = render({"networkPolicy": {"enabled": True, "from": [prometheus]}})
    (rule,) = rendered.one("NetworkPolicy")["spec"]["ingress"]
    first, test = rule["from"]
    assert first == prometheus
    assert test["podSelector"]["matchLabels"].items() <= rendered.one("Pod")["metadata"]["labels"].items()
    assert not test["podSelector"]["matchLabels"].items() <= exporter_labels(rendered).items()


def test_where_nobody_is_said_anybody_may_scrape(render):
    (rule,) = policy(render)["ingress"]
    assert "from" not in rule


def test_without_a_test_nobody_else_is_let_in(render):
    values = {"networkPolicy": {"enabled": True, "from": [{"podSelector": {}}]}, "tests": {"enabled": False}}
    (rule,) = render(values).one("NetworkPolicy")["spec"]["ingress"]
    assert rule["from"] == [{"podSelector": {}}]


@pytest.mark.parametrize("egress", [[], [{"ports": [{"port": 53, "protocol": "UDP"}]}]])
def test_what_goes_out_is_limited_only_where_it_is_said(render, egress):
    spec = policy(render, egress=egress)
    assert ("Egress" in spec["policyTypes"]) == bool(egress)
    assert spec.get("egress", []) == egress


def test_a_budget_is_that_of_the_exporter_s_pods(render):
    rendered = render("shards")
    budget = rendered.one("PodDisruptionBudget")["spec"]
    assert budget["maxUnavailable"] == 1
    assert budget["selector"]["matchLabels"].items() <= exporter_labels(rendered).items()
    assert not render().of("PodDisruptionBudget")
