"""Clients of the engines: what responses say of their drafts, and what a client's clock says of their times, is the truth."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import math
import operator
import random
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from http.client import HTTPResponse
from typing import Any, NamedTuple

MODEL = "tiny"  # the name under which vLLM serves a model
PROMPTS = (
    "The temperature of the requests decides how well speculation works",
    "def main(folder: Path) -> None:",
    "one two three one two three one two three one two",
    "a draft, the first two layers of the very same weights",
    "return LlamaConfig(vocab_size=VOCABULARY, hidden_size=256)",
)
SHORT_REQUESTS = [
    [{"prompt": chance.choice(PROMPTS), "max_tokens": chance.randint(40, 160)} for _ in range(6)]
    for chance in map(random.Random, range(3))
]
"""Six requests with short prompts of each of three workers: the same ones in every round."""

Body = Mapping[str, Any]


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


class Api(NamedTuple):
    """How an engine is asked, and what its response says."""

    path: str
    prompts: Sequence[object]
    lengths: Sequence[int]  # numbers of tokens that are asked for
    more: Body  # what each request has besides prompt, length and temperature
    truth: Callable[[Body], Truth]


VLLM = Api("/v1/completions", PROMPTS, range(1, 151), {"model": MODEL}, of_response)


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
        return (
            f"{self.requests} requests, {1000 * self.per_token:.2f} ms a token,"
            f" first token {1000 * self.to_first_token:.1f} ms, {1000 * self.per_request:.0f} ms a request"
        )


@dataclass(frozen=True)
class Load:
    """Continuous requests with a concurrency, started within a time limit; all are completed."""

    temperature: float
    seconds: float
    at_once: int = 3
    request_type: str | None = None  # the request type in their header, if any
    api: Api = VLLM


def _post(url: str, body: Body, **headers: str) -> HTTPResponse:
    """Send one request; a status that refuses it is an error."""
    headers["Content-Type"] = "application/json"
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    response: HTTPResponse = urllib.request.urlopen(request, timeout=120)
    return response


def drive(url: str, load: Load, stopped: threading.Event | None = None) -> Truth:
    """Send the load to a server, at most until ``stopped``, and return the sums of its responses."""
    deadline = time.monotonic() + load.seconds
    headers = {"x-request-type": load.request_type} if load.request_type else {}

    def worker(number: int) -> Truth:
        """Send one request after the other; their order and lengths are the same in every run."""
        chance, truth = random.Random(number), Truth()
        while not (stopped and stopped.is_set()) and time.monotonic() <= deadline:
            prompt, length = chance.choice(load.api.prompts), chance.choice(load.api.lengths)
            asked = {"prompt": prompt, "max_tokens": length, "temperature": load.temperature}
            with _post(url + load.api.path, {**load.api.more, **asked}, **headers) as response:
                truth += load.api.truth(json.load(response))
        return truth

    with ThreadPoolExecutor(load.at_once) as pool:
        return sum(pool.map(worker, range(load.at_once)), Truth())


@contextlib.contextmanager
def driving(url: str, load: Load) -> Iterator[Future[Truth]]:
    """Send the load while the block runs, and wait for the last answers: the future has their sums then."""
    stopped = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        answered = pool.submit(drive, url, load, stopped)
        try:
            yield answered
        finally:
            stopped.set()
            answered.result()  # an error of the load explains that of the block


def send(url: str, workers: Sequence[Sequence[Body]]) -> Times:
    """Send the requests of each worker one after the other, all workers at once."""
    with ThreadPoolExecutor(len(workers)) as pool:
        return sum(pool.map(_stream, itertools.repeat(url), workers), Times())


def send_until(happened: Callable[[], bool], url: str, rounds: Sequence[Sequence[Sequence[Body]]]) -> Times:
    """Send whole rounds of requests until a condition is met after one of them."""
    times = Times()
    for workers in rounds:
        times += send(url, workers)
        if happened():
            return times
    raise AssertionError(f"the condition was not met after {times}")


def _stream(url: str, requests: Sequence[Body]) -> Times:
    """Send greedy requests one after the other, and take the moments of the first and the last token of each."""
    more = {"model": MODEL, "temperature": 0, "ignore_eos": True}
    streamed = {"stream": True, "stream_options": {"include_usage": True}}
    times = Times()
    for request in requests:
        began = time.perf_counter()
        moments: list[float] = []
        tokens = 0
        with _post(f"{url}/v1/completions", {**more, **streamed, **request}) as response:
            for line in response:
                data = line.removeprefix(b"data: ").strip()
                if not data or data == b"[DONE]":
                    continue
                chunk = json.loads(data)
                if chunk["choices"]:
                    moments.append(time.perf_counter())
                elif chunk["usage"]:
                    tokens = chunk["usage"]["completion_tokens"]
        assert tokens == request["max_tokens"]
        times += Times(1, tokens - 1, moments[0] - began, moments[-1] - moments[0])
    return times
