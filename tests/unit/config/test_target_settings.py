from __future__ import annotations

import socket

import pytest

from spec_decode_exporter.config.target_settings import ShardSettings


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


def test_without_shards_all_targets_belong_to_this_exporter(read):
    assert read("").discovery.shard == ShardSettings(index=0, count=1)


@pytest.mark.parametrize(("host", "index"), [("exporter-2", 2), ("spec-exporter-11.svc.cluster", 11)])
def test_the_index_may_be_that_of_a_statefulset(read, monkeypatch, host, index):
    monkeypatch.setattr(socket, "gethostname", lambda: host)
    assert read("discovery: {shard: {index: auto, count: 12}}").discovery.shard.index == index


@pytest.mark.parametrize(
    ("shard", "host", "mistake"),
    [
        *(
            ("index: auto, count: 3", host, f"index is auto, but the host name {host} does not end in")
            for host in ("exporter", "exporter-6d4cf56db6-x7k2p", "2", "a-")
        ),
        ("index: 3, count: 3", "a-0", "index must be less than `count`"),
        ("index: 1", "a-0", "index must be less than `count`"),
        *((shard, "a-0", "") for shard in ("count: 0", "count: 1001", "index: -1", "index: automatic")),
    ],
)
def test_an_index_without_its_place_is_rejected(mistakes, monkeypatch, shard, host, mistake):
    monkeypatch.setattr(socket, "gethostname", lambda: host)
    [reported] = mistakes(f"discovery: {{shard: {{{shard}}}}}")
    assert reported.startswith(f"1: discovery.shard.{mistake}")
