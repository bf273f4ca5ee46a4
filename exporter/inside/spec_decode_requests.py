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
import codecs
import http.client
import io
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
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar, cast
from urllib.parse import urlsplit

if TYPE_CHECKING:
    import ssl

Message = Mapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Message, Receive, Send], Awaitable[None]]

PREFIX = "SPEC_DECODE_REQUESTS_"
OK = 200
TOO_MANY_REQUESTS = 429
PATHS = ("/v1/chat/completions", "/v1/completions")
API = "/api/v1/requests"

BODY_BYTES = 1 << 20
"""The most of a request that is kept until it has been read: the end of it."""
BODY_MESSAGES = 3072
"""Messages of a request body that are read. A request in more messages is not reported."""
HEADERS = 256
"""Headers of a request that are read. A request with more headers is not reported."""
ANSWER_BYTES = 16 << 10
"""The most of an answer's end that is kept."""
PIECES = 1024
"""The most pieces in which either is kept."""
PIECE_BYTES = 64
"""What a piece takes beside its bytes."""
VALUE_BYTES = 8 << 10
"""Bytes of a string, an object or an array that is read as a value."""
NUMBER_BYTES = 512
"""Bytes of a number that is read as a value."""
FOUND_KEYS = 512
"""Occurrences of keys in a body or an answer, at any depth. A request with more is not reported."""

REQUEST_SECONDS = 2.8e-3
"""Processor time of the thread for one request body; then the request counts as too costly."""
ANSWER_SECONDS = 0.8e-3
"""Processor time of the thread for one answer; then the request counts as too costly."""
STEPS = 4096
"""Steps of reading one body or answer, for systems whose clock of processor time is coarse."""
SHARE = 0.05
"""Share of one core that the thread reads with, over ``SECONDS``. What does not fit waits in the queue."""
SLICE_SECONDS = 250e-6
"""Processor time after which the thread rests: the event loop cannot run while the thread works."""
REST_SECONDS = 1e-3
"""Length of each rest. The thread works for a fifth of the time at most."""
TEXT_CHARACTERS = 256
"""The most of a request type, a user or a model's name: what the exporter takes."""
MOST_TEMPERATURE = 100.0
"""The highest temperature that the exporter takes; above its buckets it makes no difference."""

EXCHANGES = 8192
"""The most requests and answers that wait to be read."""
EXCHANGE_BYTES = 32 << 20
"""The most that they may hold together."""
OWN_BYTES = 4 << 10
"""What each of them holds beside its pieces: 1 KiB of the answer's beginning, of the type and of the user."""
RECORDS = 8192
"""The most records that wait to be sent."""
RECORD_BYTES = 8 << 20
"""The most that they may take together."""
BATCH = 500
"""The most records that are sent at once."""
BATCH_BYTES = 512 << 10
"""The most that they may take, one alone excepted: the exporter takes bodies of up to 1 MiB."""
BATCHES = 2
"""The most batches of a round: what was kept goes out at a rate that the exporter takes (2000 by default)."""
SECONDS = 1.0
"""How often what has come is sent, and for how long it is read before."""
TIMEOUT = 2.0
"""Seconds for each step of sending, and for the exporter's whole reply."""
LONGEST_PAUSE = 30.0
"""The longest time without an attempt while the exporter is not there."""
REPLY_BYTES = 16 << 10
"""Bytes of the exporter's reply that are read, its headers included."""
REPLY_PIECES = 64
"""Pieces in which the exporter's reply may arrive."""
SETTING_CHARACTERS = 4096
"""Characters of an environment variable of ours."""
NAME_CHARACTERS = 256
"""Characters of the name of a header or field, and of a name in the log."""
SECRET_BYTES = 8 << 10
"""Bytes of a file with a password or token."""
NAMES = 5
"""Unknown variables that are named in the log."""
LINES = 20
"""The most lines in vLLM's log."""

