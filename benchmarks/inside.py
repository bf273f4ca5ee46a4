"""Cost of the middleware: processor time of each message, and latency of tokens in a real vLLM.

    VLLM_VENV=… VLLM_MODELS=… python -m benchmarks.inside [--rounds 12] [--tokens 100] [--smoke]

The environment is the one of ``tests/e2e/vllm/run``; without it only the tables of the middleware alone are
printed: messages, requests, and hostile bodies (``benchmarks.inside_limits``). In vLLM two servers run at the
same time, one with the middleware, and are asked in turns: what else the machine does meets both. Every
figure is of the same run; the ratio is the median of those of the rounds.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import sys
import time
from argparse import Namespace
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from benchmarks.inside_limits import EFFORT, SMOKE, answers, bodies, floods
from benchmarks.options import parsed, parser
from benchmarks.process import cpu_seconds
from spec_decode_exporter.vllm_middleware import spec_decode_requests as inside

TOKEN = (
    b'data: {"id":"cmpl-0123456789abcdef","object":"text_completion","created":1790000000,"model":"tiny",'
    b'"choices":[{"index":0,"text":" token","logprobs":null,"finish_reason":null,"stop_reason":null}],'
    b'"usage":null}\n\n'
)
METRICS = {
    "queue_time_ms": 0.25,
    "speculative_decoding": {"num_spec_steps": 4, "acceptance_histogram": [1, 2, 1]},
}
LAST = (
    b"data: " + json.dumps({"model": "tiny", "usage": {"completion_tokens": 9}, "metrics": METRICS}).encode()
)
REQUESTS = {"1 kB": 1, "100 kB": 100, "1 MB": 1000}
MESSAGES = 200_000
WAYS = ("without", "with")


# The middleware alone.


def request(kilobytes: int) -> bytes:
    """Return a request of a conversation so long, with its temperature behind the messages."""
    message = {"role": "user", "content": 'One of "many" lines of a conversation.\n' * 23}
    body = {"model": "tiny", "messages": [message] * kilobytes, "temperature": 0.7, "stream": True}
    return json.dumps(body).encode()


async def application(scope: Any, receive: Any, send: Any) -> None:
    await receive()
    kind = [(b"content-type", b"text/event-stream")]
    await send({"type": "http.response.start", "status": 200, "headers": kind})
    for _ in range(scope["messages"]):
        await send({"type": "http.response.body", "body": TOKEN, "more_body": True})
    await send({"type": "http.response.body", "body": LAST + b"\n\n"})


async def passing(app: Any, messages: int) -> float:
    """Return the seconds of processor time of an answer."""
    asked = request(1)

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": asked}

    async def send(message: Any) -> None:
        del message

    scope = {"type": "http", "path": "/v1/completions", "headers": [], "messages": messages}
    begin = time.process_time()
    await app(scope, receive, send)
    return time.process_time() - begin


def _no_thread(reporter: Any) -> None:
    del reporter


def alone(messages: int) -> None:
    """Print what a message costs, a request, and the reading of it in the thread."""
    wrapped = inside.Middleware(application)
    reporter = wrapped._reporter  # noqa: SLF001 - the thread's work is done here, and timed
    assert reporter is not None
    inside.Reporter._start = _no_thread  # type: ignore[method-assign, assignment]  # noqa: SLF001
    costs = defaultdict(list)
    for _ in range(7):
        for way, app in zip(WAYS, (application, wrapped), strict=True):
            costs[way].append(asyncio.run(passing(app, messages)) / messages)
    print("| The middleware alone | µs |\n|---|---|")
    for way in WAYS:
        print(f"| a message, {way} | {median(costs[way]) * 1e6:.2f} |")
    whole = min(asyncio.run(passing(wrapped, 0)) for _ in range(200))
    bare = min(asyncio.run(passing(application, 0)) for _ in range(200))
    print(f"| a request, beside its messages | {(whole - bare) * 1e6:.1f} |")
    for name, kilobytes in REQUESTS.items():
        print(f"| reading in the thread, a request of {name} | {reading(reporter, kilobytes) * 1e6:.0f} |")


def reading(reporter: Any, kilobytes: int) -> float:
    """Return the processor time in which the thread makes a record."""
    read(reporter)
    times = []
    for _ in range(20):
        exchange = inside.Exchange(reporter, {"headers": []})
        exchange.received({"type": "http.request", "body": request(kilobytes)})
        exchange.stream = True
        for piece in [TOKEN] * 50 + [LAST, b"\n\ndata: [DONE]\n\n"]:
            exchange.answer.add(piece)
        reporter.queue_response(exchange)
        begin = time.thread_time()
        read(reporter)
        times.append(time.thread_time() - begin)
    return median(times)


def read(reporter: Any) -> None:
    """Make records of all that waits."""
    while reporter._exchanges:  # noqa: SLF001
        reporter._read_one()  # noqa: SLF001


# Inside vLLM.


@dataclass
class Figures:
    """Measurements of one server, with a number of concurrent streams."""

    first: list[float] = field(default_factory=list)
    """Seconds until the first event of each answer."""
    further: list[float] = field(default_factory=list)
    """Seconds between the others."""
    cpu: list[float] = field(default_factory=list)
    """Seconds of processor time of the API server for each event, of each round."""
    first_of_rounds: list[float] = field(default_factory=list)
    further_of_rounds: list[float] = field(default_factory=list)


async def one_stream(port: int, number: int, tokens: int) -> list[float]:
    """Ask for a stream; return when it was asked for, and when each event of it had come."""
    body = json.dumps(
        {"model": "tiny", "prompt": f"{number} one two three", "max_tokens": tokens, "ignore_eos": True}
        | {"temperature": 1, "seed": number, "stream": True, "stream_options": {"include_usage": True}}
    ).encode()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = (
        "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nConnection: close\r\n"
    )
    times = [time.perf_counter()]
    writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    while line := await reader.readline():
        if line.startswith(b"data: {"):
            times.append(time.perf_counter())
    writer.close()
    assert len(times) > 2, "no stream came"
    return times


async def round_of(server: Any, streams: int, tokens: int, figures: Figures) -> None:
    """Request ``streams`` streams at a time, several times."""
    waves = max(2, 8 // streams)
    begin = cpu_seconds(server.process.pid)
    told = [
        times
        for wave in range(waves)
        for times in await asyncio.gather(
            *(one_stream(server.port, wave * streams + number, tokens) for number in range(streams))
        )
    ]
    events = sum(len(times) - 1 for times in told)
    figures.cpu.append((cpu_seconds(server.process.pid) - begin) / events)
    first = [times[1] - times[0] for times in told]
    further = [later - earlier for times in told for earlier, later in pairwise(times[1:])]
    figures.first += first
    figures.further += further
    figures.first_of_rounds.append(median(first))
    figures.further_of_rounds.append(median(further))


@contextmanager
def servers() -> Iterator[dict[str, Any]]:
    """Run both; the records of the one go to a receiver in this process."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "e2e" / "vllm"))
    from vllm_server import QUIET, ngram, vllm  # type: ignore[import-not-found]

    loaded = importlib.import_module("inside")

    flags = (*ngram(4), *QUIET, "--disable-uvicorn-access-log")
    with (
        loaded.Receiver().serving() as receiver,
        vllm("bench-with", *flags, *loaded.FLAGS, more_environment=receiver.environment) as wrapped,
        vllm("bench-without", *flags, *loaded.PLAIN_FLAGS) as plain,
    ):
        yield dict(zip(WAYS, (plain, wrapped), strict=True))
        print(f"\n{len(receiver.records)} records came.")


