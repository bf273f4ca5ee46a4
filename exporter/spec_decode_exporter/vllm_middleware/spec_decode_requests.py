"""Report the speculative decoding of each of vLLM's requests to spec-decode-exporter.

This file needs only the standard library of Python 3.9 or later. Put its folder on PYTHONPATH::

    vllm serve … --middleware spec_decode_requests.Middleware --enable-force-include-usage
        --enable-per-request-metrics --per-request-spec-decode-metrics summary

The middleware passes on every message unchanged and keeps a bounded part of it. A thread reads these parts.
It sends the metrics at the end of each response to the exporter, with the request's temperature, ``n``, type
and user. If a queue is full, the request is dropped; vLLM never waits. Prompts and completions are never sent
or logged. Settings are environment variables: see ``Settings``. docs/guide/requests-inside.md has setup and
limits.

Sections: limits, settings, middleware, reporter, reading, sending.
"""

from __future__ import annotations

import base64
import codecs
import http.client
import json
import logging
import os
import re
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar
from urllib.parse import urlsplit

if TYPE_CHECKING:
    import ssl

Message = Mapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Message, Receive, Send], Awaitable[None]]

PREFIX = "SPEC_DECODE_REQUESTS_"  # of the environment variables
PATHS = ("/v1/chat/completions", "/v1/completions")  # of reported requests
DEFAULT_PATH = "/api/v1/requests"  # of the exporter
OK = 200
TOO_MANY_REQUESTS = 429
DROPPED_HEADER = "X-Spec-Decode-Dropped"  # unreported requests since the last accepted batch
TOO_COSTLY_HEADER = "X-Spec-Decode-Too-Costly"  # of these, requests that exceeded a limit

# Limits -----------------------------------------------------------------------------------------------------

# Kept parts. A request that exceeds BODY_MESSAGES or HEADERS is not reported.
BODY_BYTES = 1 << 20  # kept from the end of the request body
BODY_MESSAGES = 3072  # messages of the request body
HEADERS = 256  # headers of the request
RESPONSE_BYTES = 16 << 10  # kept from the end of the response body
HEAD_BYTES = 1 << 10  # kept from the beginning of the response body
PIECES = 1024  # pieces of either body; more are joined
PIECE_OVERHEAD_BYTES = 64  # memory of a piece in addition to its bytes
TEXT_CHARACTERS = 256  # of a request type, a user or a model name, as in the exporter
MAX_TEMPERATURE = 100.0  # the exporter's limit; a higher temperature is reported as this one

# Reading. A request that exceeds KEY_MATCHES, the seconds or STEPS is not reported.
VALUE_BYTES = 8 << 10  # a string, an object or an array
NUMBER_BYTES = 512  # a number
SPACES = 64  # white space between a key and its colon, and between the colon and the value
KEY_MATCHES = 512  # occurrences of the keys, at any depth
REQUEST_SECONDS = 2.8e-3  # processor time of the thread for one request body
RESPONSE_SECONDS = 0.8e-3  # processor time of the thread for one response body
STEPS = 4096  # steps for each: the processor clock of some systems is coarse
CHUNK_BYTES = 1 << 14  # bytes of one step, which blocks all other threads
SLICE_SECONDS = 250e-6  # processor time between two rests; the event loop waits for the thread
REST_SECONDS = 1e-3
CORE_SHARE = 0.05  # of one core for reading; other requests wait in the queue

# Queues.
EXCHANGES = 8192  # request and response bodies that wait to be read
EXCHANGE_BYTES = 32 << 20
EXCHANGE_OVERHEAD_BYTES = 4 << 10  # memory of each in addition to its pieces
RECORDS = 8192  # records that wait to be sent
RECORD_BYTES = 8 << 20

# Sending.
BATCH_RECORDS = 500
BATCH_BYTES = 512 << 10  # the exporter takes 1 MiB; a longer record is sent alone
ROUND_BATCHES = 2  # batches per round: half of the exporter's default rate of 2000 records a second
ROUND_SECONDS = 1.0
TIMEOUT_SECONDS = 2.0  # to connect, to send, and for the whole reply
MAX_PAUSE_SECONDS = 30.0  # between two attempts
REPLY_BYTES = 16 << 10  # of the exporter's reply, headers included
REPLY_PIECES = 64

# Settings and log.
SETTING_CHARACTERS = 4096  # of an environment variable
NAME_CHARACTERS = 256  # of the name of a header or field
SECRET_BYTES = 8 << 10  # of a file with a password or token
LOGGED_NAMES = 5  # unknown variables in the log
LOGGED_LINES = 20  # warnings in vLLM's log

logger = logging.getLogger("vllm.spec_decode_requests")  # a child of vLLM's logger, for its format