DROPPED_HEADER = "X-Spec-Decode-Dropped"
"""Requests that are not reported since the last batch that arrived."""
TOO_COSTLY_HEADER = "X-Spec-Decode-Too-Costly"
"""Those of them that were too costly to read."""

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
    for key, name in names.items():
        most = NAME_CHARACTERS if name.endswith(("_header", "_field")) else SETTING_CHARACTERS
        value = getattr(settings, name)
        if len(value) > most or not value.isprintable():
            raise ValueError(f"{key}: give at most {most} printable characters")
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
    """Read a URL, or ``unix:/path``; raise ``ValueError`` for what is neither, and repeat nothing of it."""
    if url.startswith("unix:/"):
        return Address("unix", url[len("unix:") :], None, API)
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise ValueError(f"{PREFIX}URL: {URL_FORM}") from None
    plain = parts.username is None and not parts.query and not parts.fragment
    if parts.scheme not in ("http", "https") or not parts.hostname or not plain:
        raise ValueError(f"{PREFIX}URL: {URL_FORM}")
    return Address(parts.scheme, parts.hostname, port, parts.path if parts.path.strip("/") else API)


URL_FORM = f"give http://host:port{API}, https://… or unix:/path, without a name, a password or a query in it"


class Middleware:
    """The ASGI application around vLLM's."""

    def __init__(self, app: Application) -> None:
        self._app = app
        self._reporter: Reporter | None = None
        try:
            unknown = unknown_settings(os.environ)
            if unknown:
                named = ", ".join(short(name) for name in unknown[:NAMES])
                more = f" and {len(unknown) - NAMES} more" if len(unknown) > NAMES else ""
                logger.warning("Requests' speculation: there is no setting %s%s", named, more)
            self._reporter = Reporter(read_settings(os.environ))
            logger.info("Requests' speculation goes to %s", self._reporter.settings.url)
        except Exception as error:  # vLLM must start, whatever is wrong with us
            why = error if type(error) is ValueError else type(error).__name__
            logger.warning("Requests' speculation is not reported: %s", why)

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

        async def look_at_received() -> Message:
            message = await receive()
            try:
                exchange.received(message)
            except Exception as error:
                exchange.receiving = exchange.sending = False
                exchange.body.clear()
                reporter.failed(error)
            return message

        async def look_at_sent(message: Message) -> None:
            await send(message)
            try:
                exchange.sent(message)
            except Exception as error:
                exchange.sending = False
                reporter.failed(error)

        def receive_and_look() -> Awaitable[Message]:
            return look_at_received() if exchange.receiving else receive()

        def send_and_look(message: Message) -> Awaitable[None]:
            return look_at_sent(message) if exchange.sending else send(message)

        await self._app(scope, receive_and_look, send_and_look)


class TooCostlyError(Exception):
    """To read a request would take more of vLLM's time than a request may take."""


class Ending:
    """The last bytes of what comes in pieces, at least ``limit`` of them: the pieces, few copies."""

    __slots__ = ("limit", "pieces", "size", "whole")

    def __init__(self, limit: int) -> None:
        self.pieces: deque[bytes] = deque()
        self.size = 0
        self.limit = limit
        self.whole = True
        """Whether the beginning is still there."""

    def add(self, piece: bytes) -> None:
        """Add a piece, and forget those that are no longer among the last bytes."""
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
        if len(self.pieces) > PIECES:
            self._join()

    def take(self) -> bytes:
        """Return the bytes, and forget them."""
        text = b"".join(self.pieces)
        self.clear()
        return text

    def clear(self) -> None:
        """Forget the bytes."""
        self.pieces.clear()
        self.size = 0

    def _join(self) -> None:
        """Make one of the pieces: where they are small, they take more memory than their bytes."""
        text = self.take()
        self.whole = self.whole and len(text) <= self.limit
        text = text[-self.limit :]
        self.pieces.append(text)
        self.size = len(text)

    @property
    def held(self) -> int:
        """The memory that it takes, in bytes."""
        return self.size + PIECE_BYTES * len(self.pieces)


