from __future__ import annotations

import pytest


def test_without_namespaces_it_is_the_exporters_own(read):
    def watched(keys):
        return read(f"discovery: {{kubernetes: [{{{keys}}}]}}").discovery.kubernetes[0].watched

    assert watched("label_selector: app=vllm") == (None,)
    assert watched("namespaces: [a, b]") == ("a", "b")
    assert watched("all_namespaces: true") == ("",)


def test_pods_take_the_place_of_the_vllm_beside_the_exporter(read):
    found = read("discovery: {kubernetes: [{label_selector: app=vllm}]}")
    assert (found.targets, found.discovery.ways) == ((), 1)


def test_ports_are_numbers_or_names(read):
    found = read("discovery: {kubernetes: [{ports: [8000, http, vllm-2]}]}")
    assert found.discovery.kubernetes[0].ports == ("8000", "http", "vllm-2")


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ("namespaces: [A]", "namespaces[0] is not the name of a namespace"),
        ("label_selector: app in (vllm", "label_selector is not a selector of labels"),
        ("label_selector: app=vllm;tier", "label_selector is not a selector of labels"),
        *(
            (f"ports: [{port}]", "ports[0] is neither the number of a port")
            for port in ("0", "65536", "HTTP", "a-very-long-port-name", "-a", "''")
        ),
        ("ports: []", "ports must not be empty"),
        ("namespaces: [a], all_namespaces: true", "all_namespaces cannot stand beside `namespaces`"),
        ("labels: {pod: x}", "labels.pod is a label that every pod's target has"),
        ("labels: {namespace: x}", "labels.namespace is a label that every pod's target has"),
        ("labels: {job: x}", "labels.job is a label that Prometheus sets"),
        ("labels: {team: 'a b'}", "labels.team is not the key of a pod's label"),
    ],
)
def test_mistakes_are_reported_at_their_key(mistakes, keys, message):
    [reported] = mistakes(f"discovery: {{kubernetes: [{{{keys}}}]}}")
    assert reported.startswith(f"1: discovery.kubernetes[0].{message}")
