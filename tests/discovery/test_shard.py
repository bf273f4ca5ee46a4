"""Targets shared by several exporters."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.discovery.shard import hash_modulus, shard_of
from spec_decode_exporter.discovery.target import Target


@pytest.mark.parametrize(
    ("url", "count", "shard"),
    [
        ("http://10.0.0.1:8000/metrics", 1, 0),
        ("http://10.0.0.1:8000/metrics", 1000, 931),
        ("http://10.0.0.1:8000/other", 1000, 931),
        ("http://[fd00::9]:8000/metrics", 1000, 772),
    ],
)
def test_a_target_belongs_where_hashmod_of_prometheus_puts_its_address(url, count, shard):
    assert shard_of(Target(url, "x"), count) == shard


def test_the_hash_is_that_of_prometheus():
    # model/relabel/relabel_test.go of Prometheus: hashmod of "baz" with the modulus 1000
    assert hash_modulus("baz", 1000) == 976


@given(st.ip_addresses(), st.integers(1, 65535), st.integers(1, 50))
def test_each_target_has_one_owner_whatever_it_is_called(ip, port, count):
    url = f"http://[{ip}]:{port}/metrics" if ip.version == 6 else f"http://{ip}:{port}/metrics"
    owner = shard_of(Target(url, "a"), count)
    assert 0 <= owner < count
    assert shard_of(Target(url, "b", (("x", "y"),)), count) == owner
