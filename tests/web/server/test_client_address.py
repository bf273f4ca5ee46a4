from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.web.server.client_address import LOCAL, LOOPBACK, counted_address


@pytest.mark.parametrize(
    ("peer", "counted"),
    [
        (("10.1.2.3", 40000), "10.1.2.3"),
        (("::ffff:10.1.2.3", 40000, 0, 0), "10.1.2.3"),
        (("2001:db8:1:2:3:4:5:6", 40000, 0, 0), "2001:db8:1:2::/64"),
        (("2001:db8:1:2::1", 40001, 0, 0), "2001:db8:1:2::/64"),
        (("fe80::1%eth0", 40001, 0, 2), "fe80::/64"),
        (("127.0.0.1", 40000), LOOPBACK),
        (("127.9.9.9", 40000), LOOPBACK),
        (("::1", 40000, 0, 0), LOOPBACK),
        (("::ffff:127.0.0.2", 40000, 0, 0), LOOPBACK),
        ("", LOCAL),
        (None, LOCAL),
        ((), LOCAL),
        (("no address", 1), LOCAL),
    ],
)
def test_a_client_is_counted_by_the_part_of_its_address_that_it_cannot_choose(peer, counted):
    assert counted_address(peer) == counted


@given(st.ip_addresses(v=6), st.integers(0, 2**64 - 1))
def test_all_addresses_of_a_network_are_one_client(address, host):
    other = type(address)((int(address) >> 64 << 64) | host)
    if address.ipv4_mapped or other.ipv4_mapped or address.is_loopback or other.is_loopback:
        return
    assert counted_address((str(address), 1)) == counted_address((str(other), 2))
