"""Report the speculative decoding of each of vLLM's requests to spec-decode-exporter.

This file needs only the standard library of Python 3.9 or later. Put its folder on PYTHONPATH::

    vllm serve … --middleware spec_decode_requests.Middleware --enable-force-include-usage
        --enable-per-request-metrics --per-request-spec-decode-metrics summary

The middleware passes on every message unchanged, and reads it afterwards. A thread sends the metrics at the
end of each response to the exporter, with the request's temperature, ``n``, type and user. If the thread's
queue is full, the request is dropped; vLLM never waits. No prompt and no completion is sent or logged.
Settings are environment variables, see ``Settings``. docs/requests-inside.md has the setup, limits and costs.
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

PREFIX = "SPEC_DECODE_REQUESTS_"
PATHS = ("/v1/chat/completions", "/v1/completions")
API = "/api/v1/requests"
OK = 200
TOO_MANY_REQUESTS = 429
DROPPED_HEADER = "X-Spec-Decode-Dropped"  # unreported requests since the last batch that arrived
TOO_COSTLY_HEADER = "X-Spec-Decode-Too-Costly"  # those of them that exceeded a limit of reading

# Limits of what is kept of a request. One that exceeds BODY_MESSAGES or HEADERS is not reported.
BODY_BYTES = 1 << 20  # the end of the request body
BODY_MESSAGES = 3072  # messages of the request body
HEADERS = 256  # headers of the request
ANSWER_BYTES = 16 << 10  # the end of the response body
HEAD_BYTES = 1 << 10  # the beginning of the response body
PIECES = 1024  # pieces of either body; more are joined
PIECE_BYTES = 64  # memory of a piece besides its bytes
TEXT_CHARACTERS = 256  # of a request type, a user or a model name, as in the exporter
MOST_TEMPERATURE = 100.0  # the exporter's limit; a higher temperature is reported as this one

# Limits of reading. A request that exceeds FOUND_KEYS, the seconds or STEPS is not reported.
VALUE_BYTES = 8 << 10  # a string, an object or an array that is read
NUMBER_BYTES = 512  # a number that is read
SPACES = 64  # white space between a key and its colon, and between the colon and the value
FOUND_KEYS = 512  # occurrences of keys, at any depth
REQUEST_SECONDS = 2.8e-3  # processor time of the thread for one request body
ANSWER_SECONDS = 0.8e-3  # processor time of the thread for one response body
STEPS = 4096  # steps for either: the processor clock of some systems is coarse
INTERVAL = 1 << 14  # bytes of one step: no other thread runs meanwhile
SLICE_SECONDS = 250e-6  # processor time between two rests: the event loop waits for the thread meanwhile
REST_SECONDS = 1e-3
SHARE = 0.05  # of one core, for reading; requests beyond it wait in the queue

# Limits of the queues.
EXCHANGES = 8192  # request and response bodies that wait to be read
EXCHANGE_BYTES = 32 << 20
OWN_BYTES = 4 << 10  # memory of each besides its pieces
RECORDS = 8192  # records that wait to be sent
RECORD_BYTES = 8 << 20

# Limits of sending.
BATCH = 500  # records
BATCH_BYTES = 512 << 10  # the exporter takes 1 MiB; a longer record is sent alone
BATCHES = 2  # in each round: half of the exporter's default rate of 2000 records a second
SECONDS = 1.0  # length of a round
TIMEOUT = 2.0  # seconds to connect, to send, and for the whole reply
LONGEST_PAUSE = 30.0  # seconds between two attempts
REPLY_BYTES = 16 << 10  # of the exporter's reply, headers included
REPLY_PIECES = 64

# Limits of settings and the log.
SETTING_CHARACTERS = 4096  # of an environment variable
NAME_CHARACTERS = 256  # of the name of a header or field
SECRET_BYTES = 8 << 10  # of a file with a password or token
NAMES = 5  # unknown variables in the log
LINES = 20  # warnings in vLLM's log

logger = logging.getLogger("vllm.spec_decode_requests")  # a child of vLLM's logger, for its format


class Settings(NamedTuple):
    """Environment variables with the prefix ``SPEC_DECODE_REQUESTS_``, in upper case."""

    url: str = f"http://127.0.0.1:7732{API}"  # of the exporter; ``unix:/path`` for a socket
    type_header: str = "x-request-type"  # header with the request's type; empty for none
    type_field: str = (
        ""  # field of the body with the type, such as ``metadata.type``; the header has priority
    )
    user_header: str = ""  # header with the user; none by default
    user_field: str = ""  # field of the body with the user
    target: str = ""  # the exporter's name of this vLLM, if several serve the same model
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
    """Log variables with the prefix that are no settings. Kubernetes sets such for a Service of that name."""
    known = {f"{PREFIX}{name.upper()}" for name in Settings._fields}
    unknown = sorted(name for name in environ if name.startswith(PREFIX) and name not in known)
    if unknown:
        named = ", ".join(map(short, unknown[:NAMES]))
        more = f" and {len(unknown) - NAMES} more" if len(unknown) > NAMES else ""
        logger.warning("Requests' speculation: there is no setting %s%s", named, more)


class Address(NamedTuple):
    """Address of the exporter."""

    scheme: str
    place: str  # host, or path of a socket
    port: int | None
    path: str


def read_address(url: str) -> Address:
    """Parse a URL or ``unix:/path``; raise ``ValueError``, without the URL in it, if it is invalid."""
    if url.startswith("unix:/"):
        return Address("unix", url[len("unix:") :], None, API)
    try:
        parts = urlsplit(url)
        port = parts.port
        plain = parts.username is None and not parts.query and not parts.fragment
        if parts.scheme in ("http", "https") and parts.hostname and plain:
            return Address(parts.scheme, parts.hostname, port, parts.path if parts.path.strip("/") else API)
    except ValueError:
        pass
    form = f"give http://host:port{API}, https://… or unix:/path, without a name, a password or a query in it"
    raise ValueError(f"{PREFIX}URL: {form}") from None


class Middleware:
    """ASGI application around vLLM's."""

    def __init__(self, app: Application) -> None:
        self._app = app
        self._reporter: Reporter | None = None
        try:
            warn_of_unknown_settings(os.environ)
            self._reporter = Reporter(read_settings(os.environ))
            logger.info("Requests' speculation goes to %s", self._reporter.settings.url)
        except Exception as error:  # vLLM must start, whatever fails here
            why = error if type(error) is ValueError else type(error).__name__
            logger.warning("Requests' speculation is not reported: %s", why)

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Pass on a connection; read the messages of a completion."""
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

        async def receive_and_read() -> Message:
            message = await receive()
            try:
                exchange.received(message)
            except Exception as error:
                exchange.stop()
                reporter.failed(error)
            return message

        async def send_and_read(message: Message) -> None:
            await send(message)
            try:
                exchange.sent(message)
            except Exception as error:
                exchange.stop()
                reporter.failed(error)

        def receive_message() -> Awaitable[Message]:
            return receive_and_read() if exchange.receiving else receive()

        def send_message(message: Message) -> Awaitable[None]:
            return send_and_read(message) if exchange.sending else send(message)

        await self._app(scope, receive_message, send_message)


class TooCostlyError(Exception):
    """A request exceeds a limit of reading."""


class Tail:
    """The last bytes of a body, at least ``limit`` of them, as the pieces in which they came."""

    __slots__ = ("limit", "pieces", "size", "whole")

    def __init__(self, limit: int) -> None:
        self.pieces: deque[bytes] = deque()
        self.size = 0
        self.limit = limit
        self.whole = True  # False once the beginning is lost

    def add(self, piece: bytes) -> None:
        """Add a piece; forget those before the last ``limit`` bytes."""
        if len(piece) > self.limit:
            piece = piece[-self.limit :]
            self.whole = False
        if type(piece) is not bytes:  # a view would keep all of its buffer
            piece = bytes(piece)
        self.pieces.append(piece)
        self.size += len(piece)
        while self.size - len(self.pieces[0]) >= self.limit:
            self.size -= len(self.pieces.popleft())
            self.whole = False
        if len(self.pieces) > PIECES:  # small pieces take more memory than their bytes
            text = self.take()
            self.whole = self.whole and len(text) <= self.limit
            self.pieces.append(text[-self.limit :])
            self.size = min(len(text), self.limit)

    def take(self) -> bytes:
        """Return the bytes, and forget them."""
        text = b"".join(self.pieces)
        self.clear()
        return text

    def clear(self) -> None:
        """Forget the bytes."""
        self.pieces.clear()
        self.size = 0

    @property
    def held(self) -> int:
        """Memory in bytes."""
        return self.size + PIECE_BYTES * len(self.pieces)


class Exchange:
    """A request and its response, as far as they have passed."""

    def __init__(self, reporter: Reporter, scope: Message) -> None:
        self._reporter = reporter
        self._queued = False  # the whole request has come, and the thread will read it
        self._messages = 0
        self.receiving = self.sending = True  # messages of the client, and to it, are still read
        self.stream = False
        self.head = b""
        self.body = Tail(BODY_BYTES)
        self.answer = Tail(ANSWER_BYTES)
        self.type, self.user = reporter.attributes(scope["headers"])
        self.said: dict[str, Any] | None = (
            None  # attributes of the request; None if it is not or cannot be read
        )

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
            self._queued = self._reporter.asked(self)

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
                self._reporter.answered(self)
        elif message["type"] == "http.response.start":
            headers = dict(message.get("headers", ()))
            self.stream = b"text/event-stream" in headers.get(b"content-type", b"")
            if not self._queued or message["status"] != OK or b"content-encoding" in headers:
                self.stop()  # so requests that vLLM refuses take no time of the thread

    def stop(self) -> None:
        """Read no further message, and forget what is kept."""
        self.receiving = self.sending = False
        self.body.clear()
        self.answer.clear()


Item = TypeVar("Item")


class BoundedQueue(Generic[Item]):
    """A queue with a limit of items, and of their bytes together."""

    def __init__(self, most: int, most_bytes: int) -> None:
        self.size = 0
        self._most, self._most_bytes = most, most_bytes
        self._items: deque[tuple[Item, int]] = deque()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._items)

    def put(self, item: Item, size: int) -> bool:
        """Add an item of ``size`` bytes unless a limit is reached; return whether it was added."""
        with self._lock:
            room = len(self._items) < self._most and self.size + size <= self._most_bytes
            if room:
                self._items.append((item, size))
                self.size += size
        return room

    def take(self, most: int = 1, most_bytes: int = 0) -> list[Item]:
        """Remove the oldest item, and those after it within these limits; return them."""
        taken: list[Item] = []
        left = most_bytes
        with self._lock:
            while self._items and len(taken) < most and (not taken or self._items[0][1] <= left):
                item, size = self._items.popleft()
                taken.append(item)
                self.size -= size
                left -= size
        return taken

    def put_back(self, items: Iterable[tuple[Item, int]]) -> None:
        """Add items that were taken, each with its bytes, as the oldest."""
        back = list(items)
        with self._lock:
            self._items.extendleft(reversed(back))
            self.size += sum(size for _, size in back)


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
        """Set the initial state. After a fork the parent has the records, the thread and the held locks."""
        self.sender = Sender(self.settings)
        self._work = Work(time.thread_time, time.sleep)
        self._exchanges: BoundedQueue[tuple[Callable[[Exchange], None], Exchange]] = BoundedQueue(
            EXCHANGES, EXCHANGE_BYTES
        )
        self._thread: threading.Thread | None = None

    def attributes(self, headers: Iterable[tuple[bytes, bytes]]) -> tuple[bytes, bytes]:
        """Return the type and the user in the headers; empty if absent."""
        kind = user = b""
        for number, (name, value) in enumerate(headers):
            if number == HEADERS:
                raise TooCostlyError
            if name == self._type_header:
                kind = value
            elif name == self._user_header:
                user = value
        return kind[: 4 * TEXT_CHARACTERS], user[: 4 * TEXT_CHARACTERS]

    def asked(self, exchange: Exchange) -> bool:
        """Queue a request body, so that it is read and released before it is answered."""
        return self.put(self._read_request, exchange, exchange.body)

    def answered(self, exchange: Exchange) -> None:
        """Queue the end of a response body."""
        self.put(self._read_answer, exchange, exchange.answer)

    def put(self, step: Callable[[Exchange], None], exchange: Exchange, part: Tail) -> bool:
        """Have the thread read a part of an exchange; drop the request if the queue is full."""
        if self._thread is None or not self._thread.is_alive():
            self._start()
        room = self._exchanges.put((step, exchange), part.held + OWN_BYTES)
        if not room:
            part.clear()
            self.sender.drop(1)
        return room

    def _start(self) -> None:
        """Start the thread, with the first request: a fork does not copy threads."""
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
            time.sleep(max(0.0, begin + SECONDS - time.monotonic()))

    def work(self, now: float) -> None:
        """Read for ``SECONDS`` at most, with ``SHARE`` of a core; then send."""
        end = time.monotonic() + SECONDS
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
        exchange.said = read_request(exchange, self._keys, self.settings, self._work)
        exchange.type = exchange.user = b""

    def _read_answer(self, exchange: Exchange) -> None:
        """Keep a record, unless the request could not be read: that was counted."""
        if exchange.said is None:
            return
        self._work.begin(ANSWER_SECONDS)
        record = {**read_answer(exchange, self._work), **exchange.said, "stream": exchange.stream}
        if self.settings.target:
            record["target"] = self.settings.target
        if record["model"]:  # vLLM answers "null" to a client that has left
            self.sender.keep(json.dumps(record).encode())

    def failed(self, error: BaseException) -> None:
        """Count a request that could not be read. An error may quote a request: log its type alone."""
        if isinstance(error, TooCostlyError):
            self.sender.drop(0, 1)
            self.sender.log_once("one was too costly to read", "its body, headers or answer exceed a limit")
        else:
            self.sender.drop(1)
            self.sender.log_once("one was not understood", type(error).__name__)


class NotSentError(Exception):
    """A batch was not sent, or not taken. The message has no untrusted text."""


class AboveRateError(Exception):
    """The exporter counted nothing of a batch, so it can be sent again."""


class Sender:
    """Sends records to the exporter, and the numbers of unreported requests."""

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

    def log_once(self, what: str, why: str) -> None:
        """Log each kind of failure once."""
        if (what, why) not in self._logged and len(self._logged) < LINES:
            self._logged.add((what, why))
            logger.warning("Requests' speculation is not reported, %s: %s. This is logged once", what, why)

    def keep(self, record: bytes) -> None:
        """Keep a record until it is sent; drop the oldest if there are too many."""
        while not self._records.put(record, len(record)):
            self._records.take()
            self.drop(1)

    def send(self, now: float) -> None:
        """Send batches, unless the exporter failed a short time ago."""
        for _ in range(BATCHES):
            if (self._records or self.dropped or self.too_costly) and now >= self._not_before:
                self._send_batch(now)

    def _send_batch(self, now: float) -> None:
        """Send a batch, or the numbers of unreported requests alone if no record waits.

        A batch that the exporter may have counted is not sent again.
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
                batch = self._records.take(BATCH, BATCH_BYTES)
                taken = post(connection, address.path, headers, b"\n".join(batch))
            finally:
                connection.close()
        except AboveRateError:
            self._records.put_back((record, len(record)) for record in batch)
            taken = False
        except Exception as error:
            self.drop(len(batch))
            self._wait(now)
            self.log_once(f"the exporter at {self.settings.url} does not take it", reason(error))
            return
        else:
            self.drop(-dropped, -too_costly)
        if taken:
            self._pause = 0.0
        else:
            self._wait(now)
            self.log_once(
                f"the exporter at {self.settings.url} refuses some", "they are above its requests.rate"
            )

    def _wait(self, now: float) -> None:
        """Pause, twice as long with each failure."""
        self._pause = min(LONGEST_PAUSE, 2 * self._pause or SECONDS)
        self._not_before = now + self._pause


