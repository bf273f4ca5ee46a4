"""Windows and arms of experiments for tests."""

from math import exp, sqrt

from spec_decode_exporter.config.comparison_settings import ExperimentSettings
from spec_decode_exporter.experiments.arm import Arm, SpeedupBasis
from spec_decode_exporter.experiments.experiment import Member
from spec_decode_exporter.window.engine_windows import (
    NANO,
    Means,
    Window,
    columns,
    position_columns,
    row_of,
    scaled,
)
from spec_decode_exporter.window.histograms import Answers
from spec_decode_exporter.window.poll import UNKNOWN, Counters
from spec_decode_exporter.window.ring import Increments
from tests.fakes.windows import increment

NOW = 1000.0
TIME, END, THROUGHPUT = (
    SpeedupBasis.TIME_PER_OUTPUT_TOKEN,
    SpeedupBasis.END_TO_END,
    SpeedupBasis.THROUGHPUT_PER_REQUEST,
)

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


def window_over(increments, length=300.0, *, depth=0, hidden=(), answers=Answers()):  # noqa: B008
    """The window of these increments; the engine lacks the ``hidden`` counters and gauges."""
    polls, names, gauges = len(increments), UNKNOWN._fields, Means._fields
    sums = dict(zip(names, map(sum, columns(increments, *names)), strict=True))
    sums |= {name: sum(scaled(increments, name)) / polls for name in gauges if polls}
    sums |= dict.fromkeys(hidden)
    return Window(
        length,
        sum(scaled(increments, "covered_nanoseconds")),
        polls,
        Counters(*map(sums.get, names)),
        tuple(map(sum, position_columns(increments, depth))),
        Means(*map(sums.get, gauges)),
        increments,
        answers,
    )


def window_of(every, length=300.0, *, seconds=None, running=6.0, now=NOW, positions=(), hidden=(), **more):
    """A window of increments of a second, each with the counters that ``every`` gives or returns for it."""
    number = int(seconds or length)
    each = [every(second) if callable(every) else every for second in range(number)]
    load = running or 0.0
    rows = [row_of(increment(positions=positions, load=load, **moved), (running, 0.0, 0.0)) for moved in each]
    increments = Increments.of(rows, [now - number + second for second in range(number)])
    unknown = {*hidden, *(() if running is not None else ("running_requests",))}
    return window_over(increments, length, depth=len(positions), hidden=unknown, **more)


KEPT = exp(-1 / 3)


def second_of(random, per_token, state, _second):
    """Return the work of a server in a second with differing requests, and the time of each per token.

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


def arm_with(*windows, **more):
    return Arm(windows, 300.0, NOW, **more)


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
