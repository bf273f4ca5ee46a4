"""Untrusted inputs of the middleware that runs inside vLLM's process."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from spec_decode_exporter.vllm_middleware import spec_decode_requests as inside
from tests.robustness.inputs.row import RejectedError, Row
from tests.unit.vllm_middleware.harness import SCOPE, answer, application, asked, body, start, stream

_MOST: Final = inside.BODY_BYTES - 100 * inside.PIECE_BYTES
_PIECE: Final = 64 * 1024


async def _pass(
    incoming: Sequence[dict[str, Any]],
    outgoing: Sequence[dict[str, Any]],
    headers: Iterable[tuple[bytes, bytes]] = (),
) -> bytes:
    """Pass an exchange through the middleware; return its record.

    Raises:
        RejectedError: The request counts as unreported.
    """
    wrapped = inside.Middleware(application(outgoing))
    reporter: Any = wrapped._reporter
    reporter._run = lambda: None
    reporter._not_before = 1.0  # it sends nothing
    messages = iter(incoming)

    async def receive() -> dict[str, Any]:
        return next(messages)

    async def send(_message: dict[str, Any]) -> None:
        await asyncio.sleep(0)

    await wrapped({**SCOPE, "headers": list(headers)}, receive, send)
    reporter.work(0.0)
    if reporter.unreported:
        raise RejectedError("too_costly" if reporter.unreported[0] else "dropped")
    return reporter.records[0]  # type: ignore[no-any-return]


def _pieces(text: bytes, size: int) -> list[bytes]:
    return [text[at : at + size] for at in range(0, len(text), size)] or [b""]


async def _request(text: bytes, size: int = _PIECE) -> object:
    *pieces, last = _pieces(text, size)
    incoming = [*(asked(piece, more=True) for piece in pieces), asked(last)]
    return await _pass(incoming, [start(), body(answer())])


async def _single_bytes(text: bytes) -> object:
    return await _request(text, 1)


async def _headers(text: bytes) -> object:
    headers = [(name, value) for name, _, value in (line.partition(b": ") for line in text.splitlines())]
    return await _pass([asked(b"{}")], [start(), body(answer())], headers)


async def _json(text: bytes) -> object:
    return await _pass(
        [asked(b"{}")], [start(), *(body(each, True) for each in _pieces(text, _PIECE)), body(b"")]
    )


async def _events(text: bytes) -> object:
    head = start(kind=b"text/event-stream")
    return await _pass([asked(b"{}")], [head, *(body(each, True) for each in _pieces(text, 64)), body(b"")])


def filled(unit: bytes, begin: bytes = b'{"n":1,"a":[', end: bytes = b'0],"n":2}') -> Callable[[], bytes]:
    """Return a function that repeats ``unit`` up to the limit of a body."""
    return lambda: begin + unit * ((_MOST - len(begin) - len(end)) // len(unit)) + end


def _in_text(unit: bytes) -> Callable[[], bytes]:
    return filled(unit, b'{"n":1,"a":"', b'","n":2}')


def _beyond() -> bytes:
    return b"{}".ljust(inside.BODY_BYTES + 1)


REQUESTS: Final = {
    'repeated `"n":1,`': filled(b'"n":1,', b"{", b'"n":1}'),
    'repeated `"n"` in an array': filled(b'"n",'),
    "numbers": filled(b"1,"),
    "objects": filled(b"{},"),
    "arrays": filled(b"[],"),
    "escapes": _in_text(b'\\\\\\"'),
    'JSON in a string: `\\"n\\":1,`': _in_text(b'\\"n\\":1,'),
    "characters of 3 bytes": _in_text("日".encode()),
    "bytes that are no UTF-8": _in_text(b"\xff\xfe"),
    "white space": filled(b" ", b'{"n":', b"1}"),
    "500 brackets": lambda: b'{"a":' + b"[" * 500 + b"]" * 500 + b"}",
}
"""Bodies that are the most expensive for msgspec, by a description; it skips what they repeat."""

ROWS: Final[tuple[Row, ...]] = (
    Row(
        name="middleware: request body",
        read=_request,
        worst=REQUESTS,
        beyond={
            "bytes": _beyond,
            "depth": lambda: b'{"n":' * 100_000,
            "brackets": lambda: b'{"a":' + b"[" * 100_000,
            "digits": filled(b"9", b'{"temperature":', b"}"),
            "encoding": lambda: '{"n":1}'.encode("utf-16"),
            "compressed": lambda: b"\x1f\x8b\x08" + random.Random(1).randbytes(_PIECE),
        },
    ),
    Row(
        name="middleware: request body in pieces",
        read=_single_bytes,
        worst={"single bytes": lambda: b"{}".ljust(inside.BODY_BYTES // (inside.PIECE_BYTES + 1))},
        beyond={"pieces": lambda: b"{}".ljust(inside.BODY_BYTES // (inside.PIECE_BYTES + 1) + 1)},
    ),
    Row(
        name="middleware: request headers",
        read=_headers,
        worst={
            "many, then a type of 64 KiB": lambda: (
                b"".join(b"x-%d: y\n" % n for n in range(1000)) + b"x-request-type: " + b"t" * _PIECE
            )
        },
    ),
    Row(
        name="middleware: JSON response",
        read=_json,
        worst={
            "text": lambda: answer(text="a" * (_MOST - 2000)),
            "keys in a text": lambda: answer(text='"usage":1,' * 100_000),
            "log probabilities": lambda: answer(prompt_logprobs=[{"1": {"logprob": -0.5}}] * 100_000),
        },
        beyond={
            "bytes": lambda: answer(text="a" * inside.BODY_BYTES),
            "brackets": lambda: b'{"model":"tiny","usage":' + b"[" * 100_000,
            "numbers": lambda: answer({"queue_time_ms": 10**400}),
            "types": lambda: answer({"queue_time_ms": "soon"}),
        },
    ),
    Row(
        name="middleware: streamed response",
        read=_events,
        worst={"tiny events": lambda: b"data: {}\n\n" * 50_000 + b"".join(stream())},
        beyond={
            "a line without an end": lambda: b"data: " + b"x" * inside.BODY_BYTES,
            "empty lines": lambda: b"\n" * _PIECE,
            "the last event": lambda: b"data: " + json.dumps({"model": "a" * _PIECE}).encode() + b"\n\n",
        },
    ),
)