def reason(error: Exception) -> str:
    """Return our own or the system's words for an error: other errors may quote a secret."""
    if isinstance(error, NotSentError):
        return str(error)
    return (isinstance(error, OSError) and error.strerror) or type(error).__name__


def authorization(settings: Settings) -> dict[str, str | bytes]:
    """Return the header with the credentials. Secrets change, so their file is read each time."""
    if settings.basic_auth_file:
        return {"Authorization": b"Basic " + base64.b64encode(secret(settings.basic_auth_file))}
    if settings.bearer_token_file:
        return {"Authorization": b"Bearer " + secret(settings.bearer_token_file)}
    return {}


def secret(path: str) -> bytes:
    """Return the line in a file."""
    try:
        with Path(path).open("rb") as file:
            found = file.read(SECRET_BYTES + 1)
    except OSError as error:
        raise NotSentError(f"{path}: {reason(error)}") from None
    if len(found) > SECRET_BYTES:
        raise NotSentError(f"{path} has more than {SECRET_BYTES} bytes")
    found = found.strip()
    if re.search(rb"[\x00-\x1f\x7f]", found):
        raise NotSentError(f"{path} has more than one line, or what no header can have")
    return found


def file_version(path: str) -> object:
    """Return a value that changes with the file."""
    try:
        status = Path(path).stat()
    except OSError as error:
        raise NotSentError(f"{path}: {reason(error)}") from None
    return status.st_ino, status.st_mtime_ns, status.st_size


