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
import os
import re
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
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
OK = 200
TOO_MANY_REQUESTS = 429
PATHS = ("/v1/chat/completions", "/v1/completions")
API = "/api/v1/requests"

BODY_BYTES = 1 << 20
"""The most of a request that is kept until it has been read: the end of it."""
ANSWER_BYTES = 16 << 10
"""The most of an answer's end that is kept."""
PIECES = 1024
"""The most pieces in which either is kept."""
PIECE_BYTES = 64
"""What a piece takes beside its bytes."""
VALUE_BYTES = 8 << 10
"""The most that a value may take that is read."""
TEXT_CHARACTERS = 256
"""The most of a request type, a user or a model's name: what the exporter takes."""
MOST_TEMPERATURE = 100.0
"""The highest temperature that the exporter takes; above its buckets it makes no difference."""

EXCHANGES = 8192
"""The most requests and answers that wait to be read."""
EXCHANGE_BYTES = 32 << 20
"""The most that they may hold together."""
OWN_BYTES = 2 << 10
"""What each of them holds beside its pieces."""
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
"""How long the exporter may take for each step of an answer."""
LONGEST_PAUSE = 30.0
"""The longest time without an attempt while the exporter is not there."""
REPLY_BYTES = 16 << 10
"""The most that is read of what the exporter says."""
LINES = 20
"""The most lines in vLLM's log."""

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
                logger.warning("Requests' speculation: there is no setting %s", ", ".join(unknown))
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
    """The last bytes of what comes in pieces, at least ``limit`` of them: the pieces, few copies."""

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
        if len(self.pieces) > PIECES:
            self._join()

    def take(self) -> bytes:
        """Return the bytes, and forget them."""
        text = b"".join(self.pieces)
        self.pieces.clear()
        self.size = 0
        return text

    def _join(self) -> None:
        """Make one of the pieces: where they are small, they take more memory than their bytes."""
        whole = self.take()[-self.limit :]
        self.pieces.append(whole)
        self.size = len(whole)

    @property
    def held(self) -> int:
        """The memory that it takes, in bytes."""
        return self.size + PIECE_BYTES * len(self.pieces)


