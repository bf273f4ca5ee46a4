"""Exceptions of polls."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from http.client import responses
from itertools import islice
from typing import Final, Literal, get_args

from spec_decode_exporter.core.numbers import MAX_NAMED, MAX_TEXT

Reason = Literal["refused", "timeout", "status", "too_large", "malformed", "tls", "dns"]

REASONS: Final[tuple[Reason, ...]] = get_args(Reason)

METRICS_URL: Final = "http://HOST:8000/metrics"  # default address of vLLM's page
_ROUTER: Final = "it is a router's page: name the servers"
_PAGES: Final = {
    b"spec_decode_exporter_build": f"it is an exporter's page: name the server's, for vLLM `{METRICS_URL}`",
    **dict.fromkeys((b"vllm:current_qps", b"vllm_router_", b"sgl_router_", b"\nsmg_"), _ROUTER),
    b"dynamo_frontend_": "it is a router's page: name the workers, each with the port `DYN_SYSTEM_PORT`",
    b"vllm:": "it has none of the series that are read: update the exporter",
    b"\nray_": "it is Ray's: set `log_engine_metrics` in the `LLMConfig`, and name the node that runs vLLM",
    b"\nnum_requests_running": "it is NIM's, which counts no drafts: serve the model by vLLM itself",
    b"http_request_duration_highr": "vLLM's statistics are off: start it without `--disable-log-stats`",
}
"""Texts by which a page without an engine is recognized, and the remedy; the first one counts."""
_ROUTED: Final = re.compile(
    rb'[{,](?:server|worker|worker_url|worker_id)="(https?://[A-Za-z0-9.:\[\]-]{1,80})/?"'
)
"""Label of a router's series with the address of a server; no other characters: it is untrusted text."""
_ROUTED_BYTES: Final = 64 * 2**10  # bytes of the page in which they are looked for
_ANOTHER_PAGE: Final = f"is it another program? Check port and path, for vLLM `{METRICS_URL}`"
_CREDENTIALS: Final = "set `authorization`, for `observe` SPEC_DECODE_EXPORTER_AUTHORIZATION_CREDENTIALS"
_REMEDIES: Final = {
    "refused": "start the server, or correct the port",
    "timeout": "look into the server's log, or correct the host",
    "dns": "correct the name of the host",
    "tls": "set `tls_config.ca_file`, for `observe` the variable SPEC_DECODE_EXPORTER_TLS_CA_FILE",
    "no TLS": "write `http://`",
    "too_large": f"check port and path, for vLLM `{METRICS_URL}`, or raise `poll.max_body`",
    "malformed": f"check port and path: for vLLM `{METRICS_URL}`, for TensorRT-LLM `/prometheus/metrics`",
    "status 3": "name the address to which it redirects",
    "status 400": "correct the address; a router of llama.cpp needs a model, `/metrics?model=NAME`",
    **dict.fromkeys(("status 401", "status 403"), _CREDENTIALS),
    "status 404": f"correct the path, for vLLM `{METRICS_URL}`",
    "status 501": "switch the page on, for llama.cpp by `--metrics`",
    "status 5": "look into the server's log",
}
"""Remedies of failed polls, by ``PollRecord.failure``; of a status by its first digits."""

_TITLE: Final = re.compile(r"(?i)<title>([^<]{1,200})")


def no_engine_remedy(page: bytes) -> str:
    """Return why a page that was read has no engine, and the remedy."""
    remedy = next((remedy for mark, remedy in _PAGES.items() if mark in page), _ANOTHER_PAGE)
    addresses = dict.fromkeys(_ROUTED.findall(page[:_ROUTED_BYTES])) if "router" in remedy else {}
    names = [f"`{address.decode()}`" for address in islice(addresses, MAX_NAMED)]
    return ", ".join([remedy, *names, *["…"] * (len(addresses) > MAX_NAMED)])


def failure_remedy(failure: str) -> str:
    """Return the remedy of a failed poll by its reason, with the status of a rejection; empty if unknown."""
    return _REMEDIES.get(failure, _REMEDIES.get(failure[:8], ""))


def rejection_words(body: bytes, content_type: str) -> str:
    """Return the reason that a rejection gives, untrusted and on one line; empty without a short text."""
    found: object = body.decode(errors="replace") if content_type.startswith("text/") else ""
    if "json" in content_type:
        with suppress(ValueError, RecursionError):
            found = json.loads(body)
        for key in ("error", "message", "detail"):
            found = found.get(key, found) if isinstance(found, dict) else found
    elif "html" in content_type:
        found = next(iter(_TITLE.findall(str(found))), "")
    words = " ".join(found.split())[:MAX_TEXT] if isinstance(found, str) else ""
    return "" if words[:1] == "<" else "".join(char if char.isprintable() else "?" for char in words)


class PollError(Exception):
    """Failed poll. Metrics show ``reason``, the log shows the text, which never contains a secret."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason: Reason = reason


class StatusError(PollError):
    """Response with a ``status`` other than 200. Redirects are not followed."""

    def __init__(self, status: int, redirect_host: str = "", words: str = "") -> None:
        """Take the host of a redirect, and the words of the server: see ``rejection_words``."""
        phrase = responses.get(status, "")
        redirect = f", a redirect to {redirect_host} that is not followed" if redirect_host else ""
        # Pages of errors repeat the phrase: `404 Not Found`, `File Not Found`.
        is_news = words and (phrase.lower() not in words.lower() or len(words) > 2 * len(phrase))
        says = f": {words}" if is_news else ""
        super().__init__("status", f"status {status} {phrase}".rstrip() + redirect + says)
        self.status = status


class PageError(PollError):
    """Unreadable page; none of its values is used."""

    def __init__(self, message: str) -> None:
        super().__init__("malformed", message)
