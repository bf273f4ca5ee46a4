"""Tells spec-decode-exporter what each of vLLM's requests gained from speculation.

One file for the standard library of Python 3.9 and later, with its folder on PYTHONPATH::

    vllm serve … --middleware spec_decode_requests.Middleware --enable-force-include-usage
        --enable-per-request-metrics --per-request-spec-decode-metrics summary

Every message passes on unchanged, and before it is looked at. What vLLM says of a request at the end of its
answer, the request's temperature and its type go to the exporter: from a thread, out of a queue that drops
rather than waits. Nothing that was asked or answered goes anywhere. Settings are environment variables, see
``Settings``. docs/requests-inside.md says how it is switched on, what it reads, and what it costs.
"""

from __future__ import annotations

import base64
import http.client
import json
import logging
import math
import os
import re
import socket
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

Message = Mapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Message, Receive, Send], Awaitable[None]]

PREFIX = "SPEC_DECODE_REQUESTS_"
OK = 200
TOO_MANY_REQUESTS = 429
PROBLEM = "application/problem+json"
"""The type of an answer that says what the exporter itself, and nothing before it, has against a batch."""
PATHS = ("/v1/chat/completions", "/v1/completions")
API = "/api/v1/requests"

BODY_BYTES = 1 << 20
"""The most of a request that is kept until its answer has passed: the end of it."""
ANSWER_BYTES = 16 << 10
"""The most of an answer's end that is kept."""
VALUE_BYTES = 8 << 10
"""The most that a value may take that is read."""
TEXT_CHARACTERS = 200
"""The most of a request type, a user or a model's name."""

EXCHANGES = 4096
"""The most answers that wait to be read."""
EXCHANGE_BYTES = 32 << 20
"""The most that they may hold together."""
RECORDS = 8192
"""The most records that wait to be sent."""
BATCH = 500
"""The most records that are sent at once."""
BATCH_BYTES = 512 << 10
"""The most that they may take, one alone excepted: the exporter takes bodies of up to 1 MiB."""
SECONDS = 1.0
"""How often what has come is sent."""
TIMEOUT = 2.0
"""How long the exporter may take for each step of an answer."""
LONGEST_PAUSE = 30.0
"""The longest time without an attempt while the exporter is not there."""

logger = logging.getLogger("vllm.spec_decode_requests")
"""A child of vLLM's own, so that its lines look like vLLM's and go where they go."""


class Settings(NamedTuple):
    """What the environment variables say, each with the prefix ``SPEC_DECODE_REQUESTS_``."""

    url: str = f"http://127.0.0.1:7732{API}"
    """``URL``: where the records go; ``unix:/path`` for a socket."""
    type_header: str = "x-request-type"
    """``TYPE_HEADER``: the header of a request that says what kind of work it is; empty for none."""
    type_field: str = ""
    """``TYPE_FIELD``: a field of its body that says it, as ``metadata.type`` may; the header goes first."""
    user_header: str = ""
    """``USER_HEADER``: the header that says for whom it is. Nobody is asked by default."""
    user_field: str = ""
    """``USER_FIELD``: the field that says it, such as ``user``."""
    target: str = ""
    """``TARGET``: the exporter's name for this vLLM, where it watches several that serve the same model."""
    basic_auth_file: str = ""
    """``BASIC_AUTH_FILE``: a file with ``name:password``."""
    bearer_token_file: str = ""
    """``BEARER_TOKEN_FILE``: a file with a token."""
    ca_file: str = ""
    """``CA_FILE``: whom to trust where the URL begins with https; the system's authorities if empty."""


def read_settings(environ: Mapping[str, str]) -> Settings:
    """Read the settings; raise ``ValueError`` for those that cannot be used."""
    names = {f"{PREFIX}{name.upper()}": name for name in Settings._fields}
    settings = Settings(**{name: environ[key].strip() for key, name in names.items() if key in environ})
    read_address(settings.url)
    if settings.basic_auth_file and settings.bearer_token_file:
        raise ValueError(f"{PREFIX}BASIC_AUTH_FILE and {PREFIX}BEARER_TOKEN_FILE exclude each other")
    return settings


def unknown_settings(environ: Mapping[str, str]) -> list[str]:
    """Return the variables that look like settings. They may be Kubernetes', of a Service."""
    known = {f"{PREFIX}{name.upper()}" for name in Settings._fields}
    return sorted(name for name in environ if name.startswith(PREFIX) and name not in known)