class Exchange:
    """A request and its answer, as far as they have passed."""

    __slots__ = (
        "_asked",
        "_messages",
        "_reporter",
        "answer",
        "body",
        "head",
        "receiving",
        "said",
        "sending",
        "stream",
        "type",
        "user",
    )

    def __init__(self, reporter: Reporter, scope: Message) -> None:
        self._reporter = reporter
        self._asked = False
        """Whether the whole of the request has come, and will be read."""
        self._messages = 0
        self.receiving = self.sending = True
        """Whether further messages from the client, and to it, are read."""
        self.stream = False
        self.head = b""
        self.body = Ending(BODY_BYTES)
        self.answer = Ending(ANSWER_BYTES)
        self.type, self.user = reporter.attributes(scope["headers"])
        self.said: dict[str, Any] | None = None
        """What the request says of itself; None until it has been read, and where that failed."""

    def received(self, message: Message) -> None:
        """Look at a message from the client. After the whole of the request there is but its leaving.

        Raises:
            TooCostlyError: the body comes in more than ``BODY_MESSAGES`` messages.
        """
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
            self._asked = self._reporter.asked(self)

    def sent(self, message: Message) -> None:
        """Look at a message that the client has been sent."""
        if message["type"] == "http.response.body":
            piece = message.get("body")
            if piece:
                self.answer.add(piece)
                if not self.head:
                    self.head = bytes(piece[:1024])
            if not message.get("more_body", False):
                self.sending = False
                self._reporter.answered(self)
        elif message["type"] == "http.response.start":
            headers = dict(message.get("headers", ()))
            self.stream = b"text/event-stream" in headers.get(b"content-type", b"")
            self.sending = self._asked and message["status"] == OK and b"content-encoding" not in headers
            if not self.sending:
                self.body.clear()


Thing = TypeVar("Thing")


class Waiting(Generic[Thing]):
    """A queue with an end: so many things at most, and so many bytes together."""

    def __init__(self, most: int, most_bytes: int) -> None:
        self.size = 0
        self._most, self._most_bytes = most, most_bytes
        self._things: deque[tuple[Thing, int]] = deque()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._things)

    def put(self, thing: Thing, size: int) -> bool:
        """Take a thing of so many bytes, unless there is no room; return whether there was."""
        with self._lock:
            room = len(self._things) < self._most and self.size + size <= self._most_bytes
            if room:
                self._things.append((thing, size))
                self.size += size
        return room

    def take(self, most: int = 1, most_bytes: int = 0) -> list[Thing]:
        """Return the oldest one, and those after it that are no more together than this."""
        taken: list[Thing] = []
        left = most_bytes
        with self._lock:
            while self._things and len(taken) < most and (not taken or self._things[0][1] <= left):
                thing, size = self._things.popleft()
                taken.append(thing)
                self.size -= size
                left -= size
        return taken

    def put_back(self, things: Iterable[tuple[Thing, int]]) -> None:
        """Take back, as the oldest, what has been taken, each with its bytes."""
        back = list(things)
        with self._lock:
            self._things.extendleft(reversed(back))
            self.size += sum(size for _, size in back)


