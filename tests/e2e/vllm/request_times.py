"""Send streamed requests and take their times with the client's clock: the truth of a speed-up."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import aiohttp
from truth import PROMPTS
from vllm_server import MODEL

VOCABULARY = range(2, 512)
"""Token ids of the models without the special ones."""


@dataclass(frozen=True)
class Times:
    """Sums over requests, in seconds of the client's clock."""

    requests: int = 0
    tokens: int = 0
    """Tokens after the first one of each request."""
    first_token: float = 0.0
    """From the request to its first token."""
    decoding: float = 0.0
    """From the first token to the last one."""
    slowest_first_token: float = 0.0

    def __add__(self, other: Times) -> Times:
        """Add up two sets of requests."""
        return Times(
            self.requests + other.requests,
            self.tokens + other.tokens,
            self.first_token + other.first_token,
            self.decoding + other.decoding,
            max(self.slowest_first_token, other.slowest_first_token),
        )

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
            f"{self.requests} requests, {self.per_token * 1000:.2f} ms a token, "
            f"first token {self.to_first_token * 1000:.1f} ms (at most {self.slowest_first_token:.2f} s), {self.per_request * 1000:.0f} ms a request"
        )


Body = Mapping[str, Any]


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
    timeout = aiohttp.ClientTimeout(total=120)
    # vLLM closes idle connections after 5 s, and a request may meet that end.
    ends = aiohttp.TCPConnector(force_close=True)
    async with aiohttp.ClientSession(url, timeout=timeout, connector=ends, raise_for_status=True) as session:
        found = await asyncio.gather(*(_worker(session, requests) for requests in workers))
    return sum(found, Times())


async def _worker(session: aiohttp.ClientSession, requests: Sequence[Body]) -> Times:
    times = Times()
    for request in requests:
        times += await _stream(session, request)
    return times


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
    first = moments[0] - began
    return Times(1, tokens - 1, first, moments[-1] - moments[0], first)