# Settings ---------------------------------------------------------------------------------------------------


class Settings(NamedTuple):
    """Environment variables with the prefix ``SPEC_DECODE_REQUESTS_``, in upper case."""

    url: str = f"http://127.0.0.1:7732{DEFAULT_PATH}"  # of the exporter; ``unix:/path`` for a socket
    type_header: str = "x-request-type"  # header with the request's type; empty for none
    type_field: str = ""  # body field with the type, such as ``metadata.type``; the header has priority
    user_header: str = ""  # header with the user; none by default
    user_field: str = ""  # body field with the user
    target: str = ""  # the exporter's target name of this vLLM, if several serve the same model
    basic_auth_file: str = ""  # file with ``name:password``
    bearer_token_file: str = ""  # file with a token
    ca_file: str = ""  # trusted certificates for https; the system's if empty


def read_settings(environ: Mapping[str, str]) -> Settings:
    """Read the settings; raise ``ValueError`` if one is invalid."""
    names = {f"{PREFIX}{name.upper()}": name for name in Settings._fields}
    settings = Settings(**{name: environ[key].strip() for key, name in names.items() if key in environ})
    for key, name in names.items():
        most = NAME_CHARACTERS if name.endswith(("_header", "_field")) else SETTING_CHARACTERS
        value = getattr(settings, name)
        if len(value) > most or not value.isprintable():
            raise ValueError(f"{key}: give at most {most} printable characters")
    read_address(settings.url)
    if settings.basic_auth_file and settings.bearer_token_file:
        raise ValueError(f"{PREFIX}BASIC_AUTH_FILE and {PREFIX}BEARER_TOKEN_FILE exclude each other")
    return settings


def warn_of_unknown_settings(environ: Mapping[str, str]) -> None:
    """Log unknown variables with the prefix. Kubernetes sets such variables for a Service of this name."""
    known = {f"{PREFIX}{name.upper()}" for name in Settings._fields}
    unknown = sorted(name for name in environ if name.startswith(PREFIX) and name not in known)
    if unknown:
        named = ", ".join(map(short, unknown[:LOGGED_NAMES]))
        more = f" and {len(unknown) - LOGGED_NAMES} more" if len(unknown) > LOGGED_NAMES else ""
        logger.warning("Requests' speculation: there is no setting %s%s", named, more)


class Address(NamedTuple):
    """Address of the exporter."""

    scheme: str
    host: str  # or the path of a socket
    port: int | None
    path: str


def read_address(url: str) -> Address:
    """Parse a URL or ``unix:/path``; raise ``ValueError`` without the URL if it is invalid."""
    if url.startswith("unix:/"):
        return Address("unix", url[len("unix:") :], None, DEFAULT_PATH)
    try:
        parts = urlsplit(url)
        port = parts.port
        is_plain = parts.username is None and not parts.query and not parts.fragment
        if parts.scheme in ("http", "https") and parts.hostname and is_plain:
            return Address(
                parts.scheme, parts.hostname, port, parts.path if parts.path.strip("/") else DEFAULT_PATH
            )
    except ValueError:
        pass
    form = (
        f"give http://host:port{DEFAULT_PATH}, https://… or unix:/path, without a name, a password or a query"
    )
    raise ValueError(f"{PREFIX}URL: {form}") from None


# Middleware: passes on each message, then keeps what the thread reads ---------------------------------------