@lru_cache(maxsize=1)
def tls_context(ca_file: str, _version: object) -> ssl.SSLContext:
    """Return a TLS context. It takes tens of milliseconds to make, so it is kept until the file changes."""
    import ssl

    return ssl.create_default_context(cafile=ca_file or None)


class UnixConnection(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=TIMEOUT)
        self._path = path

    def connect(self) -> None:
        """Open the socket."""
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(TIMEOUT)
        self.sock.connect(self._path)


def connection_to(address: Address, ca_file: str) -> http.client.HTTPConnection:
    """Return a connection to the exporter that is not open yet."""
    scheme, place, port, _ = address
    if scheme == "unix":
        return UnixConnection(place)
    if scheme == "https":
        context = tls_context(ca_file, file_version(ca_file) if ca_file else None)
        return http.client.HTTPSConnection(place, port, timeout=TIMEOUT, context=context)
    return http.client.HTTPConnection(place, port, timeout=TIMEOUT)


def post(
    connection: http.client.HTTPConnection, path: str, headers: Mapping[str, str | bytes], body: bytes
) -> bool:
    """Send records, one a line; return whether all were within the exporter's rate; raise if not counted."""
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

    ``http.client`` would read headers without end.
    """
    end = time.monotonic() + TIMEOUT
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
    """Return whether the exporter refused some records as above its rate. It has counted the batch anyway."""
    try:
        return bool(DECODER.raw_decode(reply[reply.find(b"{") :].decode())[0]["refused"]["rate"])
    except (ValueError, LookupError, TypeError, RecursionError):
        return False


# Reading. Prompts and completions are searched as bytes; they never become objects.

TIMES = ("time_to_first_token_ms", "generation_time_ms", "queue_time_ms", "mean_itl_ms", "tokens_per_second")
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
EVENT = re.compile(rb"data:[ \t]*(\{[^\r\n]*)")
NUMBER = re.compile(rb"[-+.0-9A-Za-z]*")  # or a word of JSON
BRACKETS = bytes.maketrans(b"[]", b"{}")
NOT_STRUCTURE = bytes(set(range(256)) - set(b'"[]{}'))
BACKSLASH = 0x5C
DECODER = json.JSONDecoder()


class Work:
    """Limits of the thread's processor time and steps: for a slice, a body and a round.

    ``clock`` returns the processor time of the calling thread, so the time of other threads does not count.
    """

    __slots__ = ("_clock", "_end", "_rested", "_round_end", "_sleep", "_steps")

    def __init__(self, clock: Callable[[], float], sleep: Callable[[float], None]) -> None:
        self._clock, self._sleep = clock, sleep
        self._rested = self._round_end = self._end = 0.0
        self._steps = 0

    def begin_round(self) -> None:
        """Begin a round of ``SECONDS``."""
        self._rested = self._clock()
        self._round_end = self._rested + SHARE * SECONDS

    def round_is_over(self) -> bool:
        """Return whether the round's share of a core is used."""
        return self._clock() >= self._round_end

    def begin(self, seconds: float) -> None:
        """Begin a body that may take ``seconds``."""
        self._end = self._clock() + seconds
        self._steps = STEPS

    def step(self) -> None:
        """Count a step, and rest if it is due; raise ``TooCostlyError`` if time or steps are used."""
        self._steps -= 1
        if self.rest_if_due() >= self._end or self._steps < 0:
            raise TooCostlyError

    def rest_if_due(self) -> float:
        """Rest if a slice is used, so that the event loop can run; return the time of the clock."""
        now = self._clock()
        if now - self._rested >= SLICE_SECONDS:
            self._sleep(REST_SECONDS)
            self._rested = self._clock()
        return now


