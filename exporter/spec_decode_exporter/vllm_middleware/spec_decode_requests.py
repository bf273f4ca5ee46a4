"""Report the speculative decoding of each of vLLM's requests to spec-decode-exporter.

It needs Python 3.10 or later and msgspec, as vLLM does. Put the folder of this file on PYTHONPATH::

    vllm serve … --middleware spec_decode_requests.Middleware --enable-force-include-usage
        --enable-per-request-metrics --per-request-spec-decode-metrics summary

The middleware passes on every message unchanged, then keeps a bounded part of it. A thread sends the metrics
of each response to the exporter, with the request's temperature, ``n``, type and user. vLLM never waits:
requests beyond a limit are dropped and counted. Prompts and completions are never sent or logged.
docs/guide/requests-inside.md has setup and limits; ``Settings`` are environment variables.
"""

from __future__ import annotations

import base64
import http.client
import logging
import os
import re
import socket
import ssl
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import closing, suppress
from errno import EINVAL
from functools import cache
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, NamedTuple
from urllib.parse import SplitResult, urlsplit

import msgspec

Integer = Annotated[int, msgspec.Meta(le=2**63 - 1)]  # without a limit, msgspec reads any number of digits
Message = Mapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Message, Receive, Send], Awaitable[None]]

PREFIX = "SPEC_DECODE_REQUESTS_"  # of the environment variables
PATHS = ("/v1/chat/completions", "/v1/completions")  # of reported requests
DEFAULT_PATH = "/api/v1/requests"  # of the exporter
DROPPED = "X-Spec-Decode-Dropped"  # header: unreported requests since the last accepted batch
TOO_COSTLY = "X-Spec-Decode-Too-Costly"  # header: of these, those that are too large
BODY_BYTES = 4 << 20  # of a request or a JSON response; msgspec reads the worst in 24 ms, vLLM in more
STREAM_PIECES, STREAM_PIECE_BYTES = 128, 16 << 10  # messages kept from the end of a stream, the end of each
PIECE_BYTES = 64  # memory of a message besides its body
WAITING_BYTES = 32 << 20  # of responses that wait to be read
EXCHANGE_BYTES = 4 << 10  # memory of a response besides its pieces
SLICE_SECONDS, REST_SECONDS = 250e-6, 1e-3  # of reading, then of sleep: the event loop waits for the thread
TEXT_CHARACTERS, MAX_TEMPERATURE = 256, 100.0  # the exporter's; a higher temperature is reported as this one
RECORDS, UNREPORTED, BATCH_RECORDS = 8192, 100_000, 200  # that wait; in a batch of less than 1 MiB
ROUND_BATCHES, ROUND_SECONDS = 5, 1.0  # half of the exporter's default rate
MAX_PAUSE_SECONDS = 30.0  # between two attempts
TIMEOUT_SECONDS = 2.0  # to connect, to send, and for the whole reply
SECRET_CHARACTERS = 8192  # of a file with a password or token

logger = logging.getLogger("vllm.spec_decode_requests")  # a child of vLLM's logger, for its format


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
    """Read the settings and log unknown ones; raise ``ValueError`` without secrets if one is invalid."""
    names = {f"{PREFIX}{name.upper()}": name for name in Settings._fields}
    if unknown := sorted(name for name in environ if name.startswith(PREFIX) and name not in names):
        logger.warning("Requests' speculation: there is no setting %s", short(", ".join(unknown)))
    settings = Settings(**{name: environ[key].strip() for key, name in names.items() if key in environ})
    if settings.basic_auth_file and settings.bearer_token_file:
        raise ValueError(f"{PREFIX}BASIC_AUTH_FILE and {PREFIX}BEARER_TOKEN_FILE exclude each other")
    with suppress(ValueError):  # its text has the URL
        url = urlsplit(settings.url)
        has_host = url.hostname and url.scheme in {"http", "https"} and url.port != 0 and url.username is None
        is_plain = settings.url.isprintable() and not url.query and not url.fragment
        if is_plain and (has_host or (url.scheme == "unix" and url.path)):
            return settings
    form = f"http://host:port{DEFAULT_PATH}, https://… or unix:/path, without a name, a password or a query"
    raise ValueError(f"{PREFIX}URL: give {form}")


