"""What the client needs of a URL: where to connect to, and what to ask for there."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import quote, urlsplit

from spec_decode_exporter.config.url import PORTS
from spec_decode_exporter.scrape.poll_errors import PollError

_IN_A_TARGET = "/?%:@!$&'()*+,;=[]~"  # stays as it is written; what no URL may hold is quoted
_NAME = re.compile(r"[a-z0-9._-]+")
_IPV6 = re.compile(r"[0-9a-f:.]+(?:%[A-Za-z0-9._-]+)?")


@dataclass(frozen=True, slots=True)
class Origin:
    """The server's end of a connection."""

    scheme: str
    host: str
    """A name or an address; an IPv6 address stands without brackets."""
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @property
    def authority(self) -> str:
        """What the ``Host`` header says: without the port where it is the scheme's own."""
        return str(self).removesuffix(f":{PORTS[self.scheme]}")


@lru_cache(maxsize=1024)
def split(url: str) -> tuple[Origin, str]:
    """Return the origin of ``url``, and the path and query to ask it for.

    User, password and fragment are left out. Raises ``PollError`` for what is not an http or https URL;
    its text does not quote the URL, which may hold a secret.
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
    return Origin(parts.scheme, host, port), quote(target, safe=_IN_A_TARGET)
