from __future__ import annotations

import socket

import pytest

from spec_decode_exporter.config.shard_settings import ShardSettings


def test_without_shards_all_targets_belong_to_this_exporter(read):
    assert read("").discovery.shard == ShardSettings(index=0, count=1)


@pytest.mark.parametrize(("host", "index"), [("exporter-2", 2), ("spec-exporter-11.svc.cluster", 11)])
def test_the_index_may_be_that_of_a_statefulset(read, monkeypatch, host, index):
    monkeypatch.setattr(socket, "gethostname", lambda: host)
    assert read("discovery: {shard: {index: auto, count: 12}}").discovery.shard.index == index


@pytest.mark.parametrize("host", ["exporter", "exporter-6d4cf56db6-x7k2p", "2", "a-"])
def test_a_host_name_without_a_number_is_rejected(mistakes, monkeypatch, host):
    monkeypatch.setattr(socket, "gethostname", lambda: host)
    [reported] = mistakes("discovery: {shard: {index: auto, count: 3}}")
    assert reported.startswith(f"1: discovery.shard.index is auto, but the host name {host} does not end in")


@pytest.mark.parametrize("shard", ["index: 3, count: 3", "index: 1"])
def test_an_index_beyond_the_count_is_rejected(mistakes, shard):
    [reported] = mistakes(f"discovery: {{shard: {{{shard}}}}}")
    assert reported.startswith("1: discovery.shard.index must be less than `count`")


@pytest.mark.parametrize("shard", ["count: 0", "count: 1001", "index: -1", "index: automatic"])
def test_invalid_numbers_are_rejected(mistakes, shard):
    assert len(mistakes(f"discovery: {{shard: {{{shard}}}}}")) == 1