class Address(NamedTuple):
    """Where the exporter listens."""

    scheme: str
    place: str
    """Its host, or the path of its socket."""
    port: int | None
    path: str


def read_address(url: str) -> Address:
    """Read a URL, or ``unix:/path``; raise ``ValueError`` for what is neither."""
    if url.startswith("unix:/"):
        return Address("unix", url[len("unix:") :], None, API)
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username is not None:
        raise ValueError(
            f"{PREFIX}URL: give http://host:port{API}, https://… or unix:/path, without a password in it"
        )
    return Address(parts.scheme, parts.hostname, parts.port, parts.path if parts.path.strip("/") else API)


class Middleware:
    """The ASGI application around vLLM's."""

    def __init__(self, app: Application) -> None:
        self._app = app
        self._reporter: Reporter | None = None
        try:
            unknown = unknown_settings(os.environ)
            if unknown:
                logger.warning("Requests' speculation: there is no setting %s", ", ".join(unknown))
            self._reporter = Reporter(read_settings(os.environ))
            logger.info("Requests' speculation goes to %s", self._reporter.settings.url)
        except Exception as error:  # vLLM must start, whatever is wrong with us
            logger.warning("Requests' speculation is not reported: %s", error)

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Pass a connection on; look at it where it asks for a completion."""
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

        async def receive_and_look() -> Message:
            message = await receive()
            try:
                exchange.received(message)
            except Exception as error:
                reporter.failed(error)
            return message

        async def send_and_look(message: Message) -> None:
            await send(message)
            try:
                exchange.sent(message)
            except Exception as error:
                reporter.failed(error)

        await self._app(scope, receive_and_look, send_and_look)


class Ending:
    """The last bytes of what comes in pieces, at least ``limit`` of them: the pieces, no copies."""

    __slots__ = ("limit", "pieces", "size")

    def __init__(self, limit: int) -> None:
        self.pieces: deque[bytes] = deque()
        self.size = 0
        self.limit = limit

    def add(self, piece: bytes) -> None:
        """Add a piece, and forget those that are no longer among the last bytes."""
        if len(piece) > self.limit:
            piece = piece[-self.limit :]
        self.pieces.append(piece)
        self.size += len(piece)
        while self.size - len(self.pieces[0]) >= self.limit:
            self.size -= len(self.pieces.popleft())

    def text(self) -> bytes:
        """Return the bytes."""
        return b"".join(self.pieces)


class Exchange:
    """A request and its answer, as far as they have passed."""

    __slots__ = ("_asked", "_open", "_reporter", "answer", "body", "head", "stream", "type", "user")

    def __init__(self, reporter: Reporter, scope: Message) -> None:
        self._reporter = reporter
        self._asked = False
        """Whether the whole of the request has come."""
        self._open = False
        """Whether an answer is passing that can be read."""
        self.stream = False
        self.head = b""
        self.body = Ending(BODY_BYTES)
        self.answer = Ending(ANSWER_BYTES)
        self.type, self.user = reporter.attributes(scope["headers"])

    def received(self, message: Message) -> None:
        """Look at a message from the client. After the whole of the request there is but its leaving."""
        if not self._asked and message["type"] == "http.request":
            piece = message.get("body")
            if piece:
                self.body.add(piece)
            self._asked = not message.get("more_body", False)

    def sent(self, message: Message) -> None:
        """Look at a message that the client has been sent."""
        if message["type"] == "http.response.body":
            if self._open:
                piece = message.get("body")
                if piece:
                    self.answer.add(piece)
                    if not self.head:
                        self.head = piece[:1024]
                if not message.get("more_body", False):
                    self._open = False
                    self._reporter.put(self)
        elif message["type"] == "http.response.start" and message["status"] == OK:
            headers = dict(message.get("headers", ()))
            self.stream = b"text/event-stream" in headers.get(b"content-type", b"")
            self._open = b"content-encoding" not in headers and self._asked

    @property
    def size(self) -> int:
        """The bytes that it holds."""
        return self.body.size + self.answer.size


class Reporter:
    """Turns exchanges into records and sends them, in a thread of its own."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.dropped = 0
        """Requests that are not reported since the last batch: too many, or sent in vain."""
        self._keys = request_keys(settings)
        self._type_header = settings.type_header.lower().encode("latin-1")
        self._user_header = settings.user_header.lower().encode("latin-1")
        self._exchanges: deque[Exchange] = deque()
        self._held = 0
        self._lock = threading.Lock()
        self._records: list[bytes] = []
        self._process = 0
        self._told: set[str] = set()
        self._pause = 0.0
        self._not_before = 0.0

    def attributes(self, headers: Iterable[tuple[bytes, bytes]]) -> tuple[str, str]:
        """Return the type and the user that the headers name; empty where they name none."""
        kind = user = b""
        for name, value in headers:
            if name == self._type_header:
                kind = value
            elif name == self._user_header:
                user = value
        return kind.decode("latin-1"), user.decode("latin-1")

    def put(self, exchange: Exchange) -> None:
        """Take an exchange that is over; drop it where too many wait."""
        if self._process != os.getpid():
            self._start()
        with self._lock:
            room = len(self._exchanges) < EXCHANGES and self._held + exchange.size <= EXCHANGE_BYTES
            if room:
                self._held += exchange.size
                self._exchanges.append(exchange)
        if not room:
            self._drop(1)

    def _start(self) -> None:
        """Start the thread: not earlier than there is work, for a fork takes no threads along."""
        self._process = os.getpid()
        threading.Thread(target=self._run, name="spec-decode-requests", daemon=True).start()

    def _run(self) -> None:
        while True:
            time.sleep(SECONDS)
            try:
                self.work(time.monotonic())
            except Exception as error:
                self.failed(error)

    def work(self, now: float) -> None:
        """Read what has come, and send it unless the exporter has just failed to take some."""
        while self._exchanges:
            self._read_one()
        if len(self._records) > RECORDS:
            self._drop(len(self._records) - RECORDS)
            self._records = self._records[-RECORDS:]
        while self._records and now >= self._not_before:
            self._send(now)

    def _read_one(self) -> None:
        with self._lock:
            exchange = self._exchanges.popleft()
            self._held -= exchange.size
        try:
            record = self._record(exchange)
            if record["model"]:  # vLLM answers "null" to a client that has left
                self._records.append(json.dumps(record).encode())
        except Exception as error:
            self.failed(error)

    def _record(self, exchange: Exchange) -> dict[str, Any]:
        record = read_answer(exchange)
        record.update(read_request(exchange, self._keys, self.settings))
        record["stream"] = exchange.stream
        if self.settings.target:
            record["target"] = self.settings.target
        return record

    def _send(self, now: float) -> None:
        """Send a batch. One that the exporter may have taken is not sent again: it would count twice."""
        dropped, batch = self.dropped, []
        try:
            connection = connect(self.settings)
            batch = self._batch()
            self._records = self._records[len(batch) :]
            try:
                post(connection, self.settings, b"\n".join(batch), dropped)
            finally:
                connection.close()
        except Exception as error:
            if not isinstance(error, AboveRateError):
                self._drop(len(batch))
            self._pause = min(LONGEST_PAUSE, 2 * self._pause or SECONDS)
            self._not_before = now + self._pause
            self.tell(f"the exporter at {self.settings.url} does not take it", error)
        else:
            self._pause = 0.0
            self._drop(-dropped)

    def _batch(self) -> list[bytes]:
        size = 0
        for number, record in enumerate(self._records[:BATCH]):
            size += len(record) + 1
            if number and size > BATCH_BYTES:
                return self._records[:number]
        return self._records[:BATCH]

    def _drop(self, number: int) -> None:
        with self._lock:
            self.dropped += number

    def failed(self, error: BaseException) -> None:
        """Count a failure of our own. Its words may be of a request, so that only its kind is told."""
        self._drop(1)
        self.tell("one was not understood", type(error).__name__)

    def tell(self, what: str, why: object) -> None:
        """Log each kind of failure once."""
        if what not in self._told:
            self._told.add(what)
            logger.warning("Requests' speculation is not reported, %s: %s. This is told once", what, why)