class Keys(NamedTuple):
    """Search for the keys of an object."""

    names: Mapping[bytes, str]  # by their spellings in JSON: non-ASCII as it is, and escaped
    pattern: re.Pattern[bytes]  # a key with its colon, at any depth
    longest: int  # bytes of the longest match


def keys_of(*wanted: str) -> Keys:
    """Return the search for keys of these names."""
    spellings = [(json.dumps(name, ensure_ascii=way), name) for name in wanted for way in (True, False)]
    names = {spelling[1:-1].encode(): name for spelling, name in spellings}
    pattern = re.compile(rb'"(%s)"[ \t\r\n]{0,%d}:' % (b"|".join(map(re.escape, sorted(names))), SPACES))
    return Keys(names, pattern, max(map(len, names)) + SPACES + len(b'"":'))


ANSWER_KEYS = keys_of("model", "metrics", "usage")


def request_keys(settings: Settings) -> Keys:
    """Return the search for the keys of a request."""
    fields = [path.partition(".")[0] for path in (settings.type_field, settings.user_field) if path]
    return keys_of("temperature", "n", *fields)


def read_request(exchange: Exchange, keys: Keys, settings: Settings, work: Work) -> dict[str, Any]:
    """Return the attributes that a request has, and release its body."""
    text = exchange.body.take()
    work.step()
    if b"\0" in text[:4] + text[-4:]:  # UTF-16 or UTF-32, in which no key is found
        raise UnicodeError
    found = top_level(text, keys, work, whole=exchange.body.whole)
    said: dict[str, Any] = {name: found[name] for name in ("temperature", "n") if is_number(found.get(name))}
    if "temperature" in said:
        said["temperature"] = min(said["temperature"], MOST_TEMPERATURE)
    fields = (
        ("request_type", exchange.type, settings.type_field),
        ("user", exchange.user, settings.user_field),
    )
    for name, header, path in fields:
        value = short(header.decode("utf-8", "replace")) or short(value_of(found, path))
        if value:
            said[name] = value
    return said


