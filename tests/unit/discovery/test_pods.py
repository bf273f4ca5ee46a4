"""Pods as targets."""

from __future__ import annotations

import json

import msgspec
import pytest

from spec_decode_exporter.config.labels import MAX_LABEL_VALUE
from spec_decode_exporter.config.target_settings import KubernetesDiscovery, Scrape
from spec_decode_exporter.discovery.kubernetes_api import Pod
from spec_decode_exporter.discovery.pods import MAX_ARGUMENTS, MAX_PORTS, PodReader


def pod(ip="10.0.0.9", phase="Running", ready="True", labels=None, annotations=None, **container) -> Pod:
    return msgspec.convert(
        {
            "apiVersion": "v1",
            "metadata": {
                "name": "chat-0",
                "namespace": "inference",
                "labels": labels or {},
                "annotations": annotations or {},
            },
            "spec": {"containers": [{"name": "proxy"}, {"name": "vllm", **container}]},
            "status": {"phase": phase, "podIP": ip, "conditions": [{"type": "Ready", "status": ready}]},
        },
        Pod,
    )


def targets(found: Pod, scrape=None, **settings):
    return PodReader(KubernetesDiscovery(**settings), scrape or Scrape()).targets(found)


def test_a_pod_is_a_target_by_its_names_with_the_labels_that_its_own_series_have():
    (target,) = targets(pod())
    assert target.url == "http://10.0.0.9:8000/metrics"
    assert target.name == "inference/chat-0"
    assert target.labels == (("namespace", "inference"), ("pod", "chat-0"))
    assert target.discovery == "kubernetes"


@pytest.mark.parametrize("change", [{"ip": ""}, {"phase": "Pending"}, {"phase": "Succeeded"}])
def test_a_pod_that_is_not_running_is_no_target(change):
    assert targets(pod(**change)) == ()


def test_readiness_counts_if_configured():
    assert len(targets(pod(ready="False"))) == 1
    assert targets(pod(ready="False"), only_ready=True) == ()
    assert len(targets(pod(ready="True"), only_ready=True)) == 1


def test_a_port_is_found_by_its_name_and_a_pod_without_it_is_no_target():
    declared = [{"name": "http", "containerPort": 8200, "protocol": "TCP"}]
    assert targets(pod(ports=declared), ports=("http",))[0].url == "http://10.0.0.9:8200/metrics"
    assert targets(pod(ports=declared), ports=("metrics",)) == ()


def test_each_of_several_ports_is_a_target_of_its_own_name():
    found = targets(pod(ports=[{"name": "rank-1", "containerPort": 8001}]), ports=("8000", "rank-1", "8000"))
    assert [(target.url, target.name) for target in found] == [
        ("http://10.0.0.9:8000/metrics", "inference/chat-0:8000"),
        ("http://10.0.0.9:8001/metrics", "inference/chat-0:8001"),
    ]


def test_annotations_take_precedence_over_the_configuration():
    annotations = {
        "prometheus.io/port": "9000, 9001",
        "prometheus.io/path": "m",
        "prometheus.io/scheme": "https",
    }
    scrape = Scrape(scheme="http", metrics_path="/metrics")
    assert [target.url for target in targets(pod(annotations=annotations), scrape)] == [
        "https://10.0.0.9:9000/m",
        "https://10.0.0.9:9001/m",
    ]


@pytest.mark.parametrize(
    ("annotation", "value", "message"),
    [
        ("port", "HTTP!", "the port of its annotation is neither"),
        ("port", "0", "the port of its annotation is neither"),
        ("port", ",".join(map(str, range(1, 20))), "more than 16 ports"),
        ("scheme", "ftp", "a scheme that is neither"),
        ("path", "/a b", "an unusable path"),
    ],
)
def test_a_pod_with_an_invalid_annotation_is_no_target_and_logged_once(annotation, value, message, log):
    reader = PodReader(KubernetesDiscovery(), Scrape(), "kubernetes x")
    for _ in range(2):
        assert reader.targets(pod(annotations={f"prometheus.io/{annotation}": value})) == ()
    (entry,) = log
    assert (entry["event"], entry["discovery"], entry["pod"]) == (
        "pod_left_out",
        "kubernetes x",
        "inference/chat-0",
    )
    assert message in entry["reason"]


def test_labels_of_the_pod_become_labels_where_it_has_them():
    found = pod(labels={"app.kubernetes.io/team": "a"})
    (target,) = targets(found, labels={"team": "app.kubernetes.io/team", "zone": "zone"})
    assert dict(target.labels) == {"namespace": "inference", "pod": "chat-0", "team": "a"}


def test_speculation_settings_come_from_the_arguments_of_a_container():
    settings = json.dumps({"method": "mtp", "num_speculative_tokens": 2})
    found = pod(
        args=["--speculative-config", "$(SPEC)"], env=[{"name": "SPEC", "value": settings}, {"name": "X"}]
    )
    (target,) = targets(found)
    assert (target.pod_arguments.method, target.pod_arguments.tokens) == ("mtp", 2)
    assert targets(pod())[0].pod_arguments is None


def test_a_pod_with_too_many_ports_of_one_name_is_no_target(log):
    ports = [{"name": "http", "containerPort": number} for number in range(1, MAX_PORTS + 2)]
    assert targets(pod(ports=ports), ports=("http",)) == ()
    assert f"more than {MAX_PORTS} ports" in log[0]["reason"]
    assert len(targets(pod(), ports=tuple(map(str, range(1, MAX_PORTS + 2))))) == MAX_PORTS + 1


def test_a_label_that_is_too_long_or_cannot_be_printed_is_dropped_with_one_warning(log):
    reader = PodReader(
        KubernetesDiscovery(labels={"team": "team", "tier": "tier", "note": "note"}),
        Scrape(),
        "kubernetes x",
    )
    labels = {"team": "a" * (MAX_LABEL_VALUE + 1), "tier": "a\x1b[2J", "note": "n" * MAX_LABEL_VALUE}
    for _ in range(3):
        (target,) = reader.targets(pod(labels=labels))
        assert set(dict(target.labels)) == {"namespace", "pod", "note"}
    assert [(entry["event"], entry["discovery"], entry["label"]) for entry in log] == [
        ("discovered_label_dropped", "kubernetes x", "team"),
        ("discovered_label_dropped", "kubernetes x", "tier"),
    ]
    assert all("\x1b" not in str(entry) for entry in log)


def test_a_container_with_more_arguments_than_the_limit_is_not_searched():
    def speculation(*containers):
        status = {"phase": "Running", "podIP": "10.0.0.9"}
        found = {
            "metadata": {"name": "a", "namespace": "b"},
            "spec": {"containers": containers},
            "status": status,
        }
        return targets(msgspec.convert(found, Pod))[0].pod_arguments

    served = {"args": ["vllm", "--spec-method=mtp"]}
    large = {"env": [{"name": "A", "value": "x" * MAX_ARGUMENTS}]}
    assert speculation(served, large).method == "mtp"
    assert speculation(large, served) is None
    assert speculation({"args": ["x" * (MAX_ARGUMENTS - 100)]}, served).method == "mtp"