def connect(settings: Settings) -> http.client.HTTPConnection:
    """Return an open connection to the exporter."""
    connection = connection_to(read_address(settings.url), settings.ca_file or None)
    try:
        connection.connect()
    except BaseException:
        connection.close()
        raise
    return connection


def connection_to(address: Address, ca_file: str | None) -> http.client.HTTPConnection:
    """Return a connection that is not open yet."""
    if address.scheme == "unix":
        return UnixConnection(address.place)
    if address.scheme == "https":
        import ssl

        trusted = ssl.create_default_context(cafile=ca_file)
        return http.client.HTTPSConnection(address.place, address.port, timeout=TIMEOUT, context=trusted)
    return http.client.HTTPConnection(address.place, address.port, timeout=TIMEOUT)


class UnixConnection(http.client.HTTPConnection):
    """HTTP over a socket of the file system."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=TIMEOUT)
        self._path = path

    def connect(self) -> None:
        """Open the socket."""
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(TIMEOUT)
        self.sock.connect(self._path)


class AboveRateError(http.client.HTTPException):
    """The exporter has refused a whole batch as above its rate, and counted it itself."""


def post(connection: http.client.HTTPConnection, settings: Settings, body: bytes, dropped: int) -> None:
    """Send records, one a line; raise an error where they are not taken."""
    headers = {"Content-Type": "application/x-ndjson", "Connection": "close", **authorization(settings)}
    if dropped:
        headers["X-Spec-Decode-Dropped"] = str(dropped)
    connection.request("POST", read_address(settings.url).path, body, headers)
    answer = connection.getresponse()
    if answer.status == TOO_MANY_REQUESTS and answer.getheader("Content-Type", "").startswith(PROBLEM):
        raise AboveRateError(f"status {answer.status}")
    if answer.status != OK:
        raise http.client.HTTPException(f"status {answer.status}")


def authorization(settings: Settings) -> dict[str, str]:
    """Return the header that says who we are. Its file is read each time: secrets change."""
    if settings.basic_auth_file:
        return {"Authorization": "Basic " + base64.b64encode(secret(settings.basic_auth_file)).decode()}
    if settings.bearer_token_file:
        return {"Authorization": "Bearer " + secret(settings.bearer_token_file).decode()}
    return {}


def secret(path: str) -> bytes:
    """Return what stands in a file, without the end of its line."""
    return Path(path).read_bytes().strip()


# What is read. Nothing else is ever made an object: prompts and completions are passed over as bytes.

TIMES = (
    "time_to_first_token_ms",
    "generation_time_ms",
    "queue_time_ms",
    "mean_itl_ms",
    "tokens_per_second",
)
SPECULATION = (
    "mean_acceptance_length",
    "draft_acceptance_rate",
    "acceptance_histogram",
    "num_spec_steps",
    "num_accepted_draft_tokens",
    "num_draft_tokens",
    "num_spec_tokens",
)
MODEL = re.compile(rb'"model"\s*:\s*(?=")')
STRUCTURE = re.compile(rb'["\[\]{}]')
COLON = re.compile(rb"\s*:\s*")
BACKSLASH = 0x5C
DECODER = json.JSONDecoder()
STEPS = 256
"""After how many brackets and quotation marks the thread lets others go on."""
STRETCH = 1 << 16
"""How many bytes are searched at once, for the same reason."""


class Keys(NamedTuple):
    """Keys of an object that are looked for."""

    names: frozenset[bytes]
    longest: int
    first: re.Pattern[bytes]
    """Finds the first place that has one of them, at any depth."""


def keys_of(*names: str) -> Keys:
    """Return what finds keys of these names."""
    known = frozenset(name.encode() for name in names)
    any_of_them = b"|".join(map(re.escape, sorted(known)))
    return Keys(known, max(map(len, known)), re.compile(rb'(?<!\\)"(?:' + any_of_them + rb')"\s*:'))


ANSWER_KEYS = keys_of("model", "metrics", "usage")


def read_answer(exchange: Exchange) -> dict[str, Any]:
    """Return the model, its metrics and usage. A stream's last event has them all."""
    text = exchange.answer.text()
    if exchange.stream:
        text = last_event(text)
    found = top_level(text, ANSWER_KEYS)
    model = found.get("model")
    if model is None and (place := MODEL.search(exchange.head)):
        model = value_at(exchange.head, place.end())
    record: dict[str, Any] = {"model": short(model), "metrics": only_metrics(found.get("metrics"))}
    usage = found.get("usage")
    if isinstance(usage, dict) and is_number(usage.get("completion_tokens")):
        record["usage"] = {"completion_tokens": usage["completion_tokens"]}
    return record