class Middleware:
    """ASGI application around vLLM's. It passes on each message, then keeps what the thread reads."""

    def __init__(self, app: Application) -> None:
        self._app = app
        self._reporter: Reporter | None = None
        try:
            self._reporter = Reporter(read_settings(os.environ))
            logger.info("Requests' speculation goes to %s", self._reporter.settings.url)
        except Exception as error:  # vLLM must start even if this fails
            why = error if type(error) is ValueError else type(error).__name__
            logger.warning("Requests' speculation is not reported: %s", why)

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Pass on a connection; keep the messages of a completion."""
        if self._reporter is None or scope["type"] != "http" or not scope["path"].endswith(PATHS):
            await self._app(scope, receive, send)
            return
        exchange = Exchange(self._reporter, scope)

        async def receive_and_keep() -> Message:
            exchange.received(message := await receive())
            return message

        async def send_and_keep(message: Message) -> None:
            await send(message)
            if exchange.sending:
                exchange.sent(message)

        await self._app(scope, receive_and_keep, send_and_keep)


class Exchange:
    """A request and its response: the parts that are kept. ``received`` and ``sent`` raise no exception."""

    def __init__(self, reporter: Reporter, scope: Message) -> None:
        self._reporter, self._scope = reporter, scope
        self.receiving = self.sending = True  # messages from the client, and to it, are still kept
        self.request: tuple[Any, ...] = ()  # attributes
        self.is_stream = False
        self.pieces: deque[bytes] = deque()  # of the request, then of the response
        self.size = 0  # memory
        self._error: Exception | None = None  # of the request: it counts if vLLM accepts the request

    def received(self, message: Message) -> None:
        """Keep a message of the request; decode the body at its end: msgspec skips the prompt."""
        try:
            if self.receiving and message["type"] == "http.request" and self._is_end(message):
                self.receiving = False
                self.request = self._reporter.attributes(self._scope, self.take())
        except Exception as error:
            self.receiving, self._error = False, error.with_traceback(None)  # its frames hold the body
            self.pieces.clear()

    def sent(self, message: Message) -> None:
        """Keep a message of the response; queue the response for the thread at its end."""
        try:
            if message["type"] == "http.response.body" and self._is_end(message):
                self.sending = False
                self._reporter.put(self)
            elif message["type"] == "http.response.start":
                headers = dict(message.get("headers", ()))
                self.is_stream = b"text/event-stream" in headers.get(b"content-type", b"")
                self.pieces = deque(maxlen=STREAM_PIECES if self.is_stream else None)
                if self.receiving or message["status"] != http.client.OK or b"content-encoding" in headers:
                    self.receiving = self.sending = False
                elif self._error:
                    self._fail(self._error)
        except Exception as error:
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        self.sending = False
        self.pieces.clear()
        self._reporter.failed(error)

    def _is_end(self, message: Message) -> bool:
        """Keep a piece of a body, of a stream its end; return whether it is the last one."""
        piece = message.get("body", b"")
        if self.is_stream:
            self.pieces.append(piece[-STREAM_PIECE_BYTES:])
        else:
            self.pieces.append(piece)
            self.size += len(piece) + PIECE_BYTES
            if self.size > BODY_BYTES:
                raise OverflowError
        return not message.get("more_body", False)

    def take(self) -> bytes:
        """Return and release the body."""
        body = b"".join(self.pieces)
        self.pieces.clear()
        self.size = 0
        return body


class Reporter:
    """Reads responses and sends their records, in a thread."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._url = urlsplit(settings.url)
        paths = [list(filter(None, path.split("."))) for path in (settings.type_field, settings.user_field)]
        headers = [name.lower().encode() for name in (settings.type_header, settings.user_header)]
        self._texts = list(zip(headers, paths, strict=True))
        kinds: dict[str, Any] = {"temperature": float | None, "n": Integer | None}
        kinds |= {path[0]: Any for path in paths if path and path[0] not in kinds}
        rename = {f"field{number}": name for number, name in enumerate(kinds)}
        fields = [(field, kinds[name], None) for field, name in rename.items()]
        self._decode = msgspec.json.Decoder(msgspec.defstruct("Request", fields, rename=rename)).decode
        self._names = tuple(kinds)[2:]
        self._thread: threading.Thread | None = None
        self.exchanges: deque[Exchange] = deque()
        self._bytes_put = self._bytes_read = 0  # the event loop writes one, the thread the other
        self.records: deque[bytes] = deque()
        self.unreported: deque[bool] = deque(maxlen=UNREPORTED)  # since the last accepted batch: too large?
        self._pause = self._not_before = 0.0
        self._tls: ssl.SSLContext | None = None
        os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        """Leave to the parent process what it will send."""
        self._bytes_read = self._bytes_put
        for queue in (self.exchanges, self.records, self.unreported):
            queue.clear()

    def attributes(self, scope: Message, body: bytes) -> tuple[Any, ...]:
        """Return temperature, ``n``, type and user of a request."""
        temperature, n, *others = msgspec.structs.astuple(self._decode(body))
        headers, values = dict(scope["headers"]), dict(zip(self._names, others, strict=True))
        texts = [
            headers.get(header, b"")[: 4 * TEXT_CHARACTERS] or (path and short(member(values, path)))
            for header, path in self._texts
        ]
        return temperature, n, *texts

    def put(self, exchange: Exchange) -> None:
        """Queue an exchange for the thread; drop it if the queue is full."""
        if self._thread is None or not self._thread.is_alive():  # a fork does not copy it
            self._thread = threading.Thread(target=self._run, name="spec-decode-requests", daemon=True)
            self._thread.start()
        exchange.size = EXCHANGE_BYTES + sum(map(len, exchange.pieces)) + PIECE_BYTES * len(exchange.pieces)
        if self._bytes_put + exchange.size - self._bytes_read > WAITING_BYTES:
            self.unreported.append(False)
        else:
            self._bytes_put += exchange.size
            self.exchanges.append(exchange)

    def failed(self, error: Exception) -> None:
        """Count a request that is not reported. An error may quote the request: log only its type."""
        self.unreported.append(isinstance(error, OverflowError))
        log_once("one was not understood", type(error).__name__)

    def _run(self) -> None:
        while True:
            time.sleep(ROUND_SECONDS)
            try:
                self.work(time.monotonic())
            except Exception as error:
                self.failed(error)

    def work(self, now: float) -> None:
        """Read the responses that wait, with rests in which the event loop runs; then send batches."""
        rested = time.monotonic()
        for _ in range(len(self.exchanges)):
            exchange = self.exchanges.popleft()
            self._bytes_read += exchange.size
            try:
                self._read(exchange)
            except Exception as error:
                self.failed(error)
            if time.monotonic() - rested >= SLICE_SECONDS:
                time.sleep(REST_SECONDS)
                rested = time.monotonic()
        for _ in range(ROUND_BATCHES):
            if (self.records or self.unreported) and now >= self._not_before:
                self._send(now)

    def _read(self, exchange: Exchange) -> None:
        """Keep the record of a response; release the oldest beyond ``RECORDS``."""
        body = exchange.take()
        if exchange.is_stream and body:  # [DONE] does not match
            body = re.findall(rb"^data:[ \t]*(\{.*)$", body, re.MULTILINE)[-1]
        answer = ANSWER.decode(body or b"null")  # vLLM answers "null" to a client that has left
        if not answer or not short(answer.model):
            return
        temperature, n, kind, user = exchange.request
        record = {
            "model": short(answer.model),
            "metrics": answer.metrics,
            "usage": answer.usage,
            "stream": exchange.is_stream,
            "temperature": temperature if temperature is None else min(temperature, MAX_TEMPERATURE),
            "n": n,
            "request_type": short(kind),
            "user": short(user),
            "target": short(self.settings.target),
        }
        if answer.metrics and answer.metrics.speculative_decoding and answer.usage:
            answer.usage.completion_tokens_details = None
        known = {name: value for name, value in record.items() if value not in (None, "")}
        self.records.append(msgspec.json.encode(known))
        if len(self.records) > RECORDS:
            self.records.popleft()
            self.unreported.append(False)

    def _send(self, now: float) -> None:
        """Send a batch and the numbers of unreported requests; never repeat what may have been counted."""
        batch, unreported, problem = [], list(self.unreported), ""
        try:
            numbers = {DROPPED: str(len(unreported)), TOO_COSTLY: str(sum(unreported))}
            headers = {"Content-Type": "application/x-ndjson", **numbers, **authorization(self.settings)}
            if self._url.scheme == "https" and not self._tls:  # that takes tens of milliseconds
                self._tls = ssl.create_default_context(cafile=self.settings.ca_file or None)
            with closing(Connection(self._url, self._tls)) as connection:
                connection.connect()
                batch = [self.records.popleft() for _ in range(min(BATCH_RECORDS, len(self.records)))]
                status = connection.post(b"\n".join(batch), headers)
            if status == http.client.OK:
                for _ in unreported:
                    self.unreported.popleft()
            elif status == http.client.TOO_MANY_REQUESTS:  # the exporter counted nothing of it
                self.records.extendleft(reversed(batch))
                problem, cause = "refuses some", "they are above its requests.rate"
            else:
                self.unreported.extend([False] * len(batch))
                problem, cause = "does not take it", f"status {status}"
        except Exception as error:
            self.unreported.extend([False] * len(batch))
            self._tls = None  # the file may have changed
            problem, cause = "does not take it", reason(error)
        self._pause = min(MAX_PAUSE_SECONDS, 2 * self._pause or ROUND_SECONDS) if problem else 0.0
        self._not_before = now + self._pause
        if problem:
            log_once(f"the exporter at {self.settings.url} {problem}", cause)


