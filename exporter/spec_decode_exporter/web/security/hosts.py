"""The ``Host`` and ``Origin`` headers: protection against other sites in the browser of a user.

A page of another site can make a browser send requests here. ``Origin`` and ``Sec-Fetch-Site`` show that,
and such requests must change nothing. With DNS rebinding, the other site gives its own name this address;
only the ``Host`` header shows that.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final, NamedTuple

from aiohttp import hdrs, web

from spec_decode_exporter.web.server.client_address import LOCAL, client_address

if TYPE_CHECKING:
    from collections.abc import Iterable

    from aiohttp.typedefs import Handler, Middleware
    from multidict import MultiMapping

_AUTHORITY: Final = re.compile(
    r"(?:\[(?P<ipv6>[0-9a-f:.]{2,45})\]|(?P<name>[a-z0-9._-]{1,254}))(?::(?P<port>\d{0,5}))?", re.ASCII
)
_HOST_NAME: Final = re.compile(r"(?=.{1,253}\Z)[a-z0-9_-]{1,63}(?:\.[a-z0-9_-]{1,63})*", re.ASCII)
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_SAFE: Final = frozenset({hdrs.METH_GET, hdrs.METH_HEAD})
_SITE: Final = "Sec-Fetch-Site"
_OWN_SITE: Final = frozenset({"same-origin", "none"})
"""Values of ``Sec-Fetch-Site``: the exporter's own page, and a user who typed the address."""


class Authority(NamedTuple):
    """A host and a port, as in a URL."""

    host: str
    """In small letters, without brackets and without the dot of the root."""
    port: int | None


def parse_authority(text: str) -> Authority | None:
    """Parse the value of a ``Host`` header; None if it is no host with an optional port."""
    match = _AUTHORITY.fullmatch(text.lower()) if text.isascii() else None
    if match is None:
        return None
    port = int(match["port"]) if match["port"] else None
    if match["ipv6"] is not None:
        return Authority(match["ipv6"], port) if _is_address(match["ipv6"]) else None
    name = match["name"].removesuffix(".")
    return Authority(name, port) if _HOST_NAME.fullmatch(name) else None


def is_foreign(headers: MultiMapping[str], allowed: AllowedHosts, *, secure: bool) -> bool:
    """Return whether a browser sent a request for a page of another site.

    Args:
        headers: The headers of the request.
        allowed: The names whose pages are not of another site, besides that of the ``Host`` header.
        secure: Whether the request came through TLS: then a page without TLS is one of another site.
    """
    if any(value not in _OWN_SITE for value in headers.getall(_SITE, ())):
        return True
    origins, host = headers.getall(hdrs.ORIGIN, ()), _host(headers)
    return any(not _is_own(origin, host, allowed, secure=secure) for origin in origins)


def _is_own(origin: str, host: Authority | None, allowed: AllowedHosts, *, secure: bool) -> bool:
    scheme, separator, rest = origin.partition("://")
    own = parse_authority(rest) if separator else None
    default = _DEFAULT_PORTS.get(scheme)
    if own is None or default is None or (secure and scheme == "http"):
        return False
    if allowed.names and allowed.by_name(own.host):
        return True
    return host is not None and (own.host, own.port or default) == (host.host, host.port or default)


def _host(headers: MultiMapping[str]) -> Authority | None:
    """Return what the ``Host`` header says; None if there is none, or several."""
    given = headers.getall(hdrs.HOST, ())
    return parse_authority(given[0]) if len(given) == 1 else None


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class AllowedHosts:
    """The host names that clients may ask for; without a name, all of them."""

    names: frozenset[str] = frozenset()
    """``*.`` at the beginning is for any names before the rest."""

    @classmethod
    def parse(cls, texts: Iterable[str]) -> AllowedHosts:
        """Read names.

        Raises:
            ValueError: A text is not a host name.
        """
        names = {text: text.lower().removesuffix(".") for text in texts}
        for text, name in names.items():
            if not _HOST_NAME.fullmatch(name.removeprefix("*.")):
                raise ValueError(
                    f"{text[:100]!r} is not a host name for --web.allowed-hosts: write it without scheme and "
                    "port, such as exporter.example.com or *.example.com; addresses are always allowed"
                )
        return cls(frozenset(names.values()))

    def by_name(self, host: str) -> bool:
        """Return whether a name is one of those."""
        parents = (host[dot:] for dot, letter in enumerate(host) if letter == ".")
        return host in self.names or any(f"*{parent}" in self.names for parent in parents)

    def allow(self, headers: MultiMapping[str]) -> bool:
        """Return whether a request may be answered, by its ``Host`` header.

        Addresses and ``localhost`` are always allowed: DNS cannot give them another meaning.
        """
        if not self.names:
            return True
        found = _host(headers)
        return found is not None and (
            found.host == "localhost" or _is_address(found.host) or self.by_name(found.host)
        )


EVERY_HOST: Final = AllowedHosts()


def host_guard(allowed: AllowedHosts) -> Middleware:
    """Return the middleware that rejects requests for other hosts, and changes for other sites."""

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        # No browser can connect to a unix socket.
        if client_address(request.transport) != LOCAL and not allowed.allow(request.headers):
            return _rejected(421, "The Host header names none of the hosts of --web.allowed-hosts.")
        if request.method not in _SAFE and is_foreign(request.headers, allowed, secure=request.secure):
            return _rejected(
                403,
                "A page of another site must not change anything here, by Origin or Sec-Fetch-Site. "
                "If a proxy changes the Host header, name the host of its URL with --web.allowed-hosts.",
            )
        return await handler(request)

    return check


def _rejected(status: int, text: str) -> web.Response:
    answer = web.Response(status=status, text=f"{text}\n")
    answer.force_close()
    return answer
