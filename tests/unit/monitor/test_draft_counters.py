"""Whether an engine speculates, by its pages; and counters that they lack or count otherwise."""

from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from spec_decode_exporter.analysis.knowledge import Drafting
from spec_decode_exporter.analysis.speculation import Speculation
from spec_decode_exporter.config.batch_schedule import MAX_POSITIONS, BatchSchedule
from spec_decode_exporter.monitor.draft_counters import DraftCounters
from spec_decode_exporter.scrape.engines import ENGINES, Counter, Latency
from spec_decode_exporter.scrape.sample import Buckets, SampleReader
from spec_decode_exporter.window.poll import TORN_DRAFTS
from tests.conftest import make_sample
from tests.paths import DATA

KINDS = {kind.name: kind for kind in ENGINES}
PAGES = DATA / "pages"


def sample(kind="vllm", *drafts, **more):
    return replace(make_sample(*drafts, **more), kind=KINDS[kind])


def plain(tokens, *, steps=None, first=20, **more):
    """Return a sample with decoded tokens, by default one a decode step."""
    steps = tokens if steps is None else steps
    return sample(generation_tokens=tokens + first, first_tokens=first, decode_steps=steps, **more)


def complete(counters, page, front_end="", **speculation):
    return counters.complete(page, Speculation(**speculation), front_end)


DRAFTED = sample("vllm", 10, 40, 20)
ZERO = {"generation_tokens": 200, "decode_nanoseconds": 30 * 10**9}


@pytest.mark.parametrize(
    ("samples", "more", "state"),
    [
        ((DRAFTED,), {}, Drafting.DRAFTS),
        ((sample("vllm", 0, 0, 0),), {}, Drafting.DRAFTS),
        ((sample("vllm", None, 400, 200),), {}, Drafting.DRAFTS),
        ((sample("vllm", None, 0, 0),), {}, Drafting.DRAFTS),
        ((sample("vllm", None, None, 200),), {}, Drafting.DRAFTS),
        ((plain(5000, positions=(0, 0)),), {}, Drafting.DRAFTS),
        ((sample("vllm", reported_acceptance_ratio=0.0),), {}, Drafting.DRAFTS),
        # Without counters of drafts an engine is off only if its page would show them: tokens and steps are there.
        ((plain(0),), {}, Drafting.OFF),
        ((plain(5000),), {}, Drafting.OFF),
        ((sample("vllm", generation_tokens=5000),), {}, Drafting.UNKNOWN),
        ((sample("vllm", generation_tokens=5000, decode_steps=4900),), {}, Drafting.UNKNOWN),
        ((plain(1750, steps=1000),), {}, Drafting.UNCOUNTED),
        ((plain(1036, steps=1000),), {}, Drafting.OFF),
        ((plain(1037, steps=1000),), {}, Drafting.UNCOUNTED),
        ((plain(1037, steps=1000, running_requests=1.0),), {}, Drafting.OFF),
        # A front end whose counters come with the first draft, or are 0 without speculation too.
        ((plain(99),), {"front_end": "rust"}, Drafting.UNDECIDED),
        ((plain(100),), {"front_end": "rust"}, Drafting.OFF),
        ((plain(99),), {"front_end": "ray"}, Drafting.UNDECIDED),
        ((plain(100),), {"front_end": "ray"}, Drafting.OFF),
        ((plain(99, drafts=0),), {"front_end": "rust"}, Drafting.UNDECIDED),
        ((plain(100, drafts=0),), {"front_end": "rust"}, Drafting.OFF),
        ((plain(1750, steps=1000, drafts=0),), {"front_end": "rust"}, Drafting.UNCOUNTED),
        ((plain(100, drafts=0),), {"front_end": "rust", "schedule": BatchSchedule((1,), (0,))}, Drafting.DRAFTS),
        ((plain(100, drafts=0, positions=(0,)),), {"front_end": "rust"}, Drafting.DRAFTS),
        ((DRAFTED, plain(99, drafts=0)), {"front_end": "rust"}, Drafting.UNDECIDED),
        # llama.cpp always has the counters; a search may find nothing for long.
        ((sample("llamacpp", 0, 0, 0, **ZERO),), {}, Drafting.OFF),
        ((sample("llamacpp", 0, 0, 0, **ZERO | {"generation_tokens": 99}),), {}, Drafting.UNDECIDED),
        ((sample("llamacpp", 0, 0, 0, **ZERO | {"decode_nanoseconds": 10**9}),), {}, Drafting.UNDECIDED),
        ((sample("llamacpp", 0, 0, 0, **ZERO),), {"method": "ngram-simple"}, Drafting.DRAFTS),
        ((sample("llamacpp", 0, 0, 0, **ZERO),), {"method": "draft_model"}, Drafting.OFF),
        ((sample("llamacpp", 1, 4, 0, **ZERO),), {}, Drafting.DRAFTS),
        ((sample("llamacpp", **ZERO),), {}, Drafting.UNKNOWN),
        # SGLang shows how many steps it drafts; from before May 2026 its own acceptance alone, 0 when idle.
        ((sample("sglang", draft_steps=0.0, generation_tokens=5),), {}, Drafting.OFF),
        ((sample("sglang", draft_steps=3.0),), {}, Drafting.DRAFTS),
        ((sample("sglang", reported_acceptance_ratio=0.0, reported_acceptance_length=0.0),), {}, Drafting.UNKNOWN),
        ((sample("sglang", reported_acceptance_length=2.3), sample("sglang", reported_acceptance_length=0.0)), {}, Drafting.DRAFTS),
        ((sample("sglang", generation_tokens=5000),), {}, Drafting.UNKNOWN),
        # TensorRT-LLM's page never shows that it does not speculate.
        ((sample("tensorrt_llm", None, 400, 200),), {}, Drafting.DRAFTS),
        ((sample("tensorrt_llm", None, 0, 0, generation_tokens=5000),), {}, Drafting.UNKNOWN),
        ((sample("tensorrt_llm", reported_acceptance_length=2.3),), {}, Drafting.DRAFTS),
        ((sample("tensorrt_llm", generation_tokens=5000),), {"method": "eagle3"}, Drafting.DRAFTS),
        ((replace(plain(5000), kind=KINDS["lmdeploy"]),), {}, Drafting.OFF),
        ((sample("lmdeploy", generation_tokens=5000, first_tokens=5),), {}, Drafting.UNKNOWN),
    ],
)  # fmt: skip
def test_an_engine_speculates_or_not_or_it_is_unknown(samples, more, state):
    counters = DraftCounters()
    for each in samples:
        complete(counters, each, **more)
    assert counters.drafting is state