def measured(arguments: Namespace) -> dict[tuple[int, str], Figures]:
    """Ask both servers in turns, each first in every other round; the first round is not counted."""
    figures: dict[tuple[int, str], Figures] = defaultdict(Figures)
    with servers() as both:
        end = time.monotonic() + arguments.seconds
        for number in range(arguments.rounds + 1):
            if time.monotonic() > end:
                break
            for streams in arguments.streams:
                for way in WAYS if number % 2 else WAYS[::-1]:
                    kept = figures[streams, way] if number else Figures()
                    asyncio.run(round_of(both[way], streams, arguments.tokens, kept))
    return figures


def report(figures: dict[tuple[int, str], Figures], streams: Sequence[int]) -> None:
    """Print a table: every figure with and without, and the ratio."""
    print(f"\n{len(figures[streams[0], WAYS[0]].cpu)} rounds.")
    print("\n| Streams | | without | with | with / without |\n|---|---|---|---|---|")
    for number in streams:
        without, wrapped = (figures[number, way] for way in WAYS)
        rows = [
            ("first token, median, ms", 1e3 * median(without.first), 1e3 * median(wrapped.first)),
            ("first token, p99, ms", 1e3 * p99(without.first), 1e3 * p99(wrapped.first)),
            ("further tokens, median, ms", 1e3 * median(without.further), 1e3 * median(wrapped.further)),
            ("further tokens, p99, ms", 1e3 * p99(without.further), 1e3 * p99(wrapped.further)),
            ("API server's CPU for an event, µs", 1e6 * median(without.cpu), 1e6 * median(wrapped.cpu)),
        ]
        ratios = [
            ratio(without.first_of_rounds, wrapped.first_of_rounds),
            "",
            ratio(without.further_of_rounds, wrapped.further_of_rounds),
            "",
            ratio(without.cpu, wrapped.cpu),
        ]
        for (name, a, b), of_rounds in zip(rows, ratios, strict=True):
            print(f"| {number} | {name} | {a:.3f} | {b:.3f} | {of_rounds or f'{b / a:.3f}'} |")


def ratio(without: Sequence[float], wrapped: Sequence[float]) -> str:
    """Return the median of the rounds' ratios, and between what the middle half of them lies."""
    low, middle, high = quantiles([b / a for a, b in zip(without, wrapped, strict=True)], n=4)
    return f"{middle:.3f} ({low:.3f} to {high:.3f})"


def p99(values: Sequence[float]) -> float:
    return sorted(values)[int(len(values) * 0.99)]


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--rounds", type=int, default=12)
    options.add_argument("--seconds", type=float, default=900, help="no round begins later")
    options.add_argument("--streams", type=int, nargs="+", default=[1, 8, 16])
    options.add_argument("--tokens", type=int, default=100)
    arguments = parsed(options, rounds=1)
    effort = SMOKE if arguments.smoke else EFFORT
    floods(effort)  # first, while the thread of each reporter is started
    alone(MESSAGES // 200 if arguments.smoke else MESSAGES)
    bodies(effort)
    answers(effort)
    if {"VLLM_VENV", "VLLM_MODELS"} <= os.environ.keys():
        report(measured(arguments), arguments.streams)
    else:
        print("\nNot measured inside vLLM: VLLM_VENV and VLLM_MODELS say where it is.")


if __name__ == "__main__":
    main()
