"""Addresses of metrics pages: what may be configured, and how one is called."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import SplitResult, urlsplit, urlunsplit

_PORTS: Final = {"http": 80, "https": 443}
_VISIBLE: Final = re.compile(r"[\x21-\x7e]+")
_HOST: Final = re.compile(r"[a-z0-9._-]+|[0-9a-f:.]+(%[a-z0-9._-]+)?")


def normalise(text: str, path: str = "/metrics") -> str:
    """Return the URL as it is asked for: scheme and host in small letters, ``path`` where it has none.

    Raises:
        ValueError: It is not the URL of a page; the message, which never repeats the URL, says what to write.
    """
    parts = _split(text)
    if parts.scheme not in _PORTS or not parts.netloc:
        raise ValueError(
            "is not an address; write it as http://host:port/metrics or https://host:port/metrics"
        )
    if "@" in parts.netloc:
        raise ValueError("holds a user or password; put them under `basic_auth` instead")
    if parts.fragment or text.endswith("#"):
        raise ValueError("ends in a fragment; remove everything from `#` on")
    if not _HOST.fullmatch(parts.hostname or ""):
        raise ValueError("names no host; write it as http://host:port/metrics")
    return urlunsplit((parts.scheme, parts.netloc.lower(), parts.path or path, parts.query, ""))


def _split(text: str) -> SplitResult:
    if not _VISIBLE.fullmatch(text):
        raise ValueError("holds a space or a character beyond ASCII, or nothing; write it percent-encoded")
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise ValueError("has a host or port that cannot be; a port is a number from 1 to 65535") from None
    if port == 0 or parts.netloc.endswith(":"):
        raise ValueError("has no usable port; a port is a number from 1 to 65535")
    return parts


def address(url: str) -> str:
    """Return ``host:port`` of a URL, with the scheme's port where it names none and never the user."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    port = parts.port or _PORTS.get(parts.scheme, 80)
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def identity(url: str) -> tuple[str, str, str, str]:
    """Return what two URLs of the same page have in common, however they write the port."""
    parts = urlsplit(url)
    return parts.scheme, address(url), parts.path, parts.query


def without_query(url: str) -> str:
    """Return the URL with the values of its query blanked, for people to see: a query may hold a key."""
    parts = urlsplit(url)
    return url if not parts.query else urlunsplit(parts._replace(query="<secret>"))
