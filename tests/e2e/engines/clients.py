"""Clients of the engines: what responses say of their drafts, and what a client's clock says of their times, is the truth."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import itertools
import json
import math
import operator
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

import aiohttp

MODEL = "tiny"  # the name under which vLLM serves a model
PROMPTS = (
    "The temperature of the requests decides how well speculation works",
    "def main(folder: Path) -> None:",
    "one two three one two three one two three one two",
    "a draft, the first two layers of the very same weights",
    "return LlamaConfig(vocab_size=VOCABULARY, hidden_size=256)",
)
VOCABULARY = range(2, 512)  # token ids of the models without the special ones


@dataclass(frozen=True)
class Truth:
    """Sums over responses, with the names of the exporter's counters."""

    requests: int = 0
    drafts: int = 0
    draft_tokens: int = 0
    accepted_tokens: int = 0
    generation_tokens: int = 0
    decode_seconds: float = 0.0
    positions: tuple[int, ...] = ()  # drafts whose token at position i was accepted
    ratios: tuple[float, ...] = ()
    """The share of draft tokens that were accepted, of each request that drafted."""

    def __add__(self, other: Truth) -> Truth:
        """Add up two sets of responses, positions that one of them lacks being 0."""
        pairs = itertools.zip_longest(self.positions, other.positions, fillvalue=0)
        return Truth(
            self.requests + other.requests,
            self.drafts + other.drafts,
            self.draft_tokens + other.draft_tokens,
            self.accepted_tokens + other.accepted_tokens,
            self.generation_tokens + other.generation_tokens,
            math.fsum((self.decode_seconds, other.decode_seconds)),
            tuple(here + there for here, there in pairs),
            self.ratios + other.ratios,
        )

    @property
    def acceptance(self) -> float:
        """The share of draft tokens that were accepted."""
        return self.accepted_tokens / self.draft_tokens


def of_response(body: Mapping[str, Any]) -> Truth:
    """Read one response. ``acceptance_histogram[j]`` counts the drafts with exactly j tokens accepted."""
    metrics = body["metrics"]
    counts = metrics["speculative_decoding"]
    histogram = counts["acceptance_histogram"]
    drafted, accepted = counts["num_draft_tokens"], counts["num_accepted_draft_tokens"]
    return Truth(
        requests=1,
        drafts=counts["num_spec_steps"],
        draft_tokens=drafted,
        accepted_tokens=accepted,
        generation_tokens=body["usage"]["completion_tokens"],
        decode_seconds=metrics["generation_time_ms"] / 1000,
        positions=tuple(sum(histogram[position + 1 :]) for position in range(len(histogram) - 1)),
        ratios=(accepted / drafted,) if drafted else (),
    )


Body = Mapping[str, Any]


class Api(NamedTuple):
    """How an engine is asked, and what its response says."""

    path: str
    body: Callable[[random.Random], Body]  # the next request, without its temperature
    truth: Callable[[Body], Truth]


def _completion(chance: random.Random) -> Body:
    return {"prompt": chance.choice(PROMPTS), "max_tokens": chance.randint(1, 150), "model": MODEL}


VLLM = Api("/v1/completions", _completion, of_response)


@dataclass(frozen=True)
class Times:
    """Sums over requests, in seconds of the client's clock."""

    requests: int = 0
    tokens: int = 0  # tokens after the first one of each request
    first_token: float = 0.0  # from the request to its first token
    decoding: float = 0.0  # from the first token to the last one

    def __add__(self, other: Times) -> Times:
        """Add up two sets of requests."""
        return Times(*map(operator.add, dataclasses.astuple(self), dataclasses.astuple(other)))

    @property
    def per_token(self) -> float:
        """Mean time per output token."""
        return self.decoding / self.tokens

    @property
    def to_first_token(self) -> float:
        """Mean time to first token."""
        return self.first_token / self.requests

    @property
    def per_request(self) -> float:
        """Mean time of a request."""
        return (self.first_token + self.decoding) / self.requests

    def __str__(self) -> str:
        """Return the means."""
        means = (1000 * each for each in (self.per_token, self.to_first_token, self.per_request))
        return "{} requests, {:.2f} ms a token, first token {:.1f} ms, {:.0f} ms a request".format(
            self.requests, *means
        )


