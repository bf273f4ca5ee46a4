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
    rendered = render({"networkPolicy": {"enabled": True, "ingressFrom": [prometheus]}})
    (rule,) = rendered.one("NetworkPolicy")["spec"]["ingress"]
    first, test = rule["from"]
    assert first == prometheus
    assert test["podSelector"]["matchLabels"].items() <= rendered.one("Pod")["metadata"]["labels"].items()
    assert not test["podSelector"]["matchLabels"].items() <= exporter_labels(rendered).items()


def test_where_nobody_is_said_only_the_pod_of_helm_test_is_let_in(render):
    (rule,) = policy(render)["ingress"]
    (peer,) = rule["from"]
    assert peer["podSelector"]["matchLabels"]["app.kubernetes.io/name"] == "spec-decode-exporter-test"


def test_without_a_test_nobody_else_is_let_in(render):
    values = {"networkPolicy": {"enabled": True}, "tests": {"enabled": False}}
    assert render(values).one("NetworkPolicy")["spec"]["ingress"] == []
    values["networkPolicy"]["ingressFrom"] = [{"podSelector": {}}]
    (rule,) = render(values).one("NetworkPolicy")["spec"]["ingress"]
    assert rule["from"] == [{"podSelector": {}}]


DNS = {"ports": [{"port": 53, "protocol": "UDP"}, {"port": 53, "protocol": "TCP"}]}


def egress(render, config, **network):
    """Return the egress rules besides that of DNS, which is always the first."""
    spec = render({"config": config, "networkPolicy": {"enabled": True, **network}}).one("NetworkPolicy")[
        "spec"
    ]
    assert spec["policyTypes"] == ["Ingress", "Egress"]
    first, *rules = spec["egress"]
    assert first == DNS
    return rules


def tcp(*ports):
    return [{"port": port, "protocol": "TCP"} for port in ports]


def in_namespaces(*names):
    match = {"key": "kubernetes.io/metadata.name", "operator": "In", "values": list(names)}
    return [{"namespaceSelector": {"matchExpressions": [match]}}]


def test_by_default_it_may_connect_to_the_api_and_to_pods_of_its_own_namespace(render):
    assert egress(render, {}) == [{"ports": tcp(443, 6443)}, {"to": in_namespaces("obs"), "ports": tcp(8000)}]


def test_each_way_to_look_for_pods_has_a_rule_of_its_own(render):
    one = {"namespaces": ["inference", "research"], "ports": ["http", "8001", 8002]}
    two = {"all_namespaces": True}
    assert egress(render, {"discovery": {"kubernetes": [one, two]}}, apiServerPorts=[16443]) == [
        {"ports": tcp(16443)},
        {"to": in_namespaces("inference", "research"), "ports": tcp("http", 8001, 8002)},
        {"to": [{"namespaceSelector": {}}], "ports": tcp(8000)},
    ]


@pytest.mark.parametrize(
    ("url", "port"),
    [
        ("http://vllm", 80),
        ("http://vllm/metrics?a=b:1", 80),
        ("https://vllm.example.org/metrics", 443),
        ("HTTPS://vllm", 443),
        ("http://vllm:8000", 8000),
        ("http://[fd00::1]:8001/metrics", 8001),
        ("http://[fd00::1]/metrics", 80),
        ("http://${HOST}:8002", 8002),
        ("https://${HOST:-vllm}", 443),
    ],
)
def test_without_looking_for_pods_it_may_connect_to_the_ports_of_its_targets_alone(render, url, port):
    assert egress(render, {"targets": [{"url": url}]}) == [{"ports": tcp(port)}]


def test_the_ports_of_names_of_lists_and_of_another_cluster_s_api_are_allowed(render):
    discovery = {
        "dns": [{"names": ["vllm"], "type": "A", "port": 8000}],
        "http": [{"url": "https://lists.example.org:9443/vllm"}],
        "kubernetes": [
            {"api_server": "https://api.example.org", "namespaces": ["inference"], "ports": [8001]}
        ],
    }
    further = {"ports": tcp(8443)}
    rules = egress(render, {"discovery": discovery}, egress=[further])
    assert rules == [{"ports": tcp(443, 8000, 8001, 9443)}, further]


@pytest.mark.parametrize(
    ("config", "what"),
    [
        ({"targets": [{"url": "http://vllm:${PORT}/metrics"}]}, "a variable in targets"),
        ({"targets": [{"url": "${SERVER}"}]}, "a variable in targets"),
        ({"discovery": {"files": ["/etc/targets/*.yml"]}}, "what discovery.files lists"),
        ({"discovery": {"http": [{"url": "http://lists/vllm"}]}}, "what discovery.http lists"),
        ({"discovery": {"dns": [{"names": ["_http._tcp.vllm"]}]}}, "the SRV records of discovery.dns"),
        (
            {"discovery": {"kubernetes": [{"api_server": "https://api", "ports": ["http"]}]}},
            "the port http of another cluster",
        ),
    ],
)
def test_a_port_that_the_chart_cannot_know_is_refused_unless_further_rules_are_said(
    render, refused, config, what
):
    values = {"config": config, "networkPolicy": {"enabled": True}}
    assert f"the ports of {what}: allow them in networkPolicy.egress" in refused(values)
    rules = [{"ports": tcp(8000)}]
    assert egress(render, config, egress=rules)[-1:] == rules


def test_a_pod_s_port_that_is_a_variable_is_refused(refused):
    config = {"discovery": {"kubernetes": [{"ports": ["${PORT}"]}]}}
    assert "port ${PORT}: no policy" in refused({"config": config, "networkPolicy": {"enabled": True}})


def test_a_budget_is_that_of_the_exporter_s_pods(render):
    rendered = render("shards")
    budget = rendered.one("PodDisruptionBudget")["spec"]
    assert budget["maxUnavailable"] == 1
    assert budget["selector"]["matchLabels"].items() <= exporter_labels(rendered).items()
    assert not render().of("PodDisruptionBudget")
