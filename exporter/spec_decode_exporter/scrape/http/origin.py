"""Split a URL into the origin to connect to and the request target."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import quote, urlsplit

from spec_decode_exporter.core.urls import PORTS
from spec_decode_exporter.scrape.errors import PollError

_UNQUOTED = "/?%:@!$&'()*+,;=[]~"  # valid in a request target; all else is quoted
_NAME = re.compile(r"[a-z0-9._-]+")
_IPV6 = re.compile(r"[0-9a-f:.]+(?:%[A-Za-z0-9._-]+)?")


@dataclass(frozen=True, slots=True)
class Origin:
    """Scheme, host and port of a server."""

    scheme: str
    host: str
    """A name or an IP address; IPv6 without brackets."""
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @property
    def authority(self) -> str:
        """Value of the ``Host`` header: without the scheme's default port."""
        return str(self).removesuffix(f":{PORTS[self.scheme]}")


@lru_cache(maxsize=1024)
def split(url: str) -> tuple[Origin, str]:
    """Return the origin of ``url`` and the request target, path and query.

    User, password and fragment are dropped.

    Raises:
        PollError: The URL is neither http nor https. The text does not quote it: it may contain a secret.
    """
    try:
        parts = urlsplit(url)
        port = parts.port or PORTS[parts.scheme]
    except (ValueError, KeyError):
        raise PollError("malformed", "the target's URL is not http(s)://host:port/path") from None
    host = parts.hostname or ""
    if not (_IPV6 if "[" in parts.netloc else _NAME).fullmatch(host):
        raise PollError("malformed", "the target's URL has no host, or one that cannot be")
    target = f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"
    return Origin(parts.scheme, host, port), quote(target, safe=_UNQUOTED)