class Middleware:
    """ASGI application around vLLM's."""

    def __init__(self, app: Application) -> None:
        self._app = app
        self._reporter: Reporter | None = None
        try:
            warn_of_unknown_settings(os.environ)
            self._reporter = Reporter(read_settings(os.environ))
            logger.info("Requests' speculation goes to %s", self._reporter.settings.url)
        except Exception as error:  # vLLM must start even if this fails
            why = error if type(error) is ValueError else type(error).__name__
            logger.warning("Requests' speculation is not reported: %s", why)

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Pass on a connection; keep the messages of a completion."""
        reporter = self._reporter
        if reporter is None or scope["type"] != "http" or not scope["path"].endswith(PATHS):
            await self._app(scope, receive, send)
            return
        try:
            exchange = Exchange(reporter, scope)
        except Exception as error:
            reporter.failed(error)
            await self._app(scope, receive, send)
            return

        async def receive_and_keep() -> Message:
            message = await receive()
            try:
                exchange.received(message)
            except Exception as error:
                exchange.stop()
                reporter.failed(error)
            return message

        async def send_and_keep(message: Message) -> None:
            await send(message)
            try:
                exchange.sent(message)
            except Exception as error:
                exchange.stop()
                reporter.failed(error)

        def receive_message() -> Awaitable[Message]:
            return receive_and_keep() if exchange.receiving else receive()

        def send_message(message: Message) -> Awaitable[None]:
            return send_and_keep(message) if exchange.sending else send(message)

        await self._app(scope, receive_message, send_message)


class TooCostlyError(Exception):
    """A request exceeds a limit of reading."""


class Exchange:
    """A request and its response: the parts that are kept."""

    def __init__(self, reporter: Reporter, scope: Message) -> None:
        self._reporter = reporter
        self._queued = False  # the request is complete, and the thread will read it
        self._messages = 0
        self.receiving = self.sending = True  # messages from the client, and to it, are still kept
        self.stream = False
        self.head = b""
        self.body = Tail(BODY_BYTES)
        self.answer = Tail(RESPONSE_BYTES)
        self.type, self.user = reporter.type_and_user(scope["headers"])
        self.attributes: dict[str, Any] | None = None  # of the request; None if it is not read

    def received(self, message: Message) -> None:
        """Keep a message of the request body; queue the body when it is complete."""
        if message["type"] != "http.request":
            return
        self._messages += 1
        if self._messages > BODY_MESSAGES:
            raise TooCostlyError
        piece = message.get("body")
        if piece:
            self.body.add(piece)
        if not message.get("more_body", False):
            self.receiving = False
            self._queued = self._reporter.queue_request(self)

    def sent(self, message: Message) -> None:
        """Keep a message of the response body; queue its end when it is complete."""
        if message["type"] == "http.response.body":
            piece = message.get("body")
            if piece:
                self.answer.add(piece)
                if not self.head:
                    self.head = bytes(piece[:HEAD_BYTES])
            if not message.get("more_body", False):
                self.sending = False
                self._reporter.queue_response(self)
        elif message["type"] == "http.response.start":
            headers = dict(message.get("headers", ()))
            self.stream = b"text/event-stream" in headers.get(b"content-type", b"")
            if not self._queued or message["status"] != OK or b"content-encoding" in headers:
                self.stop()  # the thread spends no time on requests that vLLM refuses

    def stop(self) -> None:
        """Keep no further message, and release the bodies."""
        self.receiving = self.sending = False
        self.body.clear()
        self.answer.clear()


class Tail:
    """The last ``limit`` bytes of a body, and up to one more piece, as the pieces that arrived."""

    __slots__ = ("limit", "pieces", "size", "whole")

    def __init__(self, limit: int) -> None:
        self.pieces: deque[bytes] = deque()
        self.size = 0
        self.limit = limit
        self.whole = True  # false if the beginning is lost

    def add(self, piece: bytes) -> None:
        """Add a piece; release those before the last ``limit`` bytes."""
        if len(piece) > self.limit:
            piece = piece[-self.limit :]
            self.whole = False
        if type(piece) is not bytes:  # a view keeps its whole buffer
            piece = bytes(piece)
        self.pieces.append(piece)
        self.size += len(piece)
        while self.size - len(self.pieces[0]) >= self.limit:
            self.size -= len(self.pieces.popleft())
            self.whole = False
        if len(self.pieces) > PIECES:  # small pieces need more memory than their bytes
            text = self.take()
            self.whole = self.whole and len(text) <= self.limit
            self.pieces.append(text[-self.limit :])
            self.size = min(len(text), self.limit)

    def take(self) -> bytes:
        """Return and release the bytes."""
        text = b"".join(self.pieces)
        self.clear()
        return text

    def clear(self) -> None:
        """Release the bytes."""
        self.pieces.clear()
        self.size = 0

    @property
    def memory(self) -> int:
        """Memory in bytes."""
        return self.size + PIECE_OVERHEAD_BYTES * len(self.pieces)


# Reporter: the thread that reads and sends ------------------------------------------------------------------


class Reporter:
    """Reads exchanges in a thread, and sends a record of each."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._keys = request_keys(settings)
        self._type_header = settings.type_header.lower().encode()
        self._user_header = settings.user_header.lower().encode()
        self._begin()
        os.register_at_fork(after_in_child=self._begin)

    def _begin(self) -> None:
        """Set the initial state. After a fork, the records, the thread and the locks belong to the parent."""
        self.sender = Sender(self.settings)
        self._work = Work(time.thread_time, time.sleep)
        self._exchanges: BoundedQueue[tuple[Callable[[Exchange], None], Exchange]] = BoundedQueue(
            EXCHANGES, EXCHANGE_BYTES
        )
        self._thread: threading.Thread | None = None

    def type_and_user(self, headers: Iterable[tuple[bytes, bytes]]) -> tuple[bytes, bytes]:
        """Return the type and the user from the headers; empty if absent."""
        kind = user = b""
        for number, (name, value) in enumerate(headers):
            if number == HEADERS:
                raise TooCostlyError
            if name == self._type_header:
                kind = value
            elif name == self._user_header:
                user = value
        return kind[: 4 * TEXT_CHARACTERS], user[: 4 * TEXT_CHARACTERS]

    def queue_request(self, exchange: Exchange) -> bool:
        """Queue a request body: it is read and released while vLLM generates the response."""
        return self.put(self._read_request, exchange, exchange.body)

    def queue_response(self, exchange: Exchange) -> None:
        """Queue the end of a response body."""
        self.put(self._read_answer, exchange, exchange.answer)

    def put(self, step: Callable[[Exchange], None], exchange: Exchange, part: Tail) -> bool:
        """Queue a part of an exchange for the thread; drop the request if the queue is full."""
        if self._thread is None or not self._thread.is_alive():
            self._start()
        is_queued = self._exchanges.put((step, exchange), part.memory + EXCHANGE_OVERHEAD_BYTES)
        if not is_queued:
            part.clear()
            self.sender.drop(1)
        return is_queued

    def _start(self) -> None:
        """Start the thread, at the first request: a fork does not copy threads."""
        thread = threading.Thread(target=self._run, name="spec-decode-requests", daemon=True)
        thread.start()
        self._thread = thread

    def _run(self) -> None:
        while True:
            begin = time.monotonic()
            try:
                self.work(begin)
            except Exception as error:
                self.failed(error)
            time.sleep(max(0.0, begin + ROUND_SECONDS - time.monotonic()))

    def work(self, now: float) -> None:
        """Read for at most ``ROUND_SECONDS`` with ``CORE_SHARE`` of a core; then send."""
        end = time.monotonic() + ROUND_SECONDS
        self._work.begin_round()
        while self._exchanges:
            self._read_one()
            if time.monotonic() >= end or self._work.round_is_over():
                break
        self.sender.send(now)

    def _read_one(self) -> None:
        for step, exchange in self._exchanges.take():
            try:
                step(exchange)
            except Exception as error:
                self.failed(error)
            self._work.rest_if_due()

    def _read_request(self, exchange: Exchange) -> None:
        self._work.begin(REQUEST_SECONDS)
        exchange.attributes = read_request(exchange, self._keys, self.settings, self._work)
        exchange.type = exchange.user = b""

    def _read_answer(self, exchange: Exchange) -> None:
        """Keep a record, unless reading the request failed: then it is already counted."""
        if exchange.attributes is None:
            return
        self._work.begin(RESPONSE_SECONDS)
        record = {**read_response(exchange, self._work), **exchange.attributes, "stream": exchange.stream}
        if self.settings.target:
            record["target"] = self.settings.target
        if record["model"]:  # vLLM answers "null" to a client that has left
            self.sender.keep(json.dumps(record).encode())

    def failed(self, error: BaseException) -> None:
        """Count a request that could not be read. An error may quote the request: log only its type."""
        if isinstance(error, TooCostlyError):
            self.sender.drop(0, 1)
            self.sender.log_once("one was too costly to read", "its body, headers or answer exceed a limit")
        else:
            self.sender.drop(1)
            self.sender.log_once("one was not understood", type(error).__name__)


