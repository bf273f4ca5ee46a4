"""Servers that count a request when it ends: pages of SGLang, TensorRT-LLM and llama.cpp from a list of requests."""

from bisect import bisect_right
from collections import Counter
from itertools import accumulate
from random import Random

from spec_decode_exporter.scrape.errors import PollError

_LONG = {0: 700, 1: 500, 2: 300, "drafts": 1000, "generated": 2501, "requests": 1}
K, FIRST_TOKEN, VERIFICATION = 3, 0.05, 0.02  # tokens, and seconds


class EndedRequests:
    """A server with ``running`` requests at all times, each with an acceptance of its own."""

    def __init__(
        self, kind, clock, *, running=4, steps=K, drafts=(20, 200), rates=(0.4, 0.8), seconds=200.0, seed=1,
        shows_steps=True, age=0,
    ):  # fmt: skip
        """Begin requests for ``seconds``; with 0 ``steps`` SGLang and llama.cpp do not speculate.

        ``age``: how many times as much the server had counted before as one long request.
        """
        self.before = Counter({name: age * count for name, count in _LONG.items()})
        self.kind, self.running, self.steps, self.shows_steps = kind, running, steps, shows_steps
        self._clock, self._start = clock, clock.monotonic()
        random, ended = Random(seed), []
        for _ in range(running):  # each time, requests one after the other
            now = -random.random() * VERIFICATION * drafts[1]
            while now < seconds:
                rate, number = random.uniform(*rates), random.randint(*drafts)
                accepted = Counter()
                for _ in range(number):
                    length = next((place for place in range(K) if random.random() > rate), K)
                    accepted.update(range(length))
                now += FIRST_TOKEN + VERIFICATION * number
                if now > 0:
                    generated = 1 + number + accepted.total()
                    ended.append((now, accepted + Counter(requests=1, drafts=number, generated=generated)))
        ended.sort(key=lambda each: each[0])
        self._ends = [end for end, _ in ended]
        self._sums = [*accumulate((sums for _, sums in ended), initial=Counter())]

    def sums(self, now):
        """Return the sums over the requests that ended until ``now``, in seconds since the start."""
        return self._sums[bisect_right(self._ends, now)]

    def answer(self, url):
        if not url.path.endswith("/metrics"):
            raise PollError("status", "status 404")
        page = {"sglang": _sglang, "tensorrt_llm": _tensorrt_llm, "llamacpp": _llamacpp}[self.kind]
        now = self._clock.monotonic() - self._start
        # A counter is created with its first increase.
        values = page(self.before + self.sums(now), self)
        return "".join(f"{name} {value}\n" for name, value in values if value).encode()


def _sglang(its, server):
    labels, rank = '{engine_type="unified",model_name="m"}', '{model_name="m",pp_rank="0",tp_rank="0"}'
    yield f"sglang:num_running_reqs{rank}", server.running
    yield f"sglang:spec_num_steps{rank}", server.shows_steps and (float(server.steps) or "0.0")
    yield f"sglang:spec_accept_rate{rank}", 0.5
    yield f"sglang:generation_tokens_total{labels}", its["generated"]
    yield f"sglang:spec_verify_calls_total{labels}", its["drafts"] if server.steps else 0
    yield f"sglang:num_requests_total{labels}", its["requests"]
    yield f"sglang:time_to_first_token_seconds_count{labels}", its["requests"] + server.running
    waited = FIRST_TOKEN * (its["requests"] + server.running)
    yield f"sglang:time_to_first_token_seconds_sum{labels}", waited
    spent = FIRST_TOKEN * its["requests"] + VERIFICATION * its["drafts"]
    yield f"sglang:e2e_request_latency_seconds_sum{labels}", spent


def _tensorrt_llm(its, server):
    labels = 'engine_type="trtllm",model_name="m"'
    yield f'trtllm_num_requests_running{{{labels},pid="7"}}', server.running
    yield f"trtllm_spec_decode_num_draft_tokens_total{{{labels}}}", K * its["drafts"] + 500
    yield f"trtllm_generation_tokens_total{{{labels}}}", its["generated"]
    yield f"trtllm_time_to_first_token_seconds_count{{{labels}}}", its["requests"]
    yield f"trtllm_request_decode_time_seconds_sum{{{labels}}}", VERIFICATION * its["drafts"]
    for place in range(K):
        of = f'{labels},token_position="{place}"'
        yield f"trtllm_spec_decode_drafted_tokens_total{{{of}}}", its["drafts"]
        yield f"trtllm_spec_decode_accepted_tokens_total{{{of}}}", its[place]


def _llamacpp(its, server):
    """Yield the counters as doubles with six digits, also those at 0; those of positions are integers."""
    accepted = [its[place] for place in range(K)] if server.steps else []
    drafts = its["drafts"] if server.steps else 0
    for name, value in {
        "tokens_predicted_total": its["generated"],
        "tokens_predicted_seconds_total": VERIFICATION * its["drafts"],
        "prompt_tokens_total": 90 * its["requests"],
        "prompt_tokens_cached_total": 10 * its["requests"],
        "prompt_seconds_total": FIRST_TOKEN * its["requests"],
        "requests_processing": server.running,
        "spec_decode_num_drafts_total": drafts,
        "spec_decode_num_draft_tokens_total": K * drafts,
        "spec_decode_num_accepted_tokens_total": sum(accepted),
    }.items():
        yield f"llamacpp:{name}", f"{value:.6g}"
    for place, count in enumerate(accepted):
        yield f'llamacpp:spec_decode_num_accepted_tokens_per_pos_total{{position="{place}"}}', str(count)
