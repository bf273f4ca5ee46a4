"""Cost of hostile and of typical requests for vLLM's process; ``benchmarks.inside`` prints these tables."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from operator import mul
from statistics import quantiles
from typing import Any

from spec_decode_exporter.vllm_middleware import spec_decode_requests as inside
from tests.vllm_middleware.adversarial import HOSTILE, HOSTILE_ANSWERS, TYPICAL

PIECE = 64 << 10
"""Bytes of a message in which a server hands out a body."""
FLOOD = 'repeated `"n":1,`'
FLOODS = (("2 a second", 1, 0.5), ("100 a second", 1, 0.01), ("1,000 at once, each second", 1000, 1.0))
"""A name, requests at a time, and seconds between."""
UNIT_SECONDS = 200e-6


@dataclass(frozen=True, slots=True)
class Effort:
    """The amount of work behind each figure."""

    repetitions: int
    flood_seconds: float
    """Seconds of each repetition of a flood."""


EFFORT = Effort(5, 2.0)
SMOKE = Effort(2, 0.05)

Message = dict[str, Any]


@dataclass
class Cost:
    """Processor time for a request, in seconds."""

    loop: float
    """On the event loop, beyond that of the application alone."""
    thread: float
    """In the thread."""
    at_once: float
    """The longest time in the thread between two rests."""
    outcome: str


class Stopwatch:
    """The thread's ``Work``, with the time between two rests."""

    def __init__(self) -> None:
        self.longest = 0.0
        self._since = time.thread_time()

    def sleep(self, _seconds: float) -> None:
        """Note a rest in place of resting."""
        now = time.thread_time()
        self.longest = max(self.longest, now - self._since)
        self._since = time.thread_time()


def messages(text: bytes, size: int = PIECE) -> list[Message]:
    """Return a body as a server hands it out."""
    pieces = [text[at : at + size] for at in range(0, len(text), size)] or [b""]
    last = len(pieces) - 1
    return [
        {"type": "http.request", "body": piece, "more_body": at < last} for at, piece in enumerate(pieces)
    ]


async def application(_scope: Any, receive: Any, send: Any) -> None:
    while (await receive())["more_body"]:
        pass
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b'{"model":"tiny","metrics":{}}'})


def on_loop(app: Any, incoming: Sequence[Message], headers: Sequence[tuple[bytes, bytes]] = ()) -> float:
    """Return the seconds that the event loop works for a request."""

    async def passing() -> float:
        waiting = iter(incoming)

        async def receive() -> Message:
            return next(waiting)

        async def send(_message: Any) -> None:
            pass

        begin = time.thread_time()
        await app({"type": "http", "path": "/v1/completions", "headers": headers}, receive, send)
        return time.thread_time() - begin

    return asyncio.run(passing())


def cost(
    repetitions: int,
    make: Callable[[], bytes],
    size: int = PIECE,
    headers: Sequence[tuple[bytes, bytes]] = (),
) -> Cost:
    """Measure a request a few times; return the lowest of each figure."""
    incoming = messages(make(), size)
    wrapped = inside.Middleware(application)
    reporter: Any = wrapped._reporter  # noqa: SLF001 - the thread's work is done here, and timed
    reporter.sender.send = lambda now: None  # noqa: ARG005
    found = []
    for _ in range(repetitions):
        bare = on_loop(application, incoming, headers)
        loop = on_loop(wrapped, incoming, headers) - bare
        watch = Stopwatch()
        reporter._work = inside.Work(time.thread_time, watch.sleep)  # noqa: SLF001
        begin = time.thread_time()
        reporter.work(0.0)
        thread = time.thread_time() - begin
        watch.sleep(0.0)
        found.append((loop, thread, watch.longest))
    loop, thread, at_once = (min(figures) for figures in zip(*found, strict=True))
    too_costly = reporter.sender.too_costly == repetitions
    return Cost(
        max(loop, 0.0), thread, at_once, "too costly" if too_costly else _outcome(reporter, repetitions)
    )


def _outcome(reporter: Any, repetitions: int) -> str:
    (record, *_) = reporter.sender._records.take(repetitions, 1 << 20) or [b"{}"]  # noqa: SLF001
    temperature = json.loads(record).get("temperature")
    if reporter.sender.dropped:
        return "dropped"
    return f"reported, temperature {temperature}" if temperature is not None else "reported"


