"""Untrusted inputs of the middleware that runs inside vLLM's process."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Final

from spec_decode_exporter.vllm_middleware import spec_decode_requests as inside
from tests.hostile.row import RejectedError, Row
from tests.vllm_middleware.adversarial import HOSTILE, TYPICAL, repeated
from tests.vllm_middleware.harness import SCOPE, answer, application, asked, body, start, stream

_MIB: Final = 2**20
_KIB: Final = 2**10
_PIECE: Final = 64 * _KIB
_READ: Final = (
    'repeated `"`',
    'repeated `"n"` in an array',
    'escapes `\\\\\\"`',
    'JSON in a string: `\\"n\\":1,`',
    "a string without an end",
    "100,000 brackets, then a key",
    "as many keys as are read, in nested objects",
    "a number of 1 MiB",
    "bytes that are no UTF-8",
    "gzip",
)
"""Hostile bodies within every bound that does not depend on the speed of the machine."""


def _split(text: bytes, size: int) -> list[bytes]:
    return [text[at : at + size] for at in range(0, len(text), size)] or [b""]


async def _pass(
    incoming: Sequence[dict[str, Any]],
    outgoing: Sequence[dict[str, Any]],
    headers: Iterable[tuple[bytes, bytes]] = (),
) -> list[bytes]:
    """Pass an exchange through the middleware; return its records.

    The thread's clock is constant: separate tests and a benchmark check the time limits.

    Raises:
        RejectedError: The request counts as unreported.
    """
    wrapped = inside.Middleware(application(outgoing))
    reporter: Any = wrapped._reporter
    reporter._start = lambda: None
    reporter.sender.send = lambda now: None
    reporter._work = inside.Work(lambda: 0.0, lambda seconds: None)
    messages = iter(incoming)

    async def receive() -> dict[str, Any]:
        return next(messages)

    async def send(_message: dict[str, Any]) -> None:
        await asyncio.sleep(0)

    await wrapped({**SCOPE, "headers": list(headers)}, receive, send)
    reporter.work(0.0)
    if reporter.sender.too_costly:
        raise RejectedError("too_costly")
    if reporter.sender.dropped:
        raise RejectedError("dropped")
    return reporter.sender._records.take(1, _MIB)  # type: ignore[no-any-return]


async def _request(text: bytes, size: int = _PIECE) -> object:
    pieces = _split(text, size)
    incoming = [*(asked(piece, more=True) for piece in pieces[:-1]), asked(pieces[-1])]
    return await _pass(incoming, [start(), body(answer())])


async def _single_bytes(text: bytes) -> object:
    return await _request(text, 1)


async def _headers(text: bytes) -> object:
    headers = [(name, value) for name, _, value in (line.partition(b": ") for line in text.splitlines())]
    return await _pass([asked(b"{}")], [start(), body(answer())], headers)


async def _answer(text: bytes, kind: bytes, size: int) -> object:
    outgoing = [start(kind=kind), *(body(piece, more=True) for piece in _split(text, size)), body(b"")]
    return await _pass([asked(b"{}")], outgoing)


async def _json(text: bytes) -> object:
    return await _answer(text, b"application/json", _PIECE)


async def _events(text: bytes) -> object:
    return await _answer(text, b"text/event-stream", 16)


class _Socket:
    """Connection with a complete reply."""

    def __init__(self, reply: bytes, most: int) -> None:
        self._reply = reply
        self._most = most
        self.sock = self

    def request(self, *_words: object) -> None:
        pass

    def settimeout(self, _seconds: float) -> None:
        pass

    def recv(self, most: int) -> bytes:
        most = min(most, self._most)
        piece, self._reply = self._reply[:most], self._reply[most:]
        return piece


async def _reply(text: bytes, most: int = inside.REPLY_BYTES // inside.REPLY_PIECES) -> object:
    connection: Any = _Socket(text, most)
    try:
        return inside.post(connection, inside.DEFAULT_PATH, {}, b"")
    except inside.NotSentError as error:
        raise RejectedError(inside.reason(error)) from None


async def _secret(text: bytes) -> object:
    with tempfile.NamedTemporaryFile() as file:
        file.write(text)
        file.flush()
        try:
            return inside.secret(file.name)
        except inside.NotSentError as error:
            raise RejectedError(str(error)) from None


async def _url(text: bytes) -> object:
    try:
        return inside.read_settings({f"{inside.PREFIX}URL": text.decode()})
    except ValueError as error:
        raise RejectedError(str(error)) from None


def _header_lines(number: int) -> Callable[[], bytes]:
    kind = b"x-request-type: " + b"t" * _PIECE + b"\n"
    return lambda: b"x-other: y\n" * (number - 1) + kind


def _reply_of(size: int, line: bytes) -> Callable[[], bytes]:
    head = b"HTTP/1.1 200 OK\r\n"
    return lambda: (head + line * (size // len(line) + 1))[: size - 4] + b"\r\n\r\n"


_MANY_KEYS: Final = b',"usage":1' * (inside.KEY_MATCHES + 1)

ROWS: Final[tuple[Row, ...]] = (
    Row(
        name="middleware: request body",
        read=_request,
        worst={**{name: HOSTILE[name] for name in _READ}, **TYPICAL},
        beyond={
            "keys": HOSTILE['repeated `"n":1,`'],
            "keys in nested objects": HOSTILE["a key at each of 100,000 depths"],
            "encoding": HOSTILE["UTF-16"],
        },
    ),
    Row(
        name="middleware: request body in pieces",
        read=_single_bytes,
        worst={"single bytes": lambda: b" " * inside.BODY_MESSAGES},
        beyond={"messages": lambda: b" " * (inside.BODY_MESSAGES + 1)},
    ),
    Row(
        name="middleware: request headers",
        read=_headers,
        worst={"a type of 64 KiB behind other headers": _header_lines(inside.HEADERS)},
        beyond={"headers": _header_lines(inside.HEADERS + 1)},
    ),
    Row(
        name="middleware: JSON response",
        read=_json,
        worst={
            "8 MiB of text": lambda: answer(text="a" * 8 * _MIB),
            "keys in a text": lambda: answer(text='"usage":1,' * 10_000),
            "as many keys as are read": lambda: answer()[:-1] + _MANY_KEYS[: -5 * len(b',"usage":1')] + b"}",
            "brackets": repeated(b"[", b'{"model":"tiny","usage":', b""),
        },
        beyond={"keys": lambda: answer()[:-1] + _MANY_KEYS + b"}"},
    ),
    Row(
        name="middleware: streamed response",
        read=_events,
        worst={
            "tiny events": lambda: b"data: {}\n\n" * 50_000 + b"".join(stream()),
            "a line without an end": lambda: b"data: " + b"x" * _MIB,
            "empty lines": lambda: b"\n" * (_MIB // 4),
            "events without JSON": lambda: b"\ndata:" * 2700,
        },
        beyond={"keys": lambda: b'data: {"model":"tiny"' + _MANY_KEYS + b"}\n\n"},
    ),
    Row(
        name="middleware: reply of the exporter",
        read=_reply,
        worst={
            "headers of the whole size": _reply_of(inside.REPLY_BYTES, b"X-Header: 123456" * 16 + b"\r\n"),
            "an interim reply": lambda: b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n\r\n{}",
            "brackets": lambda: b"HTTP/1.1 200 OK\r\n\r\n" + b"[" * inside.REPLY_BYTES,
            "digits": lambda: b'HTTP/1.1 200 OK\r\n\r\n{"refused":{"rate":' + b"9" * inside.REPLY_BYTES,
        },
        beyond={
            "bytes": _reply_of(2 * inside.REPLY_BYTES, b"X-Header: 123456\r\n"),
            "status lines": lambda: b"HTTP/1.1 100 Continue\r\n\r\n" * 100_000,
        },
    ),
    Row(
        name="middleware: reply of the exporter in pieces",
        read=partial(_reply, most=1),
        worst={"single bytes": lambda: b"HTTP/1.1 200 OK\r\n\r\n{}".ljust(inside.REPLY_PIECES)},
        beyond={"pieces": _reply_of(inside.REPLY_PIECES + 1, b"X-Header: 123456\r\n")},
    ),
    Row(
        name="middleware: file with a password or token",
        read=_secret,
        worst={"a long token": lambda: b"t" * inside.SECRET_BYTES},
        beyond={
            "bytes": lambda: b"t" * (inside.SECRET_BYTES + 1),
            "lines": lambda: b"ann:secret\r\nX-Header: value",
            "NUL": lambda: b"ann:\0secret",
        },
    ),
    Row(
        name="middleware: environment variables",
        read=_url,
        worst={"a long path": lambda: b"http://h/".ljust(inside.SETTING_CHARACTERS, b"a")},
        beyond={
            "bytes": lambda: b"http://h/".ljust(inside.SETTING_CHARACTERS + 1, b"a"),
            "a line feed": lambda: b"http://h/\nINFO all is well",
            "a password": lambda: b"http://ann:secret@h/",
            "another scheme": lambda: b"file:///etc/passwd",
        },
    ),
)
