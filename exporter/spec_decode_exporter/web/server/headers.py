"""The headers of every answer, whoever gives it: a page, or the server of a request that none can read."""

from __future__ import annotations

from typing import Final

HEADERS: Final = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; "
        "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
    "Referrer-Policy": "no-referrer",
    "Server": "spec-decode-exporter",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
