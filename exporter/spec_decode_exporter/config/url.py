"""URLs of metrics pages: validation, normal form, and the default name of a target."""

from __future__ import annotations

import re
from ipaddress import IPv6Address
from typing import Final
from urllib.parse import SplitResult, urlsplit, urlunsplit

PORTS: Final = {"http": 80, "https": 443}
"""Schemes of pages, each with its port."""
MAX_PORT: Final = 65_535
MAX_PATH: Final = 2_048
"""Characters of the path and query of a discovered page."""
PATH: Final = rf"/(?!/)[\x21\x22\x24-\x5b\x5d-\x7e]{{0,{MAX_PATH - 1}}}"
"""A path with its query: visible ASCII without ``#`` and backslash. Two slashes could begin a host."""
_MAX_HOST: Final = 253
"""Characters of a host name, as in DNS."""

_API_PAGES: Final = ("/metrics", "/graph", "/query", "/api/v1")
"""Ends of a Prometheus' addresses that users copy from a browser."""

_VISIBLE: Final = re.compile(r"[\x21-\x7e]+")
_LABEL: Final = r"[a-z0-9_-]{1,63}"
_AUTHORITY: Final = re.compile(
    rf"(?:(?P<name>{_LABEL}(?:\.{_LABEL})*+\.?)|\[(?P<ipv6>[0-9a-f:.]{{2,45}})\])(?::(?P<port>[0-9]{{1,9}}))?"
)
_ZONE: Final = re.compile(r"%[a-z0-9._-]+\]")


def normalise(text: str, path: str = "/metrics") -> str:
    """Return the normal form of a URL: scheme and host in lower case, ``path`` if it has none.

    Raises:
        ValueError: It is not the URL of a page; the message has the remedy and never repeats the URL.
    """
    parts = _split(text)
    if parts.scheme not in PORTS or not parts.netloc:
        raise ValueError(
            "is not an address; write it as http://host:port/metrics or https://host:port/metrics"
        )
    if "@" in parts.netloc:
        raise ValueError("holds a user or password; put them under `basic_auth`")
    if parts.fragment or text.endswith("#"):
        raise ValueError("ends in a fragment; remove everything from `#` on")
    host_and_port(_ZONE.sub("]", parts.netloc.lower()))
    return urlunsplit((parts.scheme, parts.netloc.lower(), parts.path or path, parts.query, ""))


def api_address(text: str) -> str:
    """Return the address of a Prometheus' API, without a page that was copied with it.

    Raises:
        ValueError: It is not an address; see ``normalise``.
    """
    url = normalise(text, "/").rstrip("/")
    return next((url.removesuffix(end) for end in _API_PAGES if url.endswith(end)), url)


def _split(text: str) -> SplitResult:
    if not _VISIBLE.fullmatch(text):
        raise ValueError("is empty, or holds a space or a non-ASCII character; write it percent-encoded")
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise ValueError("has an invalid host or port; a port is a number from 1 to 65535") from None
    if port == 0 or parts.netloc.endswith(":"):
        raise ValueError("has no usable port; a port is a number from 1 to 65535")
    return parts


def host_and_port(text: str) -> tuple[str, int | None]:
    """Return the host of ``host:port`` in lower case, and the port; None without a port.

    An IPv6 address is written in brackets and returned without them.

    Raises:
        ValueError: It is not one host with at most one port. The message does not repeat it.
    """
    # Lower-casing may turn other characters into ASCII ones: the Kelvin sign is a `k` then.
    match = _AUTHORITY.fullmatch(text.lower()) if text.isascii() else None
    host = (match["name"] or match["ipv6"]) if match else ""
    if match is None or len(host) > _MAX_HOST or not (match["name"] or _is_ipv6(host)):
        raise ValueError("has no valid host; write `host:port`, and an IPv6 address as `[address]:port`")
    port = int(match["port"]) if match["port"] else None
    if port is not None and not 0 < port <= MAX_PORT:
        raise ValueError("has no usable port; a port is a number from 1 to 65535")
    return host, port


def _is_ipv6(text: str) -> bool:
    try:
        IPv6Address(text)
    except ValueError:
        return False
    return True


def address(url: str) -> str:
    """Return ``host:port`` of a URL, with the scheme's port by default and without the user."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    port = parts.port or PORTS.get(parts.scheme, 80)
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def identity(url: str) -> tuple[str, str, str, str]:
    """Return a key that is equal for two URLs of the same page, with or without the default port."""
    parts = urlsplit(url)
    return parts.scheme, address(url), parts.path, parts.query


def without_query(url: str) -> str:
    """Return the URL with its query replaced, because a query may hold a key."""
    parts = urlsplit(url)
    return url if not parts.query else urlunsplit(parts._replace(query="<secret>"))