class Connection(http.client.HTTPConnection):
    """Connection to the exporter, over TCP, TLS or a Unix socket."""

    def __init__(self, url: SplitResult, tls: ssl.SSLContext | None) -> None:
        port = url.port or (443 if tls else 80)
        super().__init__(url.hostname or "localhost", port, timeout=TIMEOUT_SECONDS)
        self._url, self._tls = url, tls

    def connect(self) -> None:
        """Open the connection."""
        if self._url.scheme == "unix":
            self.sock = socket.socket(socket.AF_UNIX)
            self.sock.settimeout(TIMEOUT_SECONDS)
            self.sock.connect(self._url.path)
        else:
            super().connect()
        if self._tls:
            self.sock = self._tls.wrap_socket(self.sock, server_hostname=self.host)

    def post(self, body: bytes, headers: Mapping[str, Any]) -> int:
        """Return the status of the reply. A timer ends a reply that goes on."""
        path = self._url.path if self._url.scheme != "unix" and self._url.path.strip("/") else DEFAULT_PATH
        timer = threading.Timer(TIMEOUT_SECONDS, end, (self.sock,))
        timer.start()
        try:
            self.request("POST", path, body, headers)
            return self.getresponse().status
        finally:
            timer.cancel()


def end(connection: socket.socket) -> None:
    """End a connection, which its peer may have ended at this moment."""
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