def bodies(effort: Effort) -> None:
    """Print the costs of every kind of body, and the highest of each column."""
    print("\n| A request of 1 MiB | event loop, ms | thread, ms | at once, ms | |\n|---|--:|--:|--:|---|")
    times = effort.repetitions
    costs = [(name, cost(times, make)) for name, make in {**TYPICAL, **HOSTILE}.items()]
    costs += [
        (f"{number:,} messages of 300 bytes", cost(times, partial(mul, b" ", number * 300), 300))
        for number in (inside.BODY_MESSAGES, inside.BODY_MESSAGES + 1)
    ]
    costs += [
        (
            f"{number:,} headers",
            cost(times, lambda: b"{}", headers=[(b"x-request-type", b"t" * 1024)] * number),
        )
        for number in (inside.HEADERS, 100_000)
    ]
    for name, one in costs:
        print(f"| {name} | {_milliseconds(one.loop, one.thread, one.at_once)} | {one.outcome} |")
    loop, thread = (max(getattr(one, name) for _, one in costs) for name in ("loop", "thread"))
    print(f"| **most** | {_milliseconds(loop, thread, max(one.at_once for _, one in costs))} | |")
    many = 1_000_000
    endless = cost(times, lambda: b" " * many, 1)
    print(f"\nA body of {many:,} messages: {endless.loop / many * 1e6:.3f} µs each, {endless.outcome}.")


def answers(effort: Effort) -> None:
    """Print the costs of the ends of hostile answers."""
    print("\n| An answer, its end | thread, ms | at once, ms |\n|---|--:|--:|")
    figures = {
        name: _answer_cost(effort.repetitions, make, streamed=streamed)
        for name, (streamed, make) in HOSTILE_ANSWERS.items()
    }
    for name, (total, at_once) in figures.items():
        print(f"| {name} | {_milliseconds(total, at_once)} |")
    print(f"| **most** | {_milliseconds(*(max(column) for column in zip(*figures.values(), strict=True)))} |")


def _answer_cost(repetitions: int, make: Callable[[], bytes], *, streamed: bool) -> tuple[float, float]:
    wrapped = inside.Middleware(application)
    reporter: Any = wrapped._reporter  # noqa: SLF001
    reporter.sender.send = lambda now: None  # noqa: ARG005
    text = make()
    found = []
    for _ in range(repetitions):
        exchange = inside.Exchange(reporter, {"headers": []})
        exchange.stream, exchange.attributes = streamed, {}
        exchange.answer.add(text)
        reporter.queue_response(exchange)
        watch = Stopwatch()
        reporter._work = inside.Work(time.thread_time, watch.sleep)  # noqa: SLF001
        begin = time.thread_time()
        reporter.work(0.0)
        total = time.thread_time() - begin
        watch.sleep(0.0)
        found.append((total, watch.longest))
    total, at_once = (min(figures) for figures in zip(*found, strict=True))
    return total, at_once


def _milliseconds(*seconds: float) -> str:
    return " | ".join(f"{1e3 * one:.2f}" for one in seconds)


async def units(seconds: float, number: int, every: float) -> float:
    """Return the units of work a second of a busy event loop, while hostile requests come and are read."""
    wrapped = inside.Middleware(application)
    reporter: Any = wrapped._reporter  # noqa: SLF001
    reporter.sender.send = lambda now: None  # noqa: ARG005
    incoming = messages(HOSTILE[FLOOD]())

    async def one() -> None:
        waiting = iter(incoming)

        async def receive() -> Message:
            return next(waiting)

        async def send(_message: Any) -> None:
            pass

        await wrapped({"type": "http", "path": "/v1/completions", "headers": []}, receive, send)

    done = 0
    begin = due = time.perf_counter()
    while (now := time.perf_counter()) < begin + seconds:
        if number and now >= due:
            due += every
            for _ in range(number):
                await one()
        before = time.thread_time()
        while time.thread_time() - before < UNIT_SECONDS:
            sum(range(200))
        done += 1
        await asyncio.sleep(0)  # a turn of the loop, in which it lets go of the interpreter
    return done / (time.perf_counter() - begin)


def floods(effort: Effort) -> None:
    """Print how much less a busy event loop does while hostile requests come."""
    print("\n| Requests of 1 MiB, " + FLOOD + " | work of a busy event loop, with / without |\n|---|--:|")
    seconds = effort.flood_seconds
    for name, number, every in FLOODS:
        ratios = [
            asyncio.run(units(seconds, number, every)) / asyncio.run(units(seconds, 0, 0.0))
            for _ in range(effort.repetitions)
        ]
        low, middle, high = quantiles(ratios, n=4)
        print(f"| {name} | {middle:.2f} ({low:.2f} to {high:.2f}) |")
