"""Send requests, and add up the speculation of their responses: the ground truth."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import math
import random
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import aiohttp
from vllm_server import MODEL

PROMPTS = (
    "The temperature of the requests decides how well speculation works",
    "def main(folder: Path) -> None:",
    "one two three one two three one two three one two",
    "a draft, the first two layers of the very same weights",
    "return LlamaConfig(vocab_size=VOCABULARY, hidden_size=256)",
)


@dataclass(frozen=True)
class Truth:
    """Sums over responses, with the names of the exporter's counters."""

    requests: int = 0
    drafts: int = 0
    draft_tokens: int = 0
    accepted_tokens: int = 0
    generation_tokens: int = 0
    decode_seconds: float = 0.0
    positions: tuple[int, ...] = ()
    """Drafts whose token at position i was accepted."""
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


def total(truths: Iterable[Truth]) -> Truth:
    """Add up any number of sets of responses."""
    return sum(truths, Truth())


@dataclass(frozen=True)
class Load:
    """Continuous requests with a concurrency, started within a time limit; all are completed."""

    temperature: float
    seconds: float
    at_once: int = 3
    request_type: str | None = None
    """The request type in their header, if any."""

    @property
    def headers(self) -> Mapping[str, str]:
        """Headers of each request."""
        return {"x-request-type": self.request_type} if self.request_type else {}


def drive(url: str, load: Load) -> Truth:
    """Send the load to a server and return the sums of its responses; any status but 200 is an error."""
    return asyncio.run(_drive(url, load, threading.Event()))


@contextlib.contextmanager
def driving(url: str, load: Load) -> Iterator[None]:
    """Send the load while the block runs, and wait for the last answers."""
    stopped = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        answered = pool.submit(asyncio.run, _drive(url, load, stopped))
        try:
            yield
        finally:
            stopped.set()
        answered.result()


async def _drive(url: str, load: Load, stopped: threading.Event) -> Truth:
    deadline = time.monotonic() + load.seconds
    timeout = aiohttp.ClientTimeout(total=120)
    async with aiohttp.ClientSession(
        url, timeout=timeout, raise_for_status=True, headers=load.headers
    ) as session:
        workers = [
            _worker(session, load, number, lambda: stopped.is_set() or time.monotonic() > deadline)
            for number in range(load.at_once)
        ]
        return total(await asyncio.gather(*workers))


async def _worker(
    session: aiohttp.ClientSession, load: Load, number: int, enough: Callable[[], bool]
) -> Truth:
    """Send one request after the other; their order and lengths are the same in every run."""
    chance = random.Random(number)
    truth = Truth()
    while not enough():
        request = {
            "model": MODEL,
            "prompt": chance.choice(PROMPTS),
            "max_tokens": chance.randint(1, 150),
            "temperature": load.temperature,
        }
        async with session.post("/v1/completions", json=request) as response:
            truth += of_response(await response.json())
    return truth
