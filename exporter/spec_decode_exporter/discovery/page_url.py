"""Build the URL of a discovered page from untrusted text. It can only lead to the discovered host."""

from __future__ import annotations

import re
from ipaddress import IPv6Address, ip_address
from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode

from spec_decode_exporter.core.urls import MAX_PATH, MAX_PORT, PATH, PORTS, host_and_port
from spec_decode_exporter.scrape.errors import PollError
from spec_decode_exporter.scrape.http.origin import Origin, split

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_PARAMETERS: Final = 32
MAX_PARAMETER_CHARACTERS: Final = 2_048
"""Maximum characters of all parameters, as encoded in the URL."""

_PATH: Final = re.compile(PATH)


def ip_and_port(ip: str, port: int) -> str:
    """Return ``ip:port`` for ``page_url``.

    Raises:
        ValueError: ``ip`` is not an IP address, or has an IPv6 zone; or no connection can use ``port``.
    """
    try:
        parsed = ip_address(ip)
    except ValueError:
        raise ValueError("is not an IP address") from None
    if isinstance(parsed, IPv6Address) and parsed.scope_id is not None:
        raise ValueError("is an IP address with a zone, which no other host knows")
    if not 0 < port <= MAX_PORT:
        raise ValueError(f"has no usable port; a port is a number from 1 to {MAX_PORT}")
    return f"[{parsed}]:{port}" if isinstance(parsed, IPv6Address) else f"{parsed}:{port}"


def request_target(path: str, parameters: Sequence[tuple[str, str]] = ()) -> str:
    """Return the request target: path and query.

    Args:
        path: Its first slash is optional; it may have a query.
        parameters: Names and values to add to the query.

    Raises:
        ValueError: The path or a parameter is unusable or too long. The message does not repeat it.
    """
    target = f"/{path.removeprefix('/')}"
    if len(target) > MAX_PATH:
        raise ValueError(f"has a path of more than {MAX_PATH:,} characters")
    if not _PATH.fullmatch(target) or "://" in target.partition("?")[0]:
        raise ValueError("has an unusable path; write it after one `/`, percent-encoded and without a host")
    if not parameters:
        return target
    return target + ("&" if "?" in target else "?") + _encoded(parameters)


def _encoded(parameters: Sequence[tuple[str, str]]) -> str:
    if len(parameters) > MAX_PARAMETERS:
        raise ValueError(f"has more than {MAX_PARAMETERS} parameters")
    # Checked first: encoding a megabyte takes time.
    if sum(len(name) + len(value) for name, value in parameters) <= MAX_PARAMETER_CHARACTERS:
        try:
            encoded = urlencode(parameters)
        except UnicodeEncodeError:
            raise ValueError("has a parameter with half of a character") from None
        if len(encoded) <= MAX_PARAMETER_CHARACTERS:
            return encoded
    raise ValueError(f"has parameters of more than {MAX_PARAMETER_CHARACTERS:,} characters")


def page_url(scheme: str, host: str, target: str) -> str:
    """Return the URL of a page. It leads only to ``host``, since the exporter sends credentials there.

    Args:
        scheme: Exactly ``http`` or ``https``.
        host: ``host:port``; without a port, the scheme's default applies.
        target: Result of ``request_target``.

    Raises:
        ValueError: The scheme or the host is unusable. The message does not repeat them.
    """
    if scheme not in PORTS:
        raise ValueError("has a scheme that is neither `http` nor `https`, in small letters")
    name, port = host_and_port(host)
    url = f"{scheme}://{host.lower()}{target}"
    try:
        origin, _ = split(url)
    except PollError:
        origin = None
    # The client's own parser decides the host of a connection, so its result is checked.
    if origin != Origin(scheme, name, port or PORTS[scheme]):
        raise ValueError("leads to another host than the one that was found")
    return url
