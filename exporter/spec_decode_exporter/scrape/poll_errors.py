"""Every way in which a poll can fail, in one place.

PollError        a poll brought no page; ``reason`` is one of ``REASONS``
├── StatusError  the server answered, but with another status than 200 (reason ``status``)
└── PageError    a page came, but it cannot be read (reason ``malformed``)
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Final, Literal, get_args

Reason = Literal["refused", "timeout", "status", "too_large", "malformed", "tls", "dns"]

REASONS: Final[tuple[Reason, ...]] = get_args(Reason)

_PHRASES: Final = {status.value: status.phrase for status in HTTPStatus}


class PollError(Exception):
    """A poll failed. ``reason`` goes into the metrics, the text into the log, so it never holds a secret."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason: Reason = reason


class StatusError(PollError):
    """The server answered with another ``status`` than 200; a redirect is one of them, none is followed."""

    def __init__(self, status: int, redirect_host: str = "") -> None:
        phrase = _PHRASES.get(status, "")
        towards = f", a redirect to {redirect_host} that is not followed" if redirect_host else ""
        super().__init__("status", f"status {status} {phrase}".rstrip() + towards)
        self.status = status


class PageError(PollError):
    """The page is not one that can be read: nothing of it is used."""

    def __init__(self, message: str) -> None:
        super().__init__("malformed", message)
