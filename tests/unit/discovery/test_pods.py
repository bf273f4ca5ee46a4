"""Pods as targets."""

from __future__ import annotations

import json

import msgspec
import pytest

from spec_decode_exporter.config.target_settings import KubernetesDiscovery, Scrape
from spec_decode_exporter.config.types import MAX_LABEL_VALUE
from spec_decode_exporter.core.urls import MAX_PATH
from spec_decode_exporter.discovery.pods import MAX_PORTS, Pod, PodDiscovery


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


def reader(scrape=None, **settings) -> PodDiscovery:
    return PodDiscovery("x", KubernetesDiscovery(**settings), scrape or Scrape())


def test_a_pod_is_a_target_by_its_names_with_the_labels_that_its_own_series_have():
    (target,) = reader().of_pod(pod())
    assert target.url == "http://10.0.0.9:8000/metrics"
    assert target.name == "inference/chat-0"
    assert target.labels == (("namespace", "inference"), ("pod", "chat-0"))
    assert target.discovery == "kubernetes"


@pytest.mark.parametrize(
    ("change", "settings", "number"),
    [
        ({"ip": ""}, {}, 0),
        ({"phase": "Pending"}, {}, 0),
        ({"phase": "Succeeded"}, {}, 0),
        ({"ready": "False"}, {}, 1),
        ({"ready": "False"}, {"only_ready": True}, 0),
        ({"ready": "True"}, {"only_ready": True}, 1),
    ],
)
def test_a_pod_is_a_target_if_it_runs_and_is_ready_if_that_is_configured(change, settings, number):
    assert len(reader(**settings).of_pod(pod(**change))) == number


def test_each_port_is_a_target_and_a_pod_without_it_is_none():
    found = pod(ports=[{"name": "rank-1", "containerPort": 8001, "protocol": "TCP"}])
    targets = reader(ports=("8000", "rank-1", "8000")).of_pod(found)
    assert [(target.url, target.name) for target in targets] == [
        ("http://10.0.0.9:8000/metrics", "inference/chat-0:8000"),
        ("http://10.0.0.9:8001/metrics", "inference/chat-0:8001"),
    ]
    assert reader(ports=("metrics",)).of_pod(found) == ()


def test_annotations_take_precedence_over_the_configuration():
    values = {"port": "9000, 9001", "path": "m", "scheme": "https"}
    annotations = {f"prometheus.io/{key}": value for key, value in values.items()}
    scrape = Scrape(scheme="http", metrics_path="/metrics")
    found = reader(scrape).of_pod(pod(annotations=annotations))
    assert [target.url for target in found] == ["https://10.0.0.9:9000/m", "https://10.0.0.9:9001/m"]


@pytest.mark.parametrize(
    ("annotation", "value", "message"),
    [
        ("port", "HTTP!", "the port of its annotation is neither"),
        ("port", "0", "the port of its annotation is neither"),
        ("port", ",".join(map(str, range(1, MAX_PORTS + 2))), "more than 16 ports"),
        ("port", "http", "more than 16 ports"),
        ("port", "," * 2**18, "more than 16 ports"),
        ("path", "m" * MAX_PATH, "an unusable path"),
        ("scheme", "ftp", "a scheme that is neither"),
        ("path", "/a b", "an unusable path"),
    ],
)
def test_a_pod_with_an_invalid_annotation_is_no_target_and_logged_once(annotation, value, message, log):
    discovery = reader()
    named = [{"name": "http", "containerPort": port} for port in range(1, MAX_PORTS + 2)]
    for _ in range(2):
        assert discovery.of_pod(pod(annotations={f"prometheus.io/{annotation}": value}, ports=named)) == ()
    (entry,) = log
    assert (entry["event"], entry["discovery"]) == ("pod_left_out", "kubernetes namespace x")
    assert entry["pod"] == "inference/chat-0"
    assert message in entry["reason"]


def test_speculation_settings_come_from_the_arguments_of_a_container():
    settings = json.dumps({"method": "mtp", "num_speculative_tokens": 2})
    env = [{"name": "SPEC", "value": settings}, {"name": "X"}]
    (target,) = reader().of_pod(pod(args=["--speculative-config", "$(SPEC)"], env=env))
    assert (target.pod_arguments.method, target.pod_arguments.tokens) == ("mtp", 2)
    assert reader().of_pod(pod())[0].pod_arguments is None


def test_labels_of_the_pod_become_labels_and_unusable_ones_are_dropped_with_one_warning(log):
    keys = {name: f"app/{name}" for name in ("team", "tier", "note", "zone")}
    discovery = reader(labels=keys)
    values = {"team": "a" * (MAX_LABEL_VALUE + 1), "tier": "a\x1b[2J", "note": "n" * MAX_LABEL_VALUE}
    for _ in range(3):
        (target,) = discovery.of_pod(pod(labels={keys[name]: value for name, value in values.items()}))
        assert dict(target.labels) == {"namespace": "inference", "pod": "chat-0", "note": values["note"]}
    assert [(entry["event"], entry["discovery"], entry["label"]) for entry in log] == [
        ("discovered_label_dropped", "kubernetes namespace x", "team"),
        ("discovered_label_dropped", "kubernetes namespace x", "tier"),
    ]
    assert all("\x1b" not in str(entry) for entry in log)