class Work:
    """Limits of the thread's processor time and steps: per slice, body and round.

    ``clock`` returns the processor time of the calling thread, without the time of other threads.
    """

    __slots__ = ("_clock", "_end", "_rested", "_round_end", "_sleep", "_steps")

    def __init__(self, clock: Callable[[], float], sleep: Callable[[float], None]) -> None:
        self._clock, self._sleep = clock, sleep
        self._rested = self._round_end = self._end = 0.0
        self._steps = 0

    def begin_round(self) -> None:
        """Begin a round of ``ROUND_SECONDS``."""
        self._rested = self._clock()
        self._round_end = self._rested + CORE_SHARE * ROUND_SECONDS

    def round_is_over(self) -> bool:
        """Return whether the round's share of a core is used up."""
        return self._clock() >= self._round_end

    def begin(self, seconds: float) -> None:
        """Begin a body that may take ``seconds``."""
        self._end = self._clock() + seconds
        self._steps = STEPS

    def step(self) -> None:
        """Count a step and rest if due; raise ``TooCostlyError`` if the time or the steps are used up."""
        self._steps -= 1
        if self.rest_if_due() >= self._end or self._steps < 0:
            raise TooCostlyError

    def rest_if_due(self) -> float:
        """Rest at the end of a slice, so that the event loop runs; return the time of the clock."""
        now = self._clock()
        if now - self._rested >= SLICE_SECONDS:
            self._sleep(REST_SECONDS)
            self._rested = self._clock()
        return now


Item = TypeVar("Item")


