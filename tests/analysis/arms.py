"""Windows and arms of experiments, as tests need them."""

from __future__ import annotations

from math import exp, sqrt

from exporter.analysis.arm import Arm, Basis
from exporter.analysis.experiment import Member
from exporter.config.experiment_settings import ExperimentSettings
from exporter.scrape.engines import Counter
from exporter.window.counts import Increment
from exporter.window.ledger import Known, Ledger

NANO = 10**9
NOW = 1000.0
TIME, END, THROUGHPUT = Basis.TIME_PER_OUTPUT_TOKEN, Basis.END_TO_END, Basis.THROUGHPUT_PER_REQUEST

# An engine with 6 requests at a time. A step takes 25 ms, so 240 steps a second give as many tokens; a request
# has 121, the first of which no step gives: 2 begin a second, and one takes 3 s and 0.2 s for its prompt.
PLAIN = {
    "generation_tokens": 242,
    "first_tokens": 2,
    "decode_steps": 240,
    "decode_nanoseconds": 6 * NANO,
    "prompt_tokens": 800,
    "finished_requests": 2,
    "end_to_end_nanoseconds": 6_400_000_000,
}
# Steps of 30 ms that give 2.4 tokens each: 200 a second, 480 tokens, so four requests. 1.5 s and 0.2 s each.
EAGLE = {
    "drafts": 200,
    "draft_tokens": 600,
    "accepted_tokens": 280,
    "generation_tokens": 484,
    "first_tokens": 4,
    "decode_steps": 200,
    "decode_nanoseconds": 6 * NANO,
    "prompt_tokens": 1600,
    "finished_requests": 4,
    "end_to_end_nanoseconds": 6_800_000_000,
}


def window_of(every, length=300.0, *, seconds=None, running=6.0, hidden=(), now=NOW):
    """A window of increments of a second, each with the counters that ``every`` gives or returns for it."""
    ledger, number = Ledger(length), int(seconds or length)
    for second in range(number):
        moved = every(second) if callable(every) else every
        counters = tuple(moved.get(counter.name.lower(), 0) for counter in Counter)
        begin = now - number + second
        ledger.add(Increment(begin, begin + 1.0, counters, ()), (running, 0.0, 0.0), 1.0)
    known = Known(tuple(counter not in hidden for counter in Counter), (running is not None, True, True), 0)
    return ledger.window(length, 1.0, now, known)


KEPT = exp(-1 / 3)


def second_of(random, per_token, state, _second):
    """What a server does in a second whose requests differ, and what each takes a token.

    Six requests run for 3 s each, so what a second is like has changed by then.
    """
    state[0] = KEPT * state[0] + sqrt(1 - KEPT**2) * random.gauss(0, 0.3)
    tokens = max(1, round(random.gauss(240, 30)))
    seconds = tokens * per_token * (1 + state[0])
    return {
        "generation_tokens": tokens + 2,
        "first_tokens": 2,
        "decode_nanoseconds": round(seconds * NANO),
    }


def arm_with(*windows, length=300.0):
    return Arm(length, NOW, windows)


def times(counters, factor):
    return {name: round(count * factor) for name, count in counters.items()}


SETTINGS = ExperimentSettings.model_validate(
    {
        "name": "drafter",
        "arms": {name: {"match": {"method": name}} for name in ("off", "eagle", "ngram")},
        "baseline": "off",
    }
)


def member(method, *windows, model_name="m", **labels):
    return Member({"name": "t", "model_name": model_name, "method": method, **labels}, windows)