def value_of(found: object, path: str) -> object:
    """Return the value at a path such as ``metadata.type``; None if there is none."""
    if not path:
        return None
    for name in path.split("."):
        found = found.get(name) if isinstance(found, dict) else None
    return found


def short(text: object) -> str:
    """Return the beginning of a text, without characters that cannot be printed; empty if it is no text."""
    if not isinstance(text, str):
        return ""
    return "".join(filter(str.isprintable, text[: 4 * TEXT_CHARACTERS])).strip()[:TEXT_CHARACTERS]


def read_answer(exchange: Exchange, work: Work) -> dict[str, Any]:
    """Return the model, its metrics and usage. A stream has them in its last event."""
    text = exchange.answer.take()
    if exchange.stream:
        text = last_event(text, work)
    found = top_level(text, ANSWER_KEYS, work, whole=exchange.stream or exchange.answer.whole)
    model = found.get("model")
    if model is None and (place := MODEL.search(exchange.head)):
        model = value_at(exchange.head, place.end(), work)
    record: dict[str, Any] = {"model": short(model), "metrics": only_metrics(found.get("metrics"))}
    usage = found.get("usage")
    if isinstance(usage, dict) and is_number(usage.get("completion_tokens")):
        record["usage"] = {"completion_tokens": usage["completion_tokens"]}
    return record


