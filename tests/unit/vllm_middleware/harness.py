"""Scripted ASGI server and application, which record their messages, and a scripted exporter."""

import asyncio
import contextlib
import json
import re
import socket
import struct
import threading
from dataclasses import dataclass, field
from itertools import takewhile

from spec_decode_exporter.vllm_middleware.spec_decode_requests import PREFIX

SCOPE = {"type": "http", "method": "POST", "path": "/v1/completions", "headers": [(b"host", b"localhost")]}
SPECULATION = {
    "mean_acceptance_length": 2.5,
    "draft_acceptance_rate": 0.375,
    "acceptance_histogram": [1, 2, 0, 0, 1],
    "num_spec_steps": 4,
    "num_accepted_draft_tokens": 6,
    "num_draft_tokens": 16,
    "num_spec_tokens": 4,
}
METRICS = {
    "time_to_first_token_ms": 12.5,
    "generation_time_ms": 88.0,
    "queue_time_ms": 0.25,
    "mean_itl_ms": 9.7,
    "tokens_per_second": 102.2,
    "speculative_decoding": SPECULATION,
}
USAGE = {
    "prompt_tokens": 7,
    "total_tokens": 17,
    "completion_tokens": 10,
    "prompt_tokens_details": {"cached_tokens": 4, "created_cache_tokens": 0},
}


def configure(monkeypatch, **values):
    """Set environment variables of the middleware, by their names without the prefix."""
    for name, value in values.items():
        monkeypatch.setenv(PREFIX + name, str(value))


def start(status=200, kind=b"application/json", headers=()):
    return {"type": "http.response.start", "status": status, "headers": [(b"content-type", kind), *headers]}


def body(text, more=False):
    return {"type": "http.response.body", "body": text, "more_body": more}


def asked(text, more=False):
    return {"type": "http.request", "body": text, "more_body": more}


def answer(metrics=METRICS, text="Hello", **more):
    """Return a JSON response in vLLM's format: without spaces, the metrics last."""
    choices = [{"index": 0, "text": text, "finish_reason": "stop"}]
    whole = {"id": "cmpl-1", "model": "tiny", "choices": choices, "usage": USAGE, **more, "metrics": metrics}
    return json.dumps(whole, separators=(",", ":")).encode()


def stream(metrics=METRICS, texts=("Hel", "lo")):
    """Return the events of the same response as a stream."""
    events = [{"choices": [{"index": 0, "text": text}], "usage": None} for text in texts]
    events.append({"choices": [], "usage": USAGE, "metrics": metrics})
    whole = [json.dumps({"id": "cmpl-1", "model": "tiny", **one}, separators=(",", ":")) for one in events]
    return [f"data: {one}\n\n".encode() for one in (*whole, "[DONE]")]


def json_exchange(request=b'{"temperature":0.5}', text=None):
    """Return the messages to and from the application for a JSON response."""
    return [asked(request)], [start(), body(answer() if text is None else text)]


def stream_exchange(request=b'{"temperature":0.5,"stream":true}', pieces=None):
    pieces = stream() if pieces is None else pieces
    sent = [start(kind=b"text/event-stream; charset=utf-8"), *(body(piece, more=True) for piece in pieces)]
    return [asked(request)], [*sent, body(b"")]


@dataclass
class Server:
    """ASGI server: delivers messages from a list, which it empties, and records all messages."""

    incoming: list
    log: list = field(default_factory=list)

    async def receive(self):
        await asyncio.sleep(0)
        if not self.incoming:
            await asyncio.Event().wait()
        message = self.incoming.pop(0)
        self.log.append(("received", message))
        if isinstance(message, BaseException):
            raise message
        return message

    async def send(self, message):
        await asyncio.sleep(0)
        self.log.append(("sent", dict(message)))


def application(outgoing):
    """Return an application that reads the request, then sends these messages or raises them."""

    async def app(scope, receive, send):
        while True:
            message = await receive()
            if message["type"] != "http.request" or not message.get("more_body"):
                break
        for message in outgoing:
            if isinstance(message, BaseException):
                raise message
            await send(message)

    return app


async def run(app, incoming, scope=SCOPE):
    """Return the server's log: all messages in order, and the exception."""
    server = Server([*incoming])
    try:
        await app(scope, server.receive, server.send)
    except BaseException as error:
        server.log.append(("raised", repr(error)))
        if isinstance(error, (KeyboardInterrupt, SystemExit)):
            raise
    return server.log


HANG, RESET = "hang", "reset"
OK = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


@dataclass
class Exporter:
    """A real listener that answers each connection with the same bytes, hangs, or resets it."""

    reply: bytes | str = OK
    listener: socket.socket = field(default_factory=lambda: socket.create_server(("127.0.0.1", 0)))
    requests: list = field(default_factory=list)
    open: list = field(default_factory=list)

    @property
    def url(self):
        return f"http://127.0.0.1:{self.listener.getsockname()[1]}/api/v1/requests"

    def __enter__(self):
        self.thread = threading.Thread(target=self.serve)
        self.thread.start()
        return self

    def __exit__(self, *error):
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join()
        for connection in self.open:
            connection.close()

    def serve(self):
        with contextlib.suppress(OSError):  # the listener is closed
            while True:
                connection, _ = self.listener.accept()
                with contextlib.suppress(ConnectionError):
                    with connection.makefile("rb") as file:
                        head = b"".join(takewhile(bytes.strip, file)).decode()
                        if not head:  # the client has left
                            connection.close()
                            continue
                        length = re.search(r"(?i)content-length: (\d+)", head)[1]
                        self.requests.append((head, file.read(int(length))))
                    self.answer(connection)

    def answer(self, connection):
        if self.reply is HANG:
            self.open.append(connection)
            return
        if self.reply is RESET:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        else:
            connection.sendall(self.reply)
        connection.close()

    def records(self):
        return [json.loads(line) for _, text in self.requests for line in text.splitlines()]