def last_event(text: bytes) -> bytes:
    """Return the data of a stream's last event before its end, with an empty ``[DONE]`` passed over."""
    for line in reversed(text.splitlines()):
        if line.startswith(b"data:") and line[5:].lstrip()[:1] == b"{":
            return line
    return b""


def only_metrics(metrics: object) -> dict[str, Any]:
    """Return the numbers that the exporter knows; empty where vLLM says nothing."""
    if not isinstance(metrics, dict):
        return {}
    known: dict[str, Any] = {name: metrics[name] for name in TIMES if is_number(metrics.get(name))}
    speculation = metrics.get("speculative_decoding")
    if isinstance(speculation, dict):
        known["speculative_decoding"] = {
            name: speculation[name] for name in SPECULATION if is_numeric(speculation.get(name))
        }
    return known


def is_number(value: object) -> bool:
    """Tell whether it is a number, and neither NaN nor infinite."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def is_numeric(value: object) -> bool:
    """Tell whether it is a number, or a list of numbers."""
    return is_number(value) or (isinstance(value, list) and all(map(is_number, value)))


def request_keys(settings: Settings) -> Keys:
    """Return the keys of a request at which is looked."""
    fields = [path.partition(".")[0] for path in (settings.type_field, settings.user_field) if path]
    return keys_of("temperature", "n", *fields)


def read_request(exchange: Exchange, keys: Keys, settings: Settings) -> dict[str, Any]:
    """Return what the request says of itself, without what it leaves to the server."""
    found = top_level(exchange.body.text(), keys)
    said: dict[str, Any] = {name: found[name] for name in ("temperature", "n") if is_number(found.get(name))}
    named = {
        "request_type": exchange.type or short(inner(found, settings.type_field)),
        "user": exchange.user or short(inner(found, settings.user_field)),
    }
    said.update((name, value[:TEXT_CHARACTERS]) for name, value in named.items() if value)
    return said


def inner(found: object, path: str) -> object:
    """Return what is at a path such as ``metadata.type``; None where there is nothing."""
    for name in path.split("."):
        found = found.get(name) if isinstance(found, dict) else None
    return found


def short(text: object) -> str:
    """Return a text, or its beginning; empty where it is none."""
    return text[:TEXT_CHARACTERS] if isinstance(text, str) else ""


def top_level(text: bytes, keys: Keys) -> dict[str, Any]:
    """Return the values that these keys have in an object of JSON, of which the beginning may be missing.

    In JSON a quotation mark within a text has a backslash before it. So what looks like a key and its colon
    is one, wherever the text begins; and how deep it is shows at the end, where the object's bracket closes.
    """
    first = keys.first.search(text)
    if first is None:
        return {}
    depth = 0
    found = []
    for place, mark in marks(text, first.start()):
        if mark == OPENED:
            depth += 1
        elif mark == CLOSED:
            depth -= 1
        elif mark - place <= keys.longest + 1 and text[place + 1 : mark] in keys.names:
            colon = COLON.match(text, mark + 1)
            if colon:
                found.append((depth, text[place + 1 : mark], colon.end()))
    return {name.decode(): value_at(text, place) for deep, name, place in found if deep - depth == 1}


OPENED, CLOSED = -1, -2


def marks(text: bytes, at: int) -> Iterator[tuple[int, int]]:
    """Go through JSON: places of brackets with OPENED or CLOSED, and of texts with the place of their end.

    A long one is gone through in steps, with rests: whoever else wants to run in this process need not wait.
    """
    steps = 0
    begin = -1
    while at < len(text):
        if begin >= 0:
            found = text.index(b'"', at)
            if not is_escaped(text, found):
                yield begin, found
                begin = -1
            at = found + 1
        else:
            token = STRUCTURE.search(text, at, at + STRETCH)
            at = token.end() if token else at + STRETCH
            if token and token.group() == b'"':
                begin = token.start()
            elif token:
                yield token.start(), OPENED if token.group() in b"[{" else CLOSED
        steps += 1
        if steps % STEPS == 0:
            time.sleep(1e-6)


def is_escaped(text: bytes, place: int) -> bool:
    """Tell whether a quotation mark has an odd number of backslashes before it."""
    start = place
    while text[start - 1] == BACKSLASH:
        start -= 1
    return (place - start) % 2 == 1


def value_at(text: bytes, place: int) -> object:
    """Return the value that begins there; None where it is too long or none."""
    try:
        return DECODER.raw_decode(text[place : place + VALUE_BYTES].decode("utf-8", "replace"))[0]
    except ValueError:
        return None
