"""Client address that connections, requests and password checks are counted by."""

from __future__ import annotations

from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import asyncio

LOCAL: Final = "local"
"""Unix sockets, and transports without an address."""
LOOPBACK: Final = "loopback"
"""127.0.0.0/8 and ::1: a local program can connect from each of these addresses."""

_HOST_BITS: Final = 64
"""Bits of an IPv6 address that a single host can choose."""


def client_address(transport: asyncio.BaseTransport | None) -> str:
    """Return the address that the client of a transport is counted by."""
    return counted_address(transport.get_extra_info("peername") if transport is not None else None)


def counted_address(peer: object) -> str:
    """Return the address that a socket's peer is counted by: for IPv6, its /64 network.

    ``peer`` is the result of ``getpeername``: for IPv4 and IPv6 a tuple that begins with the address.
    """
    return _counted(peer[0]) if isinstance(peer, tuple) and peer and isinstance(peer[0], str) else LOCAL


@lru_cache(maxsize=256)
def _counted(text: str) -> str:
    try:
        address: IPv4Address | IPv6Address = ip_address(text)
    except ValueError:
        return LOCAL
    if isinstance(address, IPv6Address):
        address = address.ipv4_mapped or address
    if address.is_loopback:
        return LOOPBACK
    if isinstance(address, IPv6Address):
        return str(IPv6Network((int(address), _HOST_BITS), strict=False))
    return str(address)