def last_event(text: bytes, work: Work) -> bytes:
    """Return the JSON of a stream's last event; empty if there is none. ``[DONE]`` is not JSON."""
    at = len(text)
    while (at := text.rfind(b"data:", 0, at)) >= 0:
        work.step()
        event = EVENT.match(text, at) if at == 0 or text[at - 1] in b"\r\n" else None
        if event:
            return event.group(1)
    return b""


def only_metrics(metrics: object) -> dict[str, Any]:
    """Return the metrics that the exporter knows; empty if there are none."""
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
    """Return whether a value is a finite number of the range of floats."""
    most = sys.float_info.max
    return isinstance(value, (int, float)) and not isinstance(value, bool) and -most <= value <= most


def is_numeric(value: object) -> bool:
    """Return whether a value is a number or a list of numbers."""
    return is_number(value) or (isinstance(value, list) and all(map(is_number, value)))


def top_level(text: bytes, keys: Keys, work: Work, *, whole: bool) -> dict[str, Any]:
    """Return the last value of each key at the top level of a JSON object.

    A key is at the top level if one bracket is open, counted from the beginning of the text or from its end.
    The longest part without a key, in a request the prompt, is not counted. A text without its beginning
    (not ``whole``) is counted from its end alone.
    """
    found = find_keys(text, keys, work)
    if not found:
        return {}
    places = [0, *(key.start() for key in found), len(text)]
    gaps = [places[number + 1] - places[number] for number in range(len(found) + 1)]
    first = gaps.index(max(gaps)) if whole else 0  # this key and those after it are counted from the end
    last: dict[str, re.Match[bytes]] = {}
    depth, at = 0, len(text)
    for key in reversed(found[first:]):
        name = keys.names[key.group(1)]
        if name not in last:
            depth -= depth_change(text, key.start(), at, work)
            at = key.start()
            if depth == 1:
                last[name] = key
    known = set(last)
    depth = at = 0
    for key in found[:first]:
        name = keys.names[key.group(1)]
        if name not in known:
            depth += depth_change(text, at, key.start(), work)
            at = key.start()
            if depth == 1:
                last[name] = key
    return {name: value_at(text, key.end(), work) for name, key in last.items()}


