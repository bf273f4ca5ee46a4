"""One parser of http and https URLs, for configuration, discovery and the HTTP client."""

from __future__ import annotations

import re
from ipaddress import IPv6Address
from sys import intern
from typing import Final, NamedTuple
from urllib.parse import SplitResult, parse_qsl, quote, urlsplit, urlunsplit

from spec_decode_exporter.core.numbers import MAX_TEXT

PORTS: Final = {"http": 80, "https": 443}  # default port of each scheme
MAX_PORT: Final = 65_535
MAX_PATH: Final = 2_048  # maximum characters of the path and query of a discovered page
PATH: Final = rf"/(?!/)[\x21\x22\x24-\x5b\x5d-\x7e]{{0,{MAX_PATH - 1}}}"
"""A path with its query: visible ASCII without ``#`` and backslash. Two slashes could begin a host."""

_MAX_HOST: Final = 253  # characters of a host name, as in DNS
_VISIBLE: Final = re.compile(r"[\x21-\x7e]+")
_LABEL: Final = r"[a-z0-9_-]{1,63}"
_AUTHORITY: Final = re.compile(
    rf"(?:(?P<name>{_LABEL}(?:\.{_LABEL})*+\.?)|\[(?P<ipv6>[0-9a-f:.]{{2,45}})\])(?::(?P<port>[0-9]{{1,9}}))?"
)
_ZONE: Final = re.compile(r"%[a-z0-9._-]+\]")
_UNQUOTED: Final = "/?%:@!$&'()*+,;=[]~"  # characters of a request target that are sent as they are
_API_PAGES: Final = ("/metrics", "/graph", "/query", "/api/v1")
"""Ends of a Prometheus' addresses that users copy from a browser."""
_BAD_PORT: Final = f"has no usable port; a port is a number from 1 to {MAX_PORT}"


class Url(NamedTuple):
    """Parsed URL. Two URLs of the same page are equal, with or without the default port."""

    scheme: str
    host: str  # a name in lower case or an IP address; IPv6 without brackets
    port: int
    target: str  # path and query, percent-encoded

    @classmethod
    def of(cls, text: str) -> Url:
        """Parse a URL; without a path, it has ``/``.

        Raises:
            ValueError: See ``normalise``.
        """
        parts = _checked(text)
        target = f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"
        port = parts.port or PORTS[parts.scheme]
        # Targets share one string: that of a filtered page has a thousand characters.
        return cls(parts.scheme, parts.hostname or "", port, intern(quote(target, safe=_UNQUOTED)))

    @property
    def address(self) -> str:
        """Host and port: ``host:port``, ``[ipv6]:port``."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def authority(self) -> str:
        """Value of the ``Host`` header: without the scheme's default port."""
        return self.address.removesuffix(f":{PORTS[self.scheme]}")

    def sibling(self, page: str) -> Url:
        """Return the URL of a page in the same folder."""
        return self._replace(target=f"{self.target.partition('?')[0].rstrip('/').rpartition('/')[0]}/{page}")

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}{self.target}"


def normalise(text: str, path: str = "/metrics") -> str:
    """Return the normal form of a URL: scheme and host in lower case, ``path`` if it has none.

    Raises:
        ValueError: It is not the URL of a page; the message has the remedy and never repeats the URL.
    """
    parts = _checked(text)
    return urlunsplit((parts.scheme, parts.netloc.lower(), parts.path or path, parts.query, ""))


def api_address(text: str) -> str:
    """Return the address of a Prometheus' API, without a page that was copied with it.

    Raises:
        ValueError: See ``normalise``.
    """
    url = normalise(text, "/").rstrip("/")
    return next((url.removesuffix(end) for end in _API_PAGES if url.endswith(end)), url)


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
        raise ValueError(_BAD_PORT)
    return host, port


def address(url: str) -> str:
    """Return ``host:port`` of a URL, with the scheme's port by default."""
    return Url.of(url).address


def model_of(url: str) -> str:
    """Return the model in the query of a page, as of llama.cpp's router; empty without a printable name."""
    model = dict(parse_qsl(Url.of(url).target.partition("?")[2])).get("model", "")
    return model[:MAX_TEXT] if model.isprintable() else ""


def without_query(url: str) -> str:
    """Return the URL with its query replaced, because a query may hold a key."""
    parts = urlsplit(url)
    return url if not parts.query else urlunsplit(parts._replace(query="<secret>"))


def _checked(text: str) -> SplitResult:
    if not _VISIBLE.fullmatch(text):
        raise ValueError("is empty, or holds a space or a non-ASCII character; write it percent-encoded")
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise ValueError(f"has an invalid host or port; a port is a number from 1 to {MAX_PORT}") from None
    if port == 0 or parts.netloc.endswith(":"):
        raise ValueError(_BAD_PORT)
    if parts.scheme not in PORTS or not parts.netloc:
        example = "http://host:port/metrics or https://host:port/metrics"
        raise ValueError(f"is not an address; write it as {example}")
    if "@" in parts.netloc:
        raise ValueError("holds a user or password; put them under `basic_auth`")
    if parts.fragment or text.endswith("#"):
        raise ValueError("ends in a fragment; remove everything from `#` on")
    host_and_port(_ZONE.sub("]", parts.netloc.lower()))
    return parts


def _is_ipv6(text: str) -> bool:
    try:
        IPv6Address(text)
    except ValueError:
        return False
    return True
