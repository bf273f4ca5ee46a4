"""Untrusted inputs of the middleware that runs inside vLLM's process."""

from __future__ import annotations

import random
from functools import partial
from typing import Any, Final
from unittest.mock import AsyncMock

from spec_decode_exporter.vllm_middleware import spec_decode_requests as inside
from tests.robustness.inputs.row import RejectedError, Row, filled
from tests.unit.vllm_middleware.harness import SCOPE, answer, application, asked, body, start

_MOST: Final = inside.BODY_BYTES - 100 * inside.PIECE_BYTES
_PIECE: Final = 64 * 1024


async def _request(text: bytes, size: int = _PIECE) -> object:
    """Pass a request in pieces of a size through the middleware; return its record.

    Raises:
        RejectedError: The request counts as unreported.
    """
    wrapped = inside.Middleware(application([start(), body(answer())]))
    reporter: Any = wrapped._reporter
    reporter._run = lambda: None
    reporter._not_before = 1.0  # it sends nothing
    ends = range(size, len(text) + size, size)
    messages = iter([asked(text[end - size : end], more=end < len(text)) for end in ends])

    async def receive() -> dict[str, Any]:
        return next(messages)

    await wrapped({**SCOPE, "headers": []}, receive, AsyncMock())
    reporter.work(0.0)
    if reporter.unreported:
        raise RejectedError("too_costly" if reporter.unreported[0] else "dropped")
    return reporter.records[0]


ROWS: Final[tuple[Row, ...]] = (
    Row(
        "middleware: request body",
        _request,
        worst={
            'repeated `"n":1,`': filled(b"{", b'"n":1,', b'"n":1}', _MOST),
            "numbers": filled(b'{"n":1,"a":[', b"1,", b'0],"n":2}', _MOST),
            "escapes": filled(b'{"n":1,"a":"', b'\\\\\\"', b'","n":2}', _MOST),
        },
        beyond={
            "brackets": lambda: b'{"a":' + b"[" * 100_000,
            "digits": filled(b'{"temperature":', b"9", b"}", _MOST),
            "compressed": lambda: b"\x1f\x8b\x08" + random.Random(1).randbytes(_PIECE),
        },
    ),
    Row(
        "middleware: request body in single bytes",
        partial(_request, size=1),
        worst={"pieces": lambda: b"{}".ljust(inside.BODY_BYTES // (inside.PIECE_BYTES + 1))},
        beyond={"pieces": lambda: b"{}".ljust(inside.BODY_BYTES // (inside.PIECE_BYTES + 1) + 1)},
    ),
)