class BoundedQueue(Generic[Item]):
    """A queue with a limit of items, and of their bytes together."""

    def __init__(self, max_items: int, max_bytes: int) -> None:
        self.size = 0
        self._max_items, self._max_bytes = max_items, max_bytes
        self._items: deque[tuple[Item, int]] = deque()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._items)

    def put(self, item: Item, size: int) -> bool:
        """Add an item of ``size`` bytes unless a limit is reached; return whether it was added."""
        with self._lock:
            has_room = len(self._items) < self._max_items and self.size + size <= self._max_bytes
            if has_room:
                self._items.append((item, size))
                self.size += size
        return has_room

    def take(self, max_items: int = 1, max_bytes: int = 0) -> list[Item]:
        """Remove and return the oldest item, and those after it within these limits."""
        taken: list[Item] = []
        left = max_bytes
        with self._lock:
            while self._items and len(taken) < max_items and (not taken or self._items[0][1] <= left):
                item, size = self._items.popleft()
                taken.append(item)
                self.size -= size
                left -= size
        return taken

    def put_back(self, items: Iterable[tuple[Item, int]]) -> None:
        """Add taken items, each with its bytes, as the oldest."""
        back = list(items)
        with self._lock:
            self._items.extendleft(reversed(back))
            self.size += sum(size for _, size in back)


# Reading: prompts and completions are searched as bytes and never decoded -----------------------------------

TIME_FIELDS = (
    "time_to_first_token_ms",
    "generation_time_ms",
    "queue_time_ms",
    "mean_itl_ms",
    "tokens_per_second",
)
USAGE_FIELDS = ("completion_tokens", "prompt_tokens")
SPECULATION_FIELDS = (
    "mean_acceptance_length",
    "draft_acceptance_rate",
    "acceptance_histogram",
    "num_spec_steps",
    "num_accepted_draft_tokens",
    "num_draft_tokens",
    "num_spec_tokens",
)
MODEL = re.compile(rb'"model"\s*:\s*(?=")')
EVENT = re.compile(rb"data:[ \t]*(\{[^\r\n]*)")
NUMBER = re.compile(rb"[-+.0-9A-Za-z]*")  # or a word of JSON
BRACKETS = bytes.maketrans(b"[]", b"{}")
NOT_STRUCTURE = bytes(set(range(256)) - set(b'"[]{}'))
BACKSLASH = 0x5C
DECODER = json.JSONDecoder()


def read_request(exchange: Exchange, keys: Keys, settings: Settings, work: Work) -> dict[str, Any]:
    """Return the attributes of a request, and release its body."""
    text = exchange.body.take()
    work.step()
    if b"\0" in text[:4] + text[-4:]:  # UTF-16 or UTF-32: no key would match
        raise UnicodeError
    values = top_level(text, keys, work, whole=exchange.body.whole)
    attributes: dict[str, Any] = {
        name: values[name] for name in ("temperature", "n") if is_number(values.get(name))
    }
    if "temperature" in attributes:
        attributes["temperature"] = min(attributes["temperature"], MAX_TEMPERATURE)
    fields = (
        ("request_type", exchange.type, settings.type_field),
        ("user", exchange.user, settings.user_field),
    )
    for name, header, path in fields:
        value = short(header.decode("utf-8", "replace")) or short(value_of(values, path))
        if value:
            attributes[name] = value
    return attributes


def value_of(value: object, path: str) -> object:
    """Return the value at a path such as ``metadata.type``; None if there is none."""
    if not path:
        return None
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value


def short(text: object) -> str:
    """Return the beginning of a string without unprintable characters; empty for another type."""
    if not isinstance(text, str):
        return ""
    return "".join(filter(str.isprintable, text[: 4 * TEXT_CHARACTERS])).strip()[:TEXT_CHARACTERS]


def read_response(exchange: Exchange, work: Work) -> dict[str, Any]:
    """Return the model, metrics and usage of a response. A stream has them in its last event."""
    text = exchange.answer.take()
    if exchange.stream:
        text = last_event(text, work)
    values = top_level(text, RESPONSE_KEYS, work, whole=exchange.stream or exchange.answer.whole)
    model = values.get("model")
    if model is None and (place := MODEL.search(exchange.head)):
        model = value_at(exchange.head, place.end(), work)
    record: dict[str, Any] = {"model": short(model), "metrics": only_metrics(values.get("metrics"))}
    usage = only_usage(values.get("usage"))
    if usage:
        record["usage"] = usage
    return record


def only_usage(usage: object) -> dict[str, Any]:
    """Return the numbers of tokens that the exporter reads; empty if there are none."""
    if not isinstance(usage, dict):
        return {}
    known: dict[str, Any] = {name: usage[name] for name in USAGE_FIELDS if is_number(usage.get(name))}
    details = usage.get("prompt_tokens_details")
    if isinstance(details, dict) and is_number(details.get("cached_tokens")):
        known["prompt_tokens_details"] = {"cached_tokens": details["cached_tokens"]}
    return known


