"""Servers that count a request when it ends: pages of SGLang and TensorRT-LLM from a list of requests."""

from bisect import bisect_right
from collections.abc import Iterable
from itertools import accumulate
from random import Random
from typing import NamedTuple

from spec_decode_exporter.scrape.errors import PollError

FIRST_TOKEN, VERIFICATION = 0.05, 0.02  # seconds


class Ended(NamedTuple):
    """A request with its drafts, each of which has its draft tokens and the accepted ones."""

    begin: float
    drafts: tuple[tuple[int, int], ...]

    @property
    def end(self):
        return self.begin + FIRST_TOKEN + VERIFICATION * len(self.drafts)

    @property
    def tokens(self):
        return 1 + sum(1 + accepted for _, accepted in self.drafts)

    def at(self, tokens, which):
        """Return the draft tokens (0) or the accepted ones (1) at each of K positions."""
        return [sum(draft[which] > position for draft in self.drafts) for position in range(tokens)]


class Sums(NamedTuple):
    """Sums over requests that ended."""

    requests: int = 0
    verifications: int = 0
    generated: int = 0
    decode_seconds: float = 0.0
    drafted: tuple[int, ...] = ()
    accepted: tuple[int, ...] = ()

    def __add__(self, other):
        return Sums(*map(_added, self, other))

    def __sub__(self, other):
        return Sums(*(_added(one, its, -1) for one, its in zip(self, other, strict=True)))


def _added(one, other, sign=1):
    if isinstance(one, tuple):
        return tuple(a + sign * b for a, b in zip(one, other, strict=True))
    return one + sign * other


class EndedRequests:
    """A server with ``running`` requests at all times, each with an acceptance of its own."""

    def __init__(
        self,
        kind,
        *,
        running=4,
        tokens=3,
        steps=3,
        drafts=(20, 200),
        rates=(0.4, 0.8),
        seconds=200.0,
        seed=1,
        clock=None,
    ):
        """Begin requests for so many ``seconds``; with 0 ``steps`` SGLang does not speculate."""
        self.kind, self.running, self.steps = kind, running, steps
        self._clock, self._start = clock, clock.monotonic() if clock else 0.0
        random = Random(seed)
        requests = [each for _ in range(running) for each in _slot(random, tokens, drafts, rates, seconds)]
        requests.sort(key=lambda each: each.end)
        self._ends = [each.end for each in requests]
        none = Sums(drafted=(0,) * tokens, accepted=(0,) * tokens)
        self._sums = [*accumulate((sums_of(each, tokens) for each in requests), initial=none)]

    def sums(self, now):
        """Return the sums over the requests that ended until ``now``, in seconds since the start."""
        return self._sums[bisect_right(self._ends, now)]

    def page(self, now):
        lines = {"sglang": _sglang, "tensorrt_llm": _tensorrt_llm}[self.kind](self.sums(now), self)
        return "".join(f"{line}\n" for line in lines).encode()

    def answer(self, url):
        if not url.path.endswith("/metrics"):
            raise PollError("status", "status 404")
        return self.page(self._clock.monotonic() - self._start)


def _slot(random, tokens, drafts, rates, seconds):
    now = -random.random() * VERIFICATION * drafts[1]
    while now < seconds:
        rate, number = random.uniform(*rates), random.randint(*drafts)
        request = Ended(now, tuple((tokens, _accepted(random, rate, tokens)) for _ in range(number)))
        if request.end > 0:
            yield request
        now = request.end


def _accepted(random, rate, tokens):
    return next((place for place in range(tokens) if random.random() > rate), tokens)


def sums_of(request, tokens):
    return Sums(
        1,
        len(request.drafts),
        request.tokens,
        VERIFICATION * len(request.drafts),
        tuple(request.at(tokens, 0)),
        tuple(request.at(tokens, 1)),
    )


def _sglang(its: Sums, server) -> Iterable[str]:
    request, rank = 'engine_type="unified",model_name="m"', 'model_name="m",pp_rank="0",tp_rank="0"'
    yield f"sglang:num_running_reqs{{{rank}}} {float(server.running)}"
    yield f"sglang:spec_num_steps{{{rank}}} {float(server.steps)}"
    yield f"sglang:spec_accept_rate{{{rank}}} 0.5"
    for name, value in (
        ("prompt_tokens", 100 * its.requests),
        ("generation_tokens", its.generated),
        ("spec_verify_calls", its.verifications if server.steps else 0),
        ("num_requests", its.requests),
    ):
        if value:  # created with its first increase
            yield f"sglang:{name}_total{{{request}}} {float(value)}"
    yield f"sglang:inter_token_latency_seconds_sum{{{request}}} {its.decode_seconds}"
    yield f"sglang:time_to_first_token_seconds_sum{{{request}}} {FIRST_TOKEN * its.requests}"


def _tensorrt_llm(its: Sums, server) -> Iterable[str]:
    labels = 'engine_type="trtllm",model_name="m"'
    yield f'trtllm_num_requests_running{{{labels},pid="7"}} {float(server.running)}'
    yield f"trtllm_spec_decode_num_draft_tokens_total{{{labels}}} {sum(its.drafted) + 500.0}"
    yield f"trtllm_generation_tokens_total{{{labels}}} {float(its.generated)}"
    yield f"trtllm_time_to_first_token_seconds_count{{{labels}}} {float(its.requests)}"
    yield f"trtllm_time_to_first_token_seconds_sum{{{labels}}} {FIRST_TOKEN * its.requests}"
    yield f"trtllm_request_decode_time_seconds_sum{{{labels}}} {its.decode_seconds}"
    for name, counts in (("drafted", its.drafted), ("accepted", its.accepted)):
        for position, count in enumerate(counts):
            if count:  # created with its first token
                of = f'{labels},token_position="{position}"'
                yield f"trtllm_spec_decode_{name}_tokens_total{{{of}}} {float(count)}"