class Reporter:
    """Turns exchanges into records and sends them, in a thread of its own."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._keys = request_keys(settings)
        self._type_header = settings.type_header.lower().encode()
        self._user_header = settings.user_header.lower().encode()
        self._authorities = Authorities(settings.ca_file)
        self._told: set[tuple[str, str]] = set()
        self._pause = 0.0
        self._not_before = 0.0
        self._begin()
        os.register_at_fork(after_in_child=self._begin)

    def _begin(self) -> None:
        """Begin with nothing. After a fork what waits is the parent's, and so is who held a lock."""
        self.dropped = 0
        """Requests that are not reported since the last batch: too many, or sent in vain."""
        self.too_costly = 0
        """Requests that are not reported since the last batch: to read them would take too long."""
        self._work = Work(time.thread_time, time.sleep)
        self._lock = threading.Lock()
        self._exchanges: Waiting[tuple[Callable[[Exchange], None], Exchange]] = Waiting(
            EXCHANGES, EXCHANGE_BYTES
        )
        self._records: Waiting[bytes] = Waiting(RECORDS, RECORD_BYTES)
        self._thread: threading.Thread | None = None

    def attributes(self, headers: Iterable[tuple[bytes, bytes]]) -> tuple[bytes, bytes]:
        """Return the type and the user that the headers name; empty where they name none.

        Raises:
            TooCostlyError: there are more than ``HEADERS`` headers.
        """
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
        """Have a request read that has come, so that it is not held for as long as it is answered."""
        room = self.put(self._read_request, exchange, exchange.body)
        if not room:
            exchange.body.clear()
        return room

    def answered(self, exchange: Exchange) -> None:
        """Have the answer read of a request that is over."""
        self.put(self._read_answer, exchange, exchange.answer)

    def put(self, step: Callable[[Exchange], None], exchange: Exchange, part: Ending) -> bool:
        """Have the thread do something with a part of an exchange; drop that where too many wait."""
        if self._thread is None or not self._thread.is_alive():
            self._start()
        room = self._exchanges.put((step, exchange), part.held + OWN_BYTES)
        if not room:
            self._drop(1)
        return room

    def _start(self) -> None:
        """Start the thread: not earlier than there is work, for a fork takes no threads along."""
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
        """Read what has come, and send it unless the exporter has just failed to take some.

        Both end, however much comes meanwhile: the next round goes on. Reading takes ``SHARE`` of a core.
        """
        end = time.monotonic() + SECONDS
        self._work.begin_round()
        while self._exchanges:
            self._read_one()
            if time.monotonic() >= end or self._work.round_is_over():
                break
        for _ in range(BATCHES):
            if (self._records or self.dropped or self.too_costly) and now >= self._not_before:
                self._send(now)

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
        """Make the record, unless its request could not be read, which has been counted."""
        if exchange.said is None:
            return
        self._work.begin(ANSWER_SECONDS)
        record = {**read_answer(exchange, self._work), **exchange.said, "stream": exchange.stream}
        if self.settings.target:
            record["target"] = self.settings.target
        if record["model"]:  # vLLM answers "null" to a client that has left
            self._keep(json.dumps(record).encode())

    def _keep(self, record: bytes) -> None:
        """Keep a record until it is sent; the oldest goes where too many wait."""
        while not self._records.put(record, len(record)):
            self._records.take()
            self._drop(1)

    def _send(self, now: float) -> None:
        """Send a batch, or the numbers of dropped requests alone if no record waits.

        A batch that the exporter may have taken is not sent again: its requests would count twice.
        """
        dropped, too_costly = self.dropped, self.too_costly
        batch: list[bytes] = []
        try:
            headers = authorization(self.settings)
            headers.update(drop_headers(dropped, too_costly))
            connection = connect(self.settings, self._authorities)
            try:
                batch = self._records.take(BATCH, BATCH_BYTES)
                taken = post(connection, read_address(self.settings.url).path, headers, b"\n".join(batch))
            finally:
                connection.close()
        except AboveRateError:
            self._records.put_back((record, len(record)) for record in batch)
            taken = False
        except Exception as error:
            self._drop(len(batch))
            self._wait(now)
            self.tell(f"the exporter at {self.settings.url} does not take it", reason(error))
            return
        else:
            self._drop(-dropped, -too_costly)
        if taken:
            self._pause = 0.0
        else:
            self._wait(now)
            self.tell(f"the exporter at {self.settings.url} refuses some", "they are above its requests.rate")

    def _wait(self, now: float) -> None:
        """Send nothing for a while, each time for longer."""
        self._pause = min(LONGEST_PAUSE, 2 * self._pause or SECONDS)
        self._not_before = now + self._pause

    def _drop(self, number: int, too_costly: int = 0) -> None:
        with self._lock:
            self.dropped += number
            self.too_costly += too_costly

    def failed(self, error: BaseException) -> None:
        """Count a request that could not be read. An error may quote a request: log its kind alone."""
        if isinstance(error, TooCostlyError):
            self._drop(0, 1)
            self.tell("one was too costly to read", "its body, headers or answer exceed a limit")
        else:
            self._drop(1)
            self.tell("one was not understood", type(error).__name__)

    def tell(self, what: str, why: str) -> None:
        """Log each kind of failure once."""
        if (what, why) not in self._told and len(self._told) < LINES:
            self._told.add((what, why))
            logger.warning("Requests' speculation is not reported, %s: %s. This is told once", what, why)


class NotSentError(Exception):
    """A batch has not been sent, or not been taken; the words are ours."""


class AboveRateError(Exception):
    """The exporter, or what stands before it, has taken and counted nothing of a batch: it may come again."""


def reason(error: Exception) -> str:
    """Say why something was not sent in words of ours or the system's: others repeat what was to be sent."""
    if isinstance(error, NotSentError):
        return str(error)
    return (isinstance(error, OSError) and error.strerror) or type(error).__name__