def last_event(text: bytes, work: Work) -> bytes:
    """Return the JSON of a stream's last event; empty if there is none. ``[DONE]`` does not match."""
    at = len(text)
    while (at := text.rfind(b"data:", 0, at)) >= 0:
        work.step()
        event = EVENT.match(text, at) if at == 0 or text[at - 1] in b"\r\n" else None
        if event:
            return event.group(1)
    return b""


def only_metrics(metrics: object) -> dict[str, Any]:
    """Return the metrics that the exporter reads; empty if there are none."""
    if not isinstance(metrics, dict):
        return {}
    known: dict[str, Any] = {name: metrics[name] for name in TIME_FIELDS if is_number(metrics.get(name))}
    speculation = metrics.get("speculative_decoding")
    if isinstance(speculation, dict):
        known["speculative_decoding"] = {
            name: speculation[name] for name in SPECULATION_FIELDS if is_numeric(speculation.get(name))
        }
    return known


def is_number(value: object) -> bool:
    """Return whether a value is a finite number in the range of floats."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return -sys.float_info.max <= value <= sys.float_info.max


def is_numeric(value: object) -> bool:
    """Return whether a value is a number or a list of numbers."""
    return is_number(value) or (isinstance(value, list) and all(map(is_number, value)))


class Keys(NamedTuple):
    """Search for the keys of an object."""

    names: Mapping[bytes, str]  # by their spellings in JSON: non-ASCII characters as they are, and escaped
    pattern: re.Pattern[bytes]  # a key with its colon, at any depth
    max_bytes: int  # of a match


def keys_of(*wanted: str) -> Keys:
    """Return a search for keys with these names."""
    spellings = [(json.dumps(name, ensure_ascii=way), name) for name in wanted for way in (True, False)]
    names = {spelling[1:-1].encode(): name for spelling, name in spellings}
    pattern = re.compile(rb'"(%s)"[ \t\r\n]{0,%d}:' % (b"|".join(map(re.escape, sorted(names))), SPACES))
    return Keys(names, pattern, max(map(len, names)) + SPACES + len(b'"":'))


RESPONSE_KEYS = keys_of("model", "metrics", "usage")


def request_keys(settings: Settings) -> Keys:
    """Return a search for the keys of a request."""
    fields = [path.partition(".")[0] for path in (settings.type_field, settings.user_field) if path]
    return keys_of("temperature", "n", *fields)


def top_level(text: bytes, keys: Keys, work: Work, *, whole: bool) -> dict[str, Any]:
    """Return the last value of each key at the top level of a JSON object.

    A key is at the top level if one bracket is open, counted from the beginning of the text or from its end.
    The longest gap between keys, the prompt of a request, is skipped. A text without its beginning (not
    ``whole``) is counted from its end only.
    """
    matches = find_keys(text, keys, work)
    if not matches:
        return {}
    places = [0, *(key.start() for key in matches), len(text)]
    gaps = [places[number + 1] - places[number] for number in range(len(matches) + 1)]
    first = gaps.index(max(gaps)) if whole else 0  # from this key on, count from the end
    last: dict[str, re.Match[bytes]] = {}
    depth, at = 0, len(text)
    for key in reversed(matches[first:]):
        name = keys.names[key.group(1)]
        if name not in last:
            depth -= depth_change(text, key.start(), at, work)
            at = key.start()
            if depth == 1:
                last[name] = key
    known = set(last)
    depth = at = 0
    for key in matches[:first]:
        name = keys.names[key.group(1)]
        if name not in known:
            depth += depth_change(text, at, key.start(), work)
            at = key.start()
            if depth == 1:
                last[name] = key
    return {name: value_at(text, key.end(), work) for name, key in last.items()}


def find_keys(text: bytes, keys: Keys, work: Work) -> list[re.Match[bytes]]:
    """Return the keys of a JSON text at any depth, in their order.

    Inside a JSON string, a quotation mark follows a backslash. So a match without one is a key.
    """
    found = []
    matches = 0
    for begin in range(0, len(text), CHUNK_BYTES):
        work.step()
        end = begin + CHUNK_BYTES
        for key in keys.pattern.finditer(text, begin, end + keys.max_bytes):
            if key.start() >= end:
                break
            matches += 1
            if matches > KEY_MATCHES:
                raise TooCostlyError
            if key.start() and text[key.start() - 1] != BACKSLASH:
                found.append(key)
    return found


def depth_change(text: bytes, begin: int, end: int, work: Work) -> int:
    """Return opened minus closed brackets between two positions outside of strings."""
    change = within = 0
    while begin < end:
        work.step()
        stop = min(begin + CHUNK_BYTES, end)
        part = text[begin:stop]
        if BACKSLASH in part:
            part = part.replace(rb"\\", b"").replace(rb"\"", b"")
            if part.endswith(b"\\") and stop < end:
                stop -= 1  # the escaped character is in the next part
        marks = part.translate(BRACKETS, NOT_STRUCTURE).split(b'"')
        outside = b"".join(marks[within::2])
        change += outside.count(b"{") - outside.count(b"}")
        within = (within + len(marks) - 1) % 2
        begin = stop
    return change


def value_at(text: bytes, place: int, work: Work) -> object:
    """Return the JSON value at a position; None if it is invalid or too long."""
    work.step()
    head = text[place : place + SPACES + 1]
    value = head.lstrip(b" \t\r\n")
    place += len(head) - len(value)
    if value[:1] in (b'"', b"{", b"["):
        value = text[place : place + VALUE_BYTES]
    else:
        number = NUMBER.match(text, place, place + NUMBER_BYTES + 1)
        value = number.group() if number and number.end() - place <= NUMBER_BYTES else b""
    try:
        # Decode as json.loads does, without a character that VALUE_BYTES has cut.
        return DECODER.raw_decode(codecs.utf_8_decode(value, "surrogatepass")[0])[0]
    except (ValueError, RecursionError):
        return None


# Sending ----------------------------------------------------------------------------------------------------


class NotSentError(Exception):
    """A batch was not sent or not accepted. The message contains no untrusted text."""


class AboveRateError(Exception):
    """The exporter counted nothing of a batch: send it again later."""


class Sender:
    """Sends records and the numbers of unreported requests to the exporter."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.dropped = 0  # unreported requests since the last batch: a queue was full, or sending failed
        self.too_costly = 0  # unreported requests since the last batch: they exceed a limit of reading
        self._lock = threading.Lock()
        self._records: BoundedQueue[bytes] = BoundedQueue(RECORDS, RECORD_BYTES)
        self._logged: set[tuple[str, str]] = set()
        self._pause = 0.0
        self._not_before = 0.0

    def drop(self, number: int, too_costly: int = 0) -> None:
        """Count unreported requests."""
        with self._lock:
            self.dropped += number
            self.too_costly += too_costly

    def log_once(self, problem: str, cause: str) -> None:
        """Log each kind of failure once."""
        if (problem, cause) not in self._logged and len(self._logged) < LOGGED_LINES:
            self._logged.add((problem, cause))
            logger.warning(
                "Requests' speculation is not reported, %s: %s. This is logged once", problem, cause
            )

    def keep(self, record: bytes) -> None:
        """Keep a record until it is sent; drop the oldest if the queue is full."""
        while not self._records.put(record, len(record)):
            self._records.take()
            self.drop(1)

    def send(self, now: float) -> None:
        """Send batches, unless a pause after a failure lasts."""
        for _ in range(ROUND_BATCHES):
            if (self._records or self.dropped or self.too_costly) and now >= self._not_before:
                self._send_batch(now)

    def _send_batch(self, now: float) -> None:
        """Send a batch; without records, only the numbers of unreported requests.

        A batch that the exporter may have counted is never sent again.
        """
        dropped, too_costly = self.dropped, self.too_costly
        batch: list[bytes] = []
        try:
            numbers = {DROPPED_HEADER: dropped + too_costly, TOO_COSTLY_HEADER: too_costly}
            headers = authorization(self.settings)
            headers.update((name, str(number)) for name, number in numbers.items() if number)
            address = read_address(self.settings.url)
            connection = connection_to(address, self.settings.ca_file)
            try:
                connection.connect()
                batch = self._records.take(BATCH_RECORDS, BATCH_BYTES)
                within_rate = post(connection, address.path, headers, b"\n".join(batch))
            finally:
                connection.close()
        except AboveRateError:
            self._records.put_back((record, len(record)) for record in batch)
            within_rate = False
        except Exception as error:
            self.drop(len(batch))
            self._wait(now)
            self.log_once(f"the exporter at {self.settings.url} does not take it", reason(error))
            return
        else:
            self.drop(-dropped, -too_costly)
        if within_rate:
            self._pause = 0.0
        else:
            self._wait(now)
            self.log_once(
                f"the exporter at {self.settings.url} refuses some", "they are above its requests.rate"
            )

    def _wait(self, now: float) -> None:
        """Pause, twice as long after each failure."""
        self._pause = min(MAX_PAUSE_SECONDS, 2 * self._pause or ROUND_SECONDS)
        self._not_before = now + self._pause


