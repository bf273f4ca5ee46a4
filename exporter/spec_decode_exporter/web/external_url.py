"""Address at which browsers reach the exporter: alerts link to its documentation there."""

from __future__ import annotations

import re
from typing import Final

from spec_decode_exporter.core.user_errors import UsageError

_URL: Final = re.compile(
    r"https?://(\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9._-]{1,253})(:\d{1,5})?(/[A-Za-z0-9._~/-]{0,1000})?",
    re.ASCII,
)


def parse_external_url(text: str) -> str:
    """Return the address without a slash at its end.

    Raises:
        UsageError: It is not an http address, or has a user, a query or a fragment.
    """
    if not _URL.fullmatch(text):
        raise UsageError(
            f"--web.external-url {text!r} is not an address such as https://monitoring.example.com/spec-decode"
        )
    return text.rstrip("/")
