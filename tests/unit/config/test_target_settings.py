from __future__ import annotations

import socket

import pytest


@pytest.mark.parametrize(
    ("keys", "watched"),
    [
        ("label_selector: app=vllm", (None,)),
        ("namespaces: [a, b]", ("a", "b")),
        ("all_namespaces: true", ("",)),
    ],
)
def test_without_namespaces_it_is_the_exporters_own(read, keys, watched):
    found = read(f"discovery: {{kubernetes: [{{{keys}, ports: [8000, http]}}]}}")
    assert found.discovery.kubernetes[0].watched == watched
    assert found.discovery.kubernetes[0].ports == ("8000", "http")
    assert (found.targets, found.discovery.ways) == ((), 1)  # no vLLM beside the exporter


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