def reason(error: Exception) -> str:
    """Return a safe text for an error: other texts may quote a secret."""
    if isinstance(error, NotSentError):
        return str(error)
    return (isinstance(error, OSError) and error.strerror) or type(error).__name__


def authorization(settings: Settings) -> dict[str, str | bytes]:
    """Return the header with the credentials. Read the file each time: secrets rotate."""
    if settings.basic_auth_file:
        return {"Authorization": b"Basic " + base64.b64encode(secret(settings.basic_auth_file))}
    if settings.bearer_token_file:
        return {"Authorization": b"Bearer " + secret(settings.bearer_token_file)}
    return {}


def secret(path: str) -> bytes:
    """Return the only line of a file."""
    try:
        with Path(path).open("rb") as file:
            line = file.read(SECRET_BYTES + 1)
    except OSError as error:
        raise NotSentError(f"{path}: {reason(error)}") from None
    if len(line) > SECRET_BYTES:
        raise NotSentError(f"{path} has more than {SECRET_BYTES} bytes")
    line = line.strip()
    if re.search(rb"[\x00-\x1f\x7f]", line):
        raise NotSentError(f"{path} has more than one line, or a character that no header can have")
    return line


def connection_to(address: Address, ca_file: str) -> http.client.HTTPConnection:
    """Return a closed connection to the exporter."""
    scheme, host, port, _ = address
    if scheme == "unix":
        return UnixConnection(host)
    if scheme == "https":
        context = tls_context(ca_file, file_version(ca_file) if ca_file else None)
        return http.client.HTTPSConnection(host, port, timeout=TIMEOUT_SECONDS, context=context)
    return http.client.HTTPConnection(host, port, timeout=TIMEOUT_SECONDS)


