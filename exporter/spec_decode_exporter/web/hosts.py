"""Names of the exporter's own site: its address, and protection from DNS rebinding.

With DNS rebinding, another site's name leads to this address; only the ``Host`` header reveals it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from http import HTTPStatus
from ipaddress import ip_address
from typing import Final, NamedTuple

from aiohttp import hdrs, web
from aiohttp.typedefs import Handler, Middleware
from multidict import MultiMapping

from spec_decode_exporter.core.urls import host_and_port
from spec_decode_exporter.core.user_errors import UsageError
from spec_decode_exporter.web.limits import error_response

_EXTERNAL_URL: Final = re.compile(
    r"https?://(\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9._-]{1,253})(:\d{1,5})?(/[A-Za-z0-9._~/-]{0,1000})?",
    re.ASCII,
)


def parse_authority(text: str) -> tuple[str, int | None] | None:
    """Return host and port of a ``Host`` header, without the root's dot; None if it is none."""
    try:
        host, port = host_and_port(text)
    except ValueError:
        return None
    return host.removesuffix("."), port


def _is_address(host: str) -> bool:
    try:
        return bool(ip_address(host))
    except ValueError:
        return False


class AllowedHosts(NamedTuple):
    """Host names that clients may request; none allows all. A leading ``*.`` matches any subdomains."""

    names: frozenset[str] = frozenset()

    @classmethod
    def parse(cls, texts: Iterable[str]) -> AllowedHosts:
        """Parse host names, or raise UsageError."""
        names = {text: text.lower().removesuffix(".") for text in texts}
        for text, name in names.items():
            if parse_authority(plain := name.removeprefix("*.")) != (plain, None):
                raise UsageError(
                    f"{text[:100]!r} is not a host name for --web.allowed-hosts: write it without scheme and "
                    "port, such as exporter.example.com or *.example.com; addresses are always allowed"
                )
        return cls(frozenset(names.values()))

    def allow(self, target: str, headers: MultiMapping[str]) -> bool:
        """Return whether the ``Host`` header and an absolute request target name allowed hosts.

        Addresses and ``localhost`` are always allowed: DNS rebinding cannot use them.
        """
        values = headers.getall(hdrs.HOST, ())
        authorities = [values[0] if len(values) == 1 else ""]
        if not target.startswith("/") and target != "*":  # such as http://host/path
            authorities.append(re.split("[/?#]", target.partition("://")[2], maxsplit=1)[0])
        return not self.names or all(map(self._allows, authorities))

    def _allows(self, authority: str) -> bool:
        host, _ = parse_authority(authority) or ("", None)
        parents = (host[dot:] for dot, letter in enumerate(host) if letter == ".")
        is_named = host in self.names or any(f"*{parent}" in self.names for parent in parents)
        return is_named or host == "localhost" or _is_address(host)


def host_guard(allowed: AllowedHosts) -> Middleware:
    """Return the middleware that rejects requests for other hosts."""

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        # A client of a unix socket has no address, and is no browser.
        if request.remote and not allowed.allow(request.raw_path, request.headers):
            text = "The Host header or the request line names no host of --web.allowed-hosts."
            return error_response(HTTPStatus.MISDIRECTED_REQUEST, text, close=True)
        return await handler(request)

    return check


def parse_external_url(text: str) -> str:
    """Return the address of the pages in a browser, without a slash at its end, or raise UsageError."""
    if not _EXTERNAL_URL.fullmatch(text):
        raise UsageError(
            f"--web.external-url {text!r} is not an address such as https://monitoring.example.com/spec-decode"
        )
    return text.rstrip("/")