# Drafts that a page does not count


@pytest.mark.parametrize(
    ("speculation", "drafts"),
    [
        ({"method": "mtp", "tokens": 4}, 100),
        ({"method": "mtp"}, 200),
        ({"tokens": 4}, None),
        ({"method": "ngram", "tokens": 4}, None),
        ({"method": "dspark", "tokens": 4, "is_adaptive": True}, None),
        ({"method": "eagle", "tokens": 4, "varies_tokens": True}, None),
        ({"method": "mtp", "tokens": 4, "schedule": BatchSchedule((1, 9), (4, 2))}, None),
    ],
)  # fmt: skip
def test_drafts_and_their_tokens_follow_from_each_other_if_each_draft_has_k(speculation, drafts):
    counters = DraftCounters()
    untold = complete(counters, sample("vllm", 100, None, 200, positions=(120, 80)), **speculation)
    assert untold[Counter.DRAFT_TOKENS] == (drafts and 100 * (400 // drafts))
    counted = complete(counters, sample("vllm", None, 401, 200, positions=(120, 80)), **speculation)
    assert counted[Counter.DRAFTS] == drafts
    assert (counted[Counter.DRAFT_TOKENS], counters.drafting) == (401, Drafting.DRAFTS)
    known = complete(counters, sample("vllm", 99, 401, 200), **speculation)
    assert known[Counter.DRAFTS] == 99


def test_accepted_tokens_are_those_of_all_positions():
    counters = DraftCounters()
    counted = complete(counters, sample("vllm", 100, 400, None, positions=(120, 80)))
    assert counted[Counter.ACCEPTED_TOKENS] == 200
    beyond = complete(counters, sample("vllm", 100, 400, None, positions=(1,) * MAX_POSITIONS))
    assert beyond[Counter.ACCEPTED_TOKENS] is None


def test_the_iterations_of_an_engine_that_counts_ended_requests_give_no_drafts():
    ended = sample("tensorrt_llm", None, 400, 200)
    assert complete(DraftCounters(), ended, method="eagle3", tokens=4)[Counter.DRAFTS] is None


def test_settings_that_arrive_later_begin_again_and_those_that_stay_do_not():
    """Else all drafts of the process would be new."""
    counters = DraftCounters()
    complete(counters, sample("vllm", None, 400, 200))
    begins = []
    for drafted in (404, 408):
        complete(counters, sample("vllm", None, drafted, 200), method="mtp", tokens=4)
        begins.append(counters.begins_again)
    assert begins == [True, False]


@pytest.mark.parametrize(("drafts", "begins_again"), [(216, False), (217, True), (10_000, True)])
def test_counters_that_an_allow_list_has_from_now_on_begin_again(drafts, begins_again):
    """A first draft that creates its counter is new; more than the tokens since the last poll are not."""
    counters = DraftCounters()
    complete(counters, sample("vllm", generation_tokens=5000))
    complete(counters, sample("vllm", drafts, 4 * drafts, drafts, generation_tokens=5200))
    assert counters.begins_again is begins_again


# Steps


def tokens_as_steps(accepted, *, steps=None, drafts=1000, first=20, **more):
    """Return a sample of 1000 drafts whose decode steps are its tokens."""
    decoded = 1000 + accepted
    return sample(
        "vllm",
        drafts,
        4000,
        accepted,
        generation_tokens=decoded + first,
        first_tokens=first,
        decode_steps=decoded if steps is None else steps,
        **more,
    )


@pytest.mark.parametrize(
    ("page", "steps"),
    [
        (tokens_as_steps(800), 1000),
        (tokens_as_steps(800, steps=1000), 1000),
        (tokens_as_steps(800, steps=1704), 1000),
        (tokens_as_steps(800, steps=1703), 1703),
        (tokens_as_steps(52, drafts=950), 1000),
        (tokens_as_steps(30), 1030),
        # Answers of two tokens: all accepted ones lie beyond the end, and each of the 1800 steps drafted.
        (tokens_as_steps(800, drafts=1800), 1800),
        (tokens_as_steps(800, drafts=None), 1000),
    ],
)
def test_a_server_that_counts_each_token_as_a_step_has_its_tokens_less_the_accepted_ones(page, steps):
    counters = DraftCounters()
    counted = complete(counters, page)
    assert counted[Counter.DECODE_STEPS] == steps
    assert counters.counts_tokens is (steps != page[Counter.DECODE_STEPS])


@given(st.integers(1, 2000), st.floats(0, 5), st.integers(0, 64), st.floats(-1, 1), st.booleans())
@example(6, 4.0, 3, 0.0, False)
def test_neither_way_to_count_steps_is_taken_for_the_other(drafts, length, running, late, are_tokens):
    """While a page is rendered, its counters differ by some drafts and two tokens a running request."""
    tolerance, accepted = TORN_DRAFTS + 2 * running, round(drafts * length)
    steps = max(0, drafts + are_tokens * accepted + round(late * tolerance))
    page = sample(
        "vllm",
        drafts,
        5 * drafts,
        accepted,
        generation_tokens=drafts + accepted + 3,
        first_tokens=3,
        decode_steps=steps,
        running_requests=float(running),
    )
    counters = DraftCounters()
    complete(counters, page)
    is_clear = accepted > 3 * tolerance + 0.02 * (drafts + accepted)
    assert counters.counts_tokens in {are_tokens, are_tokens and is_clear}


def test_quantiles_of_steps_are_absent_if_each_token_is_one():
    buckets = dict.fromkeys((Latency.DECODE_STEP, Latency.TIME_TO_FIRST_TOKEN), Buckets((1.0,), (5,)))
    counted = complete(DraftCounters(), tokens_as_steps(800, latencies=buckets))
    assert counted.latencies.keys() == {Latency.TIME_TO_FIRST_TOKEN}
    page = tokens_as_steps(800, steps=1000, latencies=buckets)
    assert complete(DraftCounters(), page).latencies == buckets


def test_steps_stay_those_of_tokens_in_a_new_process_until_its_counters_say_otherwise():
    counters = DraftCounters()
    begins = []
    for page in (
        tokens_as_steps(0),
        tokens_as_steps(800),
        tokens_as_steps(10),
        tokens_as_steps(900, steps=1000),
    ):
        complete(counters, page)
        begins.append((counters.counts_tokens, counters.begins_again))
    assert begins == [(False, False), (True, True), (True, False), (False, True)]


@pytest.mark.parametrize(
    "name", ["vllm-0.8.5-v1.prom", "vllm-0.10.2.prom", "vllm-0.14.0.prom", "vllm-0.33.0-python-k4.prom"]
)
def test_the_steps_of_recorded_servers_are_theirs(name):
    reading = SampleReader().read((PAGES / name).read_bytes(), with_latencies=False)
    for page in reading.samples.values():
        assert complete(DraftCounters(), page) == page
