"""Request bodies that are expensive to read, and typical ones that must be reported."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from typing import Any, Final

from spec_decode_exporter.vllm_middleware import spec_decode_requests as inside

SIZE: Final = inside.BODY_BYTES

Body = Callable[[], bytes]


def repeated(piece: bytes, before: bytes = b"{", after: bytes = b'"a":1}') -> Body:
    """Return a body of the size limit that repeats a piece."""
    return lambda: before + piece * ((SIZE - len(before) - len(after)) // len(piece)) + after


def nested(depth: int, piece: bytes = b'{"n":', end: bytes = b"}") -> Body:
    """Return a body with a key at every depth."""
    return lambda: piece * depth + b"1" + end * depth


def encoded(body: Body, encoding: str) -> Body:
    """Return a body in another encoding, cut to the size limit."""
    return lambda: body().decode().encode(encoding)[:SIZE]


def noise() -> bytes:
    """Return bytes like those of a compressed body."""
    return b"\x1f\x8b\x08" + random.Random(1).randbytes(SIZE - 3)


_PROSE: Final = 'One of "many" lines of a conversation.\n'
_DEPTH: Final = 100_000

HOSTILE: Final[Mapping[str, Body]] = {
    'repeated `"n":1,`': repeated(b'"n":1,'),
    "repeated `{`": repeated(b"{", b'{"n":1,', b""),
    'repeated `"`': repeated(b'"', b'{"n":1,', b',"n":2}'),
    'repeated `"n"` in an array': repeated(b'"n",', b'{"n":1,"a":[', b'0],"n":2}'),
    'repeated `"n"` with white space and a colon': repeated(b'"n"' + b" " * inside.SPACES + b":1,"),
    "escapes `\\\\`": repeated(b"\\\\", b'{"n":1,"a":"', b'","n":2}'),
    'escapes `\\"`': repeated(b'\\"', b'{"n":1,"a":"', b'","n":2}'),
    'escapes `\\\\\\"`': repeated(b'\\\\\\"', b'{"n":1,"a":"', b'","n":2}'),
    'JSON in a string: `\\"n\\":1,`': repeated(b'\\"n\\":1,', b'{"n":1,"a":"', b'","n":2}'),
    'keys behind a backslash: `\\"n":`': repeated(b'\\"n":', b'{"n":1,"a":"', b'","n":2}'),
    "as many keys as are read, none at the top level": lambda: (
        b'{"a":[' + b'{"temperature":1},' * (inside.KEY_MATCHES - 1) + b'0],"n":1}'
    ),
    "a string without an end": repeated(b"a", b'{"n":1,"a":"', b""),
    "an escape without an end": repeated(b"\\", b'{"n":1,"a":"', b""),
    "a key at each of 100,000 depths": nested(_DEPTH),
    "100,000 brackets, then a key": lambda: b'{"n":' + b"[" * _DEPTH + b"]" * _DEPTH + b',"n":1}',
    "as many keys as are read, in nested objects": lambda: keys_apart(inside.KEY_MATCHES - 2),
    "a number of 1 MiB": repeated(b"9", b'{"n":', b"}"),
    "white space in an object": repeated(b" ", b'{"n":', b"1}"),
    "bytes that are no UTF-8": repeated(b"\xff\xfe", b'{"n":1,"a":"', b'","n":2}'),
    "UTF-16": encoded(repeated(b'"n":1,'), "utf-16"),
    "gzip": noise,
    "commas": repeated(b",", b'{"n":1,"a":[', b'0],"n":2}'),
}
"""Bodies of at most 1 MiB that could block the event loop, by description."""


def keys_apart(number: int) -> bytes:
    """Return a body of 1 MiB with keys in nested objects, at the largest distance, and escapes between."""
    text = b'\\"\\\\' * ((SIZE // (number + 1) - 40) // 4)
    return b'{"n":1,"a":[' + b'{"n":1,"a":"%s"},' % text * number + b'0],"n":2}'


def chat(content: str | list[Any], **more: object) -> bytes:
    """Return a chat request as the OpenAI client writes it, with its temperature last."""
    messages = content if isinstance(content, list) else [{"role": "user", "content": content}]
    return json.dumps({"messages": messages, "model": "tiny", **more, "temperature": 0.5}).encode()


def first(body: bytes) -> bytes:
    """Return the same request with its temperature first."""
    whole = json.loads(body)
    return json.dumps({"temperature": whole.pop("temperature"), **whole}).encode()


def prose(size: int) -> str:
    """Return lines with quotation marks."""
    return _PROSE * (size // len(_PROSE) * 100 // 108)


def tools(number: int) -> list[Any]:
    """Return tools whose parameters have the names of request fields."""
    parameters = {
        "type": "object",
        "properties": {"temperature": {"type": "number"}, "n": {"type": "integer"}},
    }
    return [{"type": "function", "function": {"name": "f", "parameters": parameters}}] * number


_MiB: Final = 1000 * 1024
_IMAGE: Final = {
    "type": "image_url",
    "image_url": {"url": "data:image/png;base64," + "iVBORw0K" * (_MiB // 8)},
}
_PART: Final = {"type": "text", "text": "What is on this picture? " * 20}

TYPICAL: Final[Mapping[str, Body]] = {
    "prompt of 1 MiB": lambda: chat(prose(_MiB)),
    "prompt of 1 MiB, temperature first": lambda: first(chat(prose(_MiB))),
    "JSON of 1 MiB in a prompt": lambda: chat(
        json.dumps([{"n": 1, "temperature": 0.5, "text": "a"}] * 21_000)
    ),
    "2,000 messages with content parts": lambda: chat([{"role": "user", "content": [_PART]}] * 1700),
    "140,000 token ids": lambda: json.dumps(
        {"prompt": [123_456] * 140_000, "temperature": 0.5}, separators=(",", ":")
    ).encode(),
    "1,000 prompts of 100 token ids": lambda: json.dumps(
        {"temperature": 0.5, "prompt": [[123_456] * 100] * 1000}
    ).encode(),
    "image of 1 MiB": lambda: chat([{"role": "user", "content": [_PART, _IMAGE]}]),
    "100 tools with such parameters": lambda: chat(prose(100_000), tools=tools(100)),
    "text of characters of 3 bytes": lambda: json.dumps(
        {"messages": [{"content": "日本語" * 110_000}], "temperature": 0.5}, ensure_ascii=False
    ).encode(),
}
"""Requests of up to 1 MiB that are reported with their temperature of 0.5, by description."""