def authorization(settings: Settings) -> dict[str, bytes]:
    """Return the header with the credentials. Read the file each time: secrets rotate."""
    path = settings.basic_auth_file or settings.bearer_token_file
    if not path:
        return {}
    with Path(path).open(encoding="utf-8") as file:
        secret = file.read(SECRET_CHARACTERS).strip()
    if not secret.isprintable():
        raise OSError(EINVAL, "more than one line, or a character that no header can have", path)
    if settings.basic_auth_file:
        return {"Authorization": b"Basic " + base64.b64encode(secret.encode())}
    return {"Authorization": b"Bearer " + secret.encode()}


def reason(error: Exception) -> str:
    """Return a safe text for an error: other texts may quote a secret."""
    if not isinstance(error, OSError) or not error.strerror:
        return type(error).__name__
    return f"{error.filename}: {error.strerror}" if error.filename else error.strerror


@cache
def log_once(problem: str, cause: str) -> None:
    """Log each kind of failure once."""
    logger.warning("Requests' speculation is not reported, %s: %s. This is logged once", problem, cause)


def short(text: object) -> str:
    """Return the beginning of a text without unprintable characters; empty for another type."""
    text = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
    start = text[: 4 * TEXT_CHARACTERS] if isinstance(text, str) else ""
    return "".join(filter(str.isprintable, start)).strip()[:TEXT_CHARACTERS]


def member(value: object, path: Iterable[str]) -> object:
    """Return the member of a JSON object at a path; None if there is none."""
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def optional(name: str, numbers: str, **others: type | UnionType) -> type:
    """Return the type of a JSON object with these members. Each may be absent; others are skipped."""
    kinds = {**dict.fromkeys(numbers.split(), Integer | float), **others}
    fields = [(key, kind | None, None) for key, kind in kinds.items()]
    return msgspec.defstruct(name, fields, omit_defaults=True)


# The members of a response that leave vLLM. Their only text is the model's name.
TIMES = "time_to_first_token_ms generation_time_ms queue_time_ms mean_itl_ms tokens_per_second"
COUNTS = "num_spec_steps num_spec_tokens num_draft_tokens num_accepted_draft_tokens"
RATES = "mean_acceptance_length draft_acceptance_rate"
SPECULATION = optional("Speculation", f"{COUNTS} {RATES}", acceptance_histogram=list[Integer])
METRICS = optional("Metrics", TIMES, speculative_decoding=SPECULATION)
PROMPT = optional("PromptDetails", "cached_tokens")
COMPLETION = optional("CompletionDetails", "accepted_prediction_tokens rejected_prediction_tokens")
DETAILS = {"prompt_tokens_details": PROMPT, "completion_tokens_details": COMPLETION}
USAGE = optional("Usage", "completion_tokens prompt_tokens", **DETAILS)
ANSWER = msgspec.json.Decoder(optional("Answer", "", model=str, metrics=METRICS, usage=USAGE) | None)