def find_keys(text: bytes, keys: Keys, work: Work) -> list[re.Match[bytes]]:
    """Return the keys of a JSON text at any depth, in their order.

    Inside a JSON string, a quotation mark has a backslash before it. So a match without one is a key.
    """
    found = []
    matches = 0
    for begin in range(0, len(text), INTERVAL):
        work.step()
        end = begin + INTERVAL
        for key in keys.pattern.finditer(text, begin, end + keys.longest):
            if key.start() >= end:
                break
            matches += 1
            if matches > FOUND_KEYS:
                raise TooCostlyError
            if key.start() and text[key.start() - 1] != BACKSLASH:
                found.append(key)
    return found


def depth_change(text: bytes, begin: int, end: int, work: Work) -> int:
    """Return how many more brackets open than close between two places outside of strings."""
    change = within = 0
    while begin < end:
        work.step()
        stop = min(begin + INTERVAL, end)
        part = text[begin:stop]
        if BACKSLASH in part:
            part = part.replace(rb"\\", b"").replace(rb"\"", b"")
            if part.endswith(b"\\") and stop < end:
                stop -= 1  # the next part has the character that it escapes
        marks = part.translate(BRACKETS, NOT_STRUCTURE).split(b'"')
        outside = b"".join(marks[within::2])
        change += outside.count(b"{") - outside.count(b"}")
        within = (within + len(marks) - 1) % 2
        begin = stop
    return change


def value_at(text: bytes, place: int, work: Work) -> object:
    """Return the JSON value at a place; None if it is invalid or too long."""
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
        # Decode as json.loads does, without a character that the limit of bytes has cut.
        return DECODER.raw_decode(codecs.utf_8_decode(value, "surrogatepass")[0])[0]
    except (ValueError, RecursionError):
        return None