class Authorities:
    """Whom to trust with https: read once, and again when the file is another."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._seen: object = None
        self._context: ssl.SSLContext | None = None

    def context(self) -> ssl.SSLContext:
        """Return the context; it takes tens of milliseconds to make one."""
        seen = signature(self._path)
        if self._context is None or seen != self._seen:
            import ssl

            self._context = ssl.create_default_context(cafile=self._path or None)
            self._seen = seen
        return self._context


def signature(path: str) -> object:
    """Return what is another when the file is."""
    if not path:
        return None
    try:
        status = Path(path).stat()
    except OSError as error:
        raise NotSentError(f"{path}: {reason(error)}") from None
    return status.st_ino, status.st_mtime_ns, status.st_size


def connect(settings: Settings, authorities: Authorities) -> http.client.HTTPConnection:
    """Return an open connection to the exporter."""
    connection = connection_to(read_address(settings.url), authorities)
    try:
        connection.connect()
    except BaseException:
        connection.close()
        raise
    return connection


def connection_to(address: Address, authorities: Authorities) -> http.client.HTTPConnection:
    """Return a connection that is not open yet."""
    if address.scheme == "unix":
        return UnixConnection(address.place)
    if address.scheme == "https":
        context = authorities.context()
        return http.client.HTTPSConnection(address.place, address.port, timeout=TIMEOUT, context=context)
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


def drop_headers(dropped: int, too_costly: int) -> dict[str, str | bytes]:
    """Return headers with the number of requests that are not reported, and of those too costly to read."""
    numbers = {DROPPED_HEADER: dropped + too_costly, TOO_COSTLY_HEADER: too_costly}
    return {name: str(number) for name, number in numbers.items() if number}


def post(
    connection: http.client.HTTPConnection, path: str, headers: Mapping[str, str | bytes], body: bytes
) -> bool:
    """Send records, one a line; return whether none of them was above the exporter's rate.

    Raise an error where they are not taken.
    """
    own = {"Content-Type": "application/x-ndjson", "Connection": "close"}
    connection.request("POST", path, body, {**own, **headers})
    answer = read_reply(receive_reply(connection.sock))
    if answer.status == TOO_MANY_REQUESTS:
        raise AboveRateError
    if answer.status != OK:
        raise NotSentError(f"status {answer.status}")
    return not above_rate(answer)


def read_reply(received: bytes) -> http.client.HTTPResponse:
    """Return a reply whose headers have been read."""
    reply = http.client.HTTPResponse(cast("socket.socket", Received(received)), method="POST")
    reply.begin()
    return reply


class Received:
    """The bytes of a reply in a socket's place: ``http.client`` alone would read headers without end."""

    def __init__(self, received: bytes) -> None:
        self._received = received

    def makefile(self, _mode: str) -> io.BytesIO:
        """Return the bytes as a file."""
        return io.BytesIO(self._received)


LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*([0-9]{1,9})[ \t]*\r\n", re.IGNORECASE)


def receive_reply(sock: socket.socket) -> bytes:
    """Return the exporter's reply: ``REPLY_BYTES`` of it, in ``REPLY_PIECES``, within ``TIMEOUT`` in all.

    Raises:
        NotSentError: no complete headers arrived within these limits.
    """
    end = time.monotonic() + TIMEOUT
    received = b""
    for _ in range(REPLY_PIECES):
        left = end - time.monotonic()
        if left <= 0 or len(received) >= REPLY_BYTES or is_whole(received):
            break
        sock.settimeout(left)
        try:
            piece = sock.recv(REPLY_BYTES - len(received))
        except socket.timeout:  # noqa: UP041 - Python 3.9 has no other name for it
            break
        if not piece:
            return received
        received += piece
    if b"\r\n\r\n" not in received:
        raise NotSentError("no reply within the limits of time and size")
    return received


def is_whole(reply: bytes) -> bool:
    """Return whether a reply has arrived as far as its Content-Length."""
    head, end, body = reply.partition(b"\r\n\r\n")
    length = LENGTH.search(head + end)
    return length is not None and len(body) >= int(length.group(1))


def above_rate(answer: http.client.HTTPResponse) -> bool:
    """Tell whether the exporter says that it refused some as above its rate. The batch has arrived anyway."""
    try:
        return bool(json.loads(answer.read1(REPLY_BYTES))["refused"]["rate"])
    except (OSError, http.client.HTTPException, ValueError, LookupError, TypeError, RecursionError, OverflowError):
        return False


def authorization(settings: Settings) -> dict[str, str | bytes]:
    """Return the header that says who we are. Its file is read each time: secrets change."""
    if settings.basic_auth_file:
        return {"Authorization": b"Basic " + base64.b64encode(secret(settings.basic_auth_file))}
    if settings.bearer_token_file:
        return {"Authorization": b"Bearer " + secret(settings.bearer_token_file)}
    return {}


CONTROL = re.compile(rb"[\x00-\x1f\x7f]")