@dataclass(frozen=True)
class Load:
    """Continuous requests with a concurrency, started within a time limit; all are completed."""

    temperature: float
    seconds: float
    at_once: int = 3
    request_type: str | None = None  # the request type in their header, if any
    api: Api = VLLM


def drive(url: str, load: Load) -> Truth:
    """Send the load to a server and return the sums of its responses; any status but 200 is an error."""
    return asyncio.run(_drive(url, load, threading.Event()))


@contextlib.contextmanager
def driving(url: str, load: Load) -> Iterator[Future[Truth]]:
    """Send the load while the block runs, and wait for the last answers: the future has their sums then."""
    stopped = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        answered = pool.submit(asyncio.run, _drive(url, load, stopped))
        try:
            yield answered
        finally:
            stopped.set()
            answered.result()  # an error of the load explains that of the block


def _session(url: str, headers: Mapping[str, str] | None = None) -> aiohttp.ClientSession:
    # vLLM closes idle connections after 5 s, and a request may meet that end.
    ends = aiohttp.TCPConnector(force_close=True)
    timeout = aiohttp.ClientTimeout(total=120)
    return aiohttp.ClientSession(url, timeout=timeout, connector=ends, raise_for_status=True, headers=headers)


async def _drive(url: str, load: Load, stopped: threading.Event) -> Truth:
    deadline = time.monotonic() + load.seconds
    headers = {"x-request-type": load.request_type} if load.request_type else None

    async def worker(number: int) -> Truth:
        """Send one request after the other; their order and lengths are the same in every run."""
        chance, truth = random.Random(number), Truth()
        while not (stopped.is_set() or time.monotonic() > deadline):
            body = {**load.api.body(chance), "temperature": load.temperature}
            async with session.post(load.api.path, json=body) as response:
                truth += load.api.truth(await response.json())
        return truth

    async with _session(url, headers) as session:
        return sum(await asyncio.gather(*map(worker, range(load.at_once))), Truth())


def answers_of(worker: int, requests: int) -> list[Body]:
    """Return one worker's requests with short prompts, the same ones in every round."""
    chance = random.Random(worker)
    return [
        {"prompt": chance.choice(PROMPTS), "max_tokens": chance.randint(40, 160)} for _ in range(requests)
    ]


def long_prompts(tokens: int, requests: int, seed: int) -> list[Body]:
    """Return requests with prompts that no request had before, and short answers."""
    chance = random.Random(seed)
    return [{"prompt": chance.choices(VOCABULARY, k=tokens), "max_tokens": 8} for _ in range(requests)]


def send(url: str, workers: Sequence[Sequence[Body]]) -> Times:
    """Send the requests of each worker one after the other, all workers at once."""
    return asyncio.run(_send(url, workers))


def send_until(happened: Callable[[], bool], url: str, rounds: Sequence[Sequence[Sequence[Body]]]) -> Times:
    """Send whole rounds of requests until a condition is met after one of them."""
    times = Times()
    for workers in rounds:
        times += send(url, workers)
        if happened():
            return times
    raise AssertionError(f"the condition was not met after {times}")


async def _send(url: str, workers: Sequence[Sequence[Body]]) -> Times:
    async def worker(requests: Sequence[Body]) -> Times:
        times = Times()
        for request in requests:
            times += await _stream(session, request)
        return times

    async with _session(url) as session:
        return sum(await asyncio.gather(*map(worker, workers)), Times())


async def _stream(session: aiohttp.ClientSession, request: Body) -> Times:
    """Send one greedy request, and take the moments of its first and its last token."""
    more = {"model": MODEL, "temperature": 0, "ignore_eos": True}
    streamed = {"stream": True, "stream_options": {"include_usage": True}}
    began = time.perf_counter()
    moments: list[float] = []
    tokens = 0
    async with session.post("/v1/completions", json={**more, **streamed, **request}) as response:
        async for line in response.content:
            data = line.removeprefix(b"data: ").strip()
            if not data or data == b"[DONE]":
                continue
            chunk = json.loads(data)
            if chunk["choices"]:
                moments.append(time.perf_counter())
            elif chunk["usage"]:
                tokens = chunk["usage"]["completion_tokens"]
    assert tokens == request["max_tokens"]
    return Times(1, tokens - 1, moments[0] - began, moments[-1] - moments[0])
