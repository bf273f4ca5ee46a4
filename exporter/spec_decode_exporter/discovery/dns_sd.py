"""Targets from DNS records, as for Prometheus' ``dns_sd_configs``."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING, Final

from spec_decode_exporter.core.tasks import TARGET_LISTS
from spec_decode_exporter.discovery.page_url import ip_and_port
from spec_decode_exporter.discovery.target_discovery import DiscoveryError
from spec_decode_exporter.discovery.target_groups import Listing
from spec_decode_exporter.scrape.client import CONFIG_RESOLVER

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from spec_decode_exporter.config.target_settings import DnsDiscovery, Scrape
    from spec_decode_exporter.discovery.target import Target

_TIMEOUT: Final = 5.0
MAX_ADDRESSES: Final = 4_096
"""Maximum addresses of one name: a DNS response has no room for more."""

_FAMILIES: Final = {"A": socket.AF_INET, "AAAA": socket.AF_INET6}

_NO_SUCH_NAME: Final = frozenset({socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME)})
"""Resolver errors for records that certainly do not exist."""


class DnsNameDiscovery:
    """Targets of one DNS name."""

    kind: Final = "dns"

    def __init__(self, name: str, settings: DnsDiscovery, scrape: Scrape) -> None:
        """Look up ``name``, one of those in ``settings``."""
        self.name = f"{self.kind} {settings.type} {name}"
        self.key = f"{self.name}:{settings.port}"
        self.refresh = settings.refresh_interval
        self._dns_name = name
        self._look_up = _service if settings.type == "SRV" else _host(settings.type, settings.port or 0)
        self._listing = Listing(self.name, self.kind, scrape, self.key)

    async def targets(self) -> Sequence[Target]:
        """Look up the name.

        Raises:
            DiscoveryError: No server responds, so the targets stay; or the record does not exist, so they go.
        """
        hosts = await self._look_up(self._dns_name)
        if len(hosts) > MAX_ADDRESSES:
            raise DiscoveryError(f"has more than {MAX_ADDRESSES} addresses; divide them among several names")
        # Sorted: of two targets with the same name the first keeps it, and name servers rotate records.
        # In a thread: a response may have thousands of records.
        return await TARGET_LISTS.run(self._listing.targets, [{"targets": sorted(hosts)}])


def _host(kind: str, port: int) -> Callable[[str], Awaitable[set[str]]]:
    """Return the look-up of A or AAAA records, by the system's resolver."""

    async def look_up(name: str) -> set[str]:
        try:
            async with asyncio.timeout(_TIMEOUT):
                hosts = await CONFIG_RESOLVER.look_up(name, port, _FAMILIES[kind])
        except socket.gaierror as error:
            targets = () if error.errno in _NO_SUCH_NAME else None
            raise DiscoveryError(error.strerror or "the look-up failed", targets) from None
        except (OSError, UnicodeError):
            raise DiscoveryError("no name server answered in time, or this is no name") from None
        try:
            return {ip_and_port(host, port) for host in hosts}
        except ValueError as error:
            raise DiscoveryError(f"an address of the name {error}") from None

    return look_up


async def _service(name: str) -> set[str]:
    """Look up SRV records by dnspython, with the same resolv.conf: the system's resolver cannot."""
    import dns.exception
    import dns.resolver

    try:
        # In a thread: parsing a response of 64 KiB takes some 0.2 s.
        resolver = dns.resolver.Resolver()
        answer = await CONFIG_RESOLVER.run(
            lambda: resolver.resolve(name, "SRV", search=True, lifetime=_TIMEOUT)
        )
    except (dns.resolver.NXDOMAIN, dns.resolver.NoAnswer):
        raise DiscoveryError("there is no such record", ()) from None
    except (dns.exception.DNSException, OSError) as error:
        raise DiscoveryError(f"the look-up failed: {type(error).__name__}") from None
    hosts = ((record.target.to_text(omit_final_dot=True), record.port) for record in answer)
    return {f"{host}:{port}" for host, port in hosts if host != "."}