def secret(path: str) -> bytes:
    """Return what stands in a file, without the end of its line."""
    try:
        with Path(path).open("rb") as file:
            found = file.read(SECRET_BYTES + 1)
    except OSError as error:
        raise NotSentError(f"{path}: {reason(error)}") from None
    if len(found) > SECRET_BYTES:
        raise NotSentError(f"{path} has more than {SECRET_BYTES} bytes")
    found = found.strip()
    if CONTROL.search(found):
        raise NotSentError(f"{path} has more than one line, or what no header can have")
    return found


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
EVENT = re.compile(rb"data:[ \t]*(\{[^\r\n]*)")
NUMBER = re.compile(rb"[-+.0-9A-Za-z]*")
"""A number, or one of JSON's words."""
BRACKETS = bytes.maketrans(b"[]", b"{}")
NOT_STRUCTURE = bytes(set(range(256)) - set(b'"[]{}'))
SPACES = 64
"""White space between a key and its colon, and between the colon and its value."""
BACKSLASH = 0x5C
DECODER = json.JSONDecoder()
STRETCH = 1 << 14
"""How many bytes are searched at once: nobody else in this process can run meanwhile."""


class Work:
    """Processor time and steps of the thread: when it rests, and when a request or a round has had its share.

    ``clock`` is the processor time of the calling thread: time in which others run is not counted.
    """

    __slots__ = ("_clock", "_end", "_rested", "_round_end", "_sleep", "_steps")

    def __init__(self, clock: Callable[[], float], sleep: Callable[[float], None]) -> None:
        self._clock, self._sleep = clock, sleep
        self._rested = self._round_end = self._end = 0.0
        self._steps = 0

    def begin_round(self) -> None:
        """Give the thread its share of a core for the next ``SECONDS``."""
        self._rested = self._clock()
        self._round_end = self._rested + SHARE * SECONDS

    def round_is_over(self) -> bool:
        """Return whether the thread has had its share."""
        return self._clock() >= self._round_end

    def begin(self, seconds: float) -> None:
        """Begin to read a body or an answer, for so many seconds at most."""
        self._end = self._clock() + seconds
        self._steps = STEPS

    def step(self) -> None:
        """Account for a step, and rest if it is time to.

        Raises:
            TooCostlyError: the body or the answer has had its time or steps.
        """
        self._steps -= 1
        if self.rest_if_due() >= self._end or self._steps < 0:
            raise TooCostlyError

    def rest_if_due(self) -> float:
        """Rest if the thread has worked for a while; return the time of its clock."""
        now = self._clock()
        if now - self._rested >= SLICE_SECONDS:
            self._sleep(REST_SECONDS)
            self._rested = self._clock()
        return now


class Keys(NamedTuple):
    """Keys of an object that are looked for."""

    names: Mapping[bytes, str]
    """Their names, by the bytes that JSON has for them: with and without escapes for what is not ASCII."""
    pattern: re.Pattern[bytes]
    """Finds a key with its colon, at any depth."""
    longest: int
    """Bytes of the longest match."""


def keys_of(*wanted: str) -> Keys:
    """Return what finds keys of these names."""
    names = {json.dumps(name, ensure_ascii=way)[1:-1].encode(): name for name in wanted for way in (True, False)}
    pattern = re.compile(rb'"(%s)"[ \t\r\n]{0,%d}:' % (b"|".join(map(re.escape, sorted(names))), SPACES))
    return Keys(names, pattern, max(map(len, names)) + SPACES + len(b'"":'))


ANSWER_KEYS = keys_of("model", "metrics", "usage")


def read_answer(exchange: Exchange, work: Work) -> dict[str, Any]:
    """Return the model, its metrics and usage. A stream's last event has them all."""
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
    """Tell whether it is a number, and neither NaN, nor infinite, nor too large."""
    most = sys.float_info.max
    return isinstance(value, (int, float)) and not isinstance(value, bool) and -most <= value <= most


def is_numeric(value: object) -> bool:
    """Tell whether it is a number, or a list of numbers."""
    return is_number(value) or (isinstance(value, list) and all(map(is_number, value)))


def request_keys(settings: Settings) -> Keys:
    """Return the keys of a request at which is looked."""
    fields = [path.partition(".")[0] for path in (settings.type_field, settings.user_field) if path]
    return keys_of("temperature", "n", *fields)