class Exchange:
    """A request and its answer, as far as they have passed."""

    __slots__ = ("_asked", "_open", "_reporter", "answer", "body", "head", "said", "stream", "type", "user")

    def __init__(self, reporter: Reporter, scope: Message) -> None:
        self._reporter = reporter
        self._asked = False
        """Whether the whole of the request has come, and will be read."""
        self._open = False
        """Whether an answer is passing that can be read."""
        self.stream = False
        self.head = b""
        self.body = Ending(BODY_BYTES)
        self.answer = Ending(ANSWER_BYTES)
        self.type, self.user = reporter.attributes(scope["headers"])
        self.said: dict[str, Any] | None = None
        """What the request says of itself; None until it has been read, and where that failed."""

    def received(self, message: Message) -> None:
        """Look at a message from the client. After the whole of the request there is but its leaving."""
        if not self._asked and message["type"] == "http.request":
            piece = message.get("body")
            if piece:
                self.body.add(piece)
            if not message.get("more_body", False):
                self._asked = self._reporter.asked(self)

    def sent(self, message: Message) -> None:
        """Look at a message that the client has been sent."""
        if message["type"] == "http.response.body":
            if self._open:
                piece = message.get("body")
                if piece:
                    self.answer.add(piece)
                    if not self.head:
                        self.head = bytes(piece[:1024])
                if not message.get("more_body", False):
                    self._open = False
                    self._reporter.answered(self)
        elif message["type"] == "http.response.start" and message["status"] == OK:
            headers = dict(message.get("headers", ()))
            self.stream = b"text/event-stream" in headers.get(b"content-type", b"")
            self._open = b"content-encoding" not in headers and self._asked


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
        self._lock = threading.Lock()
        self._exchanges: Waiting[tuple[Callable[[Exchange], None], Exchange]] = Waiting(
            EXCHANGES, EXCHANGE_BYTES
        )
        self._records: Waiting[bytes] = Waiting(RECORDS, RECORD_BYTES)
        self._thread: threading.Thread | None = None

    def attributes(self, headers: Iterable[tuple[bytes, bytes]]) -> tuple[bytes, bytes]:
        """Return the type and the user that the headers name; empty where they name none."""
        kind = user = b""
        for name, value in headers:
            if name == self._type_header:
                kind = value
            elif name == self._user_header:
                user = value
        return kind[: 4 * TEXT_CHARACTERS], user[: 4 * TEXT_CHARACTERS]

    def asked(self, exchange: Exchange) -> bool:
        """Have a request read that has come, so that it is not held for as long as it is answered."""
        room = self.put(self._read_request, exchange, exchange.body)
        if not room:
            exchange.body.take()
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

        Both end, however much comes meanwhile: the next round goes on.
        """
        end = time.monotonic() + SECONDS
        while self._exchanges:
            self._read_one()
            if time.monotonic() >= end:
                break
        for _ in range(BATCHES):
            if self._records and now >= self._not_before:
                self._send(now)

    def _read_one(self) -> None:
        for step, exchange in self._exchanges.take():
            try:
                step(exchange)
            except Exception as error:
                self.failed(error)

    def _read_request(self, exchange: Exchange) -> None:
        exchange.said = read_request(exchange, self._keys, self.settings)

    def _read_answer(self, exchange: Exchange) -> None:
        """Make the record, unless its request could not be read, which has been counted."""
        if exchange.said is None:
            return
        record = {**read_answer(exchange), **exchange.said, "stream": exchange.stream}
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
        """Send a batch. One that the exporter may have taken is not sent again: it would count twice."""
        dropped = self.dropped
        batch: list[bytes] = []
        try:
            headers = authorization(self.settings)
            if dropped:
                headers["X-Spec-Decode-Dropped"] = str(dropped)
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
            self._drop(-dropped)
        if taken:
            self._pause = 0.0
        else:
            self._wait(now)
            self.tell(f"the exporter at {self.settings.url} refuses some", "they are above its requests.rate")

    def _wait(self, now: float) -> None:
        """Send nothing for a while, each time for longer."""
        self._pause = min(LONGEST_PAUSE, 2 * self._pause or SECONDS)
        self._not_before = now + self._pause

    def _drop(self, number: int) -> None:
        with self._lock:
            self.dropped += number

    def failed(self, error: BaseException) -> None:
        """Count a failure of our own. Its words may be of a request, so that only its kind is told."""
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


def post(
    connection: http.client.HTTPConnection, path: str, headers: Mapping[str, str | bytes], body: bytes
) -> bool:
    """Send records, one a line; return whether none of them was above the exporter's rate.

    Raise an error where they are not taken.
    """
    own = {"Content-Type": "application/x-ndjson", "Connection": "close"}
    connection.request("POST", path, body, {**own, **headers})
    answer = connection.getresponse()
    if answer.status == TOO_MANY_REQUESTS:
        raise AboveRateError
    if answer.status != OK:
        raise NotSentError(f"status {answer.status}")
    return not above_rate(answer)


def above_rate(answer: http.client.HTTPResponse) -> bool:
    """Tell whether the exporter says that it refused some as above its rate. The batch has arrived anyway."""
    try:
        return bool(json.loads(answer.read1(REPLY_BYTES))["refused"]["rate"])
    except (OSError, http.client.HTTPException, ValueError, LookupError, TypeError, RecursionError):
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
        found = Path(path).read_bytes().strip()
    except OSError as error:
        raise NotSentError(f"{path}: {reason(error)}") from None
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
STRUCTURE = re.compile(rb'["\[\]{}]')
ESCAPED = re.compile(rb'[^"\\]*(?:\\.[^"\\]*){0,255}', re.DOTALL)
"""What a text goes on with, up to its end or so many characters that are escaped."""
COLON = re.compile(rb"\s*:\s*")
QUOTE = 0x22
BACKSLASH = 0x5C
DECODER = json.JSONDecoder()
STRETCH = 1 << 15
"""How many bytes are searched at once: nobody else in this process can run meanwhile."""
WORK_SECONDS = 250e-6
"""How long the thread works until it lets others go on."""


class Pace:
    """Rests now and then, so that whoever else wants to run in this process need not wait."""

    __slots__ = ("_since",)

    def __init__(self) -> None:
        self._since = time.perf_counter()

    def step(self) -> None:
        """Rest if it is time to."""
        if time.perf_counter() - self._since > WORK_SECONDS:
            time.sleep(1e-6)
            self._since = time.perf_counter()


class Keys(NamedTuple):
    """Keys of an object that are looked for."""

    names: frozenset[bytes]
    longest: int
    quoted: re.Pattern[bytes]
    """Finds a text that reads like one of them."""


def keys_of(*names: str) -> Keys:
    """Return what finds keys of these names."""
    known = frozenset(name.encode() for name in names)
    any_of_them = b"|".join(map(re.escape, sorted(known)))
    return Keys(known, max(map(len, known)), re.compile(rb'"(?:' + any_of_them + rb')"'))


ANSWER_KEYS = keys_of("model", "metrics", "usage")


def read_answer(exchange: Exchange) -> dict[str, Any]:
    """Return the model, its metrics and usage. A stream's last event has them all."""
    text = exchange.answer.take()
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


