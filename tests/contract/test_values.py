"""Values of queries of dashboards and autoscalers, by promtool; each function runs it once."""

import pytest

from grafana import style
from grafana.promql import FLEET, number_of_word
from tests.contract.grafana.shipped import interpolated
from tests.contract.integrations.shipped import keda_queries
from tests.contract.promql import needs, wrong_values

pytestmark = needs("promtool")


# State sets become the number of their word.

STATE_SETS = {"verdict": style.VERDICTS, "state": style.STATES, "action": style.ACTIONS, "effect": style.EFFECTS}  # fmt: skip


def state_set(label, place, engine="0"):
    """Return the series of one engine: 1 for the word that holds, 0 for all others."""
    own = f'job="j", instance="i", model_name="a", engine="{engine}", {label}='
    return {
        f'spec_decode_m{{{own}"{word.value}"}}': int(number == place)
        for number, word in enumerate(STATE_SETS[label])
    }


def number(label, *key):
    """Return the expression with a value for each variable; a choice of series takes all."""
    expression = number_of_word(FLEET, "m", label, STATE_SETS[label], key)
    return interpolated(expression).replace('=~"any"', '=~".*"')


def test_the_number_of_a_word_is_its_place(tmp_path):
    places = [(label, place) for label, words in STATE_SETS.items() for place in range(len(words))]
    cases = [(number(label), state_set(label, place), {"{}": place}) for label, place in places]
    assert not wrong_values(tmp_path, *cases)


def test_of_several_engines_the_most_urgent_word_is_shown_and_each_has_its_own(tmp_path):
    """5 is both of 1 and 4: were the engines added up, two harmless words would be an urgent one."""
    verdicts = state_set("verdict", 1, "0") | state_set("verdict", 4, "1")
    actions = state_set("action", 7, "0") | state_set("action", 2, "1")
    by_engine = number("action", "engine")
    cases = (
        (number("verdict"), verdicts, {"{}": 4}),
        (by_engine, actions, {'{engine="0"}': 7, '{engine="1"}': 2}),
    )
    assert not wrong_values(tmp_path, *cases)


# The two triggers of KEDA in docs/guide/integrations.md

TIME, LOAD = keda_queries().values()


def engine(pod, seconds, tokens, first, running, crossover=None):
    """Return the series that KEDA reads of an engine; None is a series that is absent."""
    values = {"running_requests": running}
    if seconds is not None:
        values["window_decode_seconds"] = seconds
        values["time_per_output_token_seconds"] = seconds / (tokens - first) if tokens > first else None
    labels = f'namespace="inference", pod="{pod}", target="{pod}"'
    series = {f'spec_decode_{name}{{{labels}, window="5m"}}': value for name, value in values.items()}
    series[f"spec_decode_crossover_running_requests{{{labels}}}"] = crossover
    return {name: value for name, value in series.items() if value is not None}


BUSY = engine("vllm-0", 50, 2100, 100, 12, 20) | engine("vllm-1", 30, 2100, 100, 6, 10)
OTHER = engine("chat-0", 500, 1100, 100, 90, 10)
UNREACHABLE = engine("vllm-0", None, None, None, None)
IDLE = engine("vllm-0", 0, 0, 0, 0, 20)


@pytest.mark.parametrize(
    ("query", "cases"),
    [
        pytest.param(
            TIME,
            [
                (BUSY, 20),  # 80 s in decode steps, 4000 tokens after the first
                (IDLE, 0),  # a replica may go
                (engine("vllm-0", None, 2100, 100, 12), None),  # requests run, and their time is unknown
                (UNREACHABLE, None),
            ],
            id="milliseconds per output token, over all tokens",
        ),
        pytest.param(
            LOAD,
            [
                (BUSY, 0.6),  # 18 of 30 requests
                (BUSY | OTHER, 0.6),
                (BUSY | engine("vllm-2", 9, 900, 9, 40), 0.6),  # an engine without a crossover has no weight
                (engine("vllm-0", 50, 2100, 100, 12), 0),  # unknown crossover: this metric asks for nothing
                (IDLE, 0),
                (UNREACHABLE, None),
            ],
            id="load relative to the crossovers",
        ),
    ],
)
def test_an_autoscaler_reads(tmp_path, query, cases):
    expected = [{"{}": value} if value is not None else {} for _, value in cases]
    asked = [(query, series | {"up": 1}, its) for (series, _), its in zip(cases, expected, strict=True)]
    assert not wrong_values(tmp_path, *asked)