def read_request(exchange: Exchange, keys: Keys, settings: Settings, work: Work) -> dict[str, Any]:
    """Return what the request says of itself, without what it leaves to the server; forget the rest.

    Raises:
        TooCostlyError: the limit of time or steps is reached.
        UnicodeError: the body is UTF-16 or UTF-32, in which no key is found.
    """
    text = exchange.body.take()
    work.step()
    if b"\0" in text[:4] + text[-4:]:
        raise UnicodeError
    found = top_level(text, keys, work, whole=exchange.body.whole)
    said: dict[str, Any] = {name: found[name] for name in ("temperature", "n") if is_number(found.get(name))}
    if "temperature" in said:
        said["temperature"] = min(said["temperature"], MOST_TEMPERATURE)
    named = {
        "request_type": of_header(exchange.type) or short(inner(found, settings.type_field)),
        "user": of_header(exchange.user) or short(inner(found, settings.user_field)),
    }
    said.update((name, value) for name, value in named.items() if value)
    return said


def inner(found: object, path: str) -> object:
    """Return the value at a path such as ``metadata.type``; None if there is none."""
    if not path:
        return None
    for name in path.split("."):
        found = found.get(name) if isinstance(found, dict) else None
    return found


def of_header(value: bytes) -> str:
    """Return what a header says, in UTF-8 as most who write more than ASCII do."""
    return short(value.decode("utf-8", "replace"))


def short(text: object) -> str:
    """Return the beginning of a text without characters that cannot be printed; empty if it is no text."""
    if not isinstance(text, str):
        return ""
    return "".join(filter(str.isprintable, text[: 4 * TEXT_CHARACTERS])).strip()[:TEXT_CHARACTERS]


def top_level(text: bytes, keys: Keys, work: Work, *, whole: bool) -> dict[str, Any]:
    """Return the value that each of these keys has last in an object of JSON.

    The depth of a key is counted from the beginning of the text, or from its end. So the longest stretch
    without such a key is not read: in a request that is the prompt. Without its beginning (``whole``), the
    text is read from its first key to the end.

    Raises:
        TooCostlyError: the limit of time, of steps or of keys is reached.
    """
    found = find_keys(text, keys, work)
    if not found:
        return {}
    places = [0, *(key.start() for key in found), len(text)]
    gaps = [end - begin for begin, end in zip(places, places[1:])]
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
    from_end = set(last)
    depth = at = 0
    for key in found[:first]:
        name = keys.names[key.group(1)]
        if name not in from_end:
            depth += depth_change(text, at, key.start(), work)
            at = key.start()
            if depth == 1:
                last[name] = key
    return {name: value_at(text, key.end(), work) for name, key in last.items()}


def find_keys(text: bytes, keys: Keys, work: Work) -> list[re.Match[bytes]]:
    """Return the keys that a text has at any depth, in their order.

    In JSON a quotation mark within a text has a backslash before it. So what looks like a key and its colon
    is one, wherever the text begins.

    Raises:
        TooCostlyError: there are more than ``FOUND_KEYS``, or the limit of time or steps is reached.
    """
    found = []
    for begin in range(0, len(text), STRETCH):
        work.step()
        end = begin + STRETCH
        for key in keys.pattern.finditer(text, begin, end + keys.longest):
            if 0 < key.start() < end and text[key.start() - 1] != BACKSLASH:
                found.append(key)
                if len(found) > FOUND_KEYS:
                    raise TooCostlyError
    return found


def depth_change(text: bytes, begin: int, end: int, work: Work) -> int:
    """Return by how much the depth of brackets changes between two places that are outside of strings."""
    change = within = 0
    while begin < end:
        work.step()
        stop = min(begin + STRETCH, end)
        part = text[begin:stop]
        if BACKSLASH in part:
            part = part.replace(rb"\\", b"").replace(rb"\"", b"")
            if part.endswith(b"\\") and stop < end:
                stop -= 1  # what it escapes is in the next part
        marks = part.translate(BRACKETS, NOT_STRUCTURE).split(b'"')
        outside = b"".join(marks[within::2])
        change += outside.count(b"{") - outside.count(b"}")
        within = (within + len(marks) - 1) % 2
        begin = stop
    return change


def value_at(text: bytes, place: int, work: Work) -> object:
    """Return the value that begins there; None where it is too long or none."""
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
        # As json.loads; a character that the limit of bytes cuts is left out.
        return DECODER.raw_decode(codecs.utf_8_decode(value, "surrogatepass")[0])[0]
    except (ValueError, RecursionError):
        return None