def read_request(exchange: Exchange, keys: Keys, settings: Settings) -> dict[str, Any]:
    """Return what the request says of itself, without what it leaves to the server; forget the rest."""
    found = top_level(exchange.body.take(), keys)
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
    """Return what is at a path such as ``metadata.type``; None where there is nothing."""
    for name in path.split("."):
        found = found.get(name) if isinstance(found, dict) else None
    return found


def of_header(value: bytes) -> str:
    """Return what a header says, in UTF-8 as most who write more than ASCII do."""
    return short(value.decode("utf-8", "replace"))


def short(text: object) -> str:
    """Return a text, or its beginning, without what cannot be printed; empty where it is none."""
    return "".join(filter(str.isprintable, text)).strip()[:TEXT_CHARACTERS] if isinstance(text, str) else ""


def top_level(text: bytes, keys: Keys) -> dict[str, Any]:
    """Return the values that these keys have in an object of JSON, of which the beginning may be missing.

    How deep a key is shows at the end, where the object's bracket closes.
    """
    pace = Pace()
    first = first_key(text, keys, pace)
    if first < 0:
        return {}
    depth = 0
    found = []
    for place, mark in marks(text, first, pace):
        if mark == OPENED:
            depth += 1
        elif mark == CLOSED:
            depth -= 1
        elif mark - place <= keys.longest + 1 and text[place + 1 : mark] in keys.names:
            value = after_colon(text, mark + 1)
            if value >= 0:
                found.append((depth, text[place + 1 : mark], value))
    return {name.decode(): value_at(text, place) for deep, name, place in found if deep - depth == 1}


def first_key(text: bytes, keys: Keys, pace: Pace) -> int:
    """Return where the first of the keys is, at any depth; below 0 where there is none.

    In JSON a quotation mark within a text has a backslash before it. So what looks like a key and its colon
    is one, wherever the text begins.
    """
    at = 0
    while at < len(text):
        pace.step()
        found = keys.quoted.search(text, at, at + STRETCH + keys.longest + 1)
        if found is None:
            at += STRETCH
            continue
        at = found.start() + 1
        if (at == 1 or text[at - 2] != BACKSLASH) and after_colon(text, found.end()) >= 0:
            return found.start()
    return -1


def after_colon(text: bytes, place: int) -> int:
    """Return where the value begins of a key that ends there; below 0 where there is no colon."""
    colon = COLON.match(text, place, place + STRETCH)
    return colon.end() if colon else -1


OPENED, CLOSED = -1, -2


def marks(text: bytes, at: int, pace: Pace) -> Iterator[tuple[int, int]]:
    """Go through JSON: places of brackets with OPENED or CLOSED, and of texts with the place of their end."""
    while at < len(text):
        pace.step()
        token = STRUCTURE.search(text, at, at + STRETCH)
        if token is None:
            at += STRETCH
            continue
        begin, at = token.span()
        if text[begin] == QUOTE:
            at = end_of_text(text, at, pace)
            yield begin, at
            at += 1
        else:
            yield begin, OPENED if token.group() in b"[{" else CLOSED


def end_of_text(text: bytes, at: int, pace: Pace) -> int:
    """Return where the quotation mark is that ends a text; the end of all where there is none."""
    while True:
        quote = text.find(b'"', at)
        if quote < 0:
            return len(text)
        if quote == at or text[quote - 1] != BACKSLASH:
            return quote
        passed = ESCAPED.match(text, at, at + STRETCH + 1)
        at = passed.end() if passed else quote
        pace.step()


def value_at(text: bytes, place: int) -> object:
    """Return the value that begins there; None where it is too long or none."""
    try:
        return DECODER.raw_decode(text[place : place + VALUE_BYTES].decode("utf-8", "replace"))[0]
    except ValueError:
        return None