@lru_cache(maxsize=1)
def tls_context(ca_file: str, _version: object) -> ssl.SSLContext:
    """Return a TLS context. Its creation takes tens of milliseconds: reuse it until the file changes."""
    import ssl

    context = ssl.create_default_context(cafile=ca_file or None)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def file_version(path: str) -> object:
    """Return a value that changes with the file."""
    try:
        status = Path(path).stat()
    except OSError as error:
        raise NotSentError(f"{path}: {reason(error)}") from None
    return status.st_ino, status.st_mtime_ns, status.st_size


class UnixConnection(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=TIMEOUT_SECONDS)
        self._path = path

    def connect(self) -> None:
        """Open the socket."""
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(TIMEOUT_SECONDS)
        self.sock.connect(self._path)


def post(
    connection: http.client.HTTPConnection, path: str, headers: Mapping[str, str | bytes], body: bytes
) -> bool:
    """Send records as lines; return whether all are within the exporter's rate; raise if not counted."""
    own = {"Content-Type": "application/x-ndjson", "Connection": "close"}
    connection.request("POST", path, body, {**own, **headers})
    status, reply = receive_reply(connection.sock)
    if status == TOO_MANY_REQUESTS:
        raise AboveRateError
    if status != OK:
        raise NotSentError(f"status {status}")
    return not above_rate(reply)


STATUS = re.compile(rb"HTTP/1\.[01] ([0-9]{3})[ \r]")
LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*([0-9]{1,9})[ \t]*\r\n", re.IGNORECASE)


def receive_reply(sock: socket.socket) -> tuple[int, bytes]:
    """Return the status and the body of the exporter's reply; the body may be incomplete or chunked.

    ``http.client`` has no limit for headers.
    """
    end = time.monotonic() + TIMEOUT_SECONDS
    received = b""
    for _ in range(REPLY_PIECES):
        left = end - time.monotonic()
        if left <= 0 or len(received) >= REPLY_BYTES or is_complete(received):
            break
        sock.settimeout(left)
        try:
            piece = sock.recv(REPLY_BYTES - len(received))
        except socket.timeout:  # noqa: UP041 - its only name in Python 3.9
            break
        if not piece:
            break
        received += piece
    while received.startswith(b"HTTP/1.1 1"):  # 100 Continue
        received = received.partition(b"\r\n\r\n")[2]
    head, end_of_head, body = received.partition(b"\r\n\r\n")
    status = STATUS.match(head + end_of_head)
    if not end_of_head or status is None:
        raise NotSentError("no HTTP reply within the limits of time and size")
    return int(status.group(1)), body


def is_complete(reply: bytes) -> bool:
    """Return whether a reply has all bytes of its Content-Length."""
    head, end, body = reply.partition(b"\r\n\r\n")
    length = LENGTH.search(head + end)
    return length is not None and len(body) >= int(length.group(1))


def above_rate(reply: bytes) -> bool:
    """Return whether the exporter refused some records as above its rate. It has counted the others."""
    try:
        return bool(DECODER.raw_decode(reply[reply.find(b"{") :].decode())[0]["refused"]["rate"])
    except (ValueError, LookupError, TypeError, RecursionError):
        return False
