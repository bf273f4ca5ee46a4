"""Exceptions of polls."""

from __future__ import annotations

from http import HTTPStatus
from typing import Final, Literal, get_args

Reason = Literal["refused", "timeout", "status", "too_large", "malformed", "tls", "dns"]

REASONS: Final[tuple[Reason, ...]] = get_args(Reason)

NO_ENGINE_REMEDY: Final = "check the address and the path; vLLM needs its log stats on"
"""Remedy for a page that is read and has no engine, as that of another program."""

_PHRASES: Final = {status.value: status.phrase for status in HTTPStatus}


class PollError(Exception):
    """Failed poll. Metrics show ``reason``, the log shows the text, which never contains a secret."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason: Reason = reason


class StatusError(PollError):
    """Response with a ``status`` other than 200. Redirects are not followed."""

    def __init__(self, status: int, redirect_host: str = "") -> None:
        phrase = _PHRASES.get(status, "")
        redirect = f", a redirect to {redirect_host} that is not followed" if redirect_host else ""
        super().__init__("status", f"status {status} {phrase}".rstrip() + redirect)
        self.status = status
        self.problem = b""
        """Body of type ``application/problem+json``, untrusted; empty unless the client reads problems."""


class PageError(PollError):
    """Unreadable page; none of its values is used."""

    def __init__(self, message: str) -> None:
        super().__init__("malformed", message)
