"""Request store: groups, windows, cardinality limits and evaluation intervals."""

import asyncio
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spec_decode_exporter.config.schema import RequestSettings
from spec_decode_exporter.experiments.pace import TypeTimes
from spec_decode_exporter.requests.record import RequestRecord
from spec_decode_exporter.requests.store import EVALUATION_SECONDS, MAX_EAGER_REQUESTS, RequestStore
from spec_decode_exporter.requests.summary import GroupKey, Percentiles
from tests.fakes.costs import make_cost
from tests.unit.requests.conftest import COST, evaluate, request_of


def take(store, now=1000.0, number=1, *, drafts=30, accepted_tokens=60, cost=COST, **request):
    for _ in range(number):
        store.take(request_of(drafts, accepted_tokens, **request), now, cost)


@pytest.fixture
def store():
    return RequestStore(RequestSettings())


def in_windows(found):
    return {
        label: sum(model.summary.requests for model in window.models)
        for label, window in found.windows.items()
    }


# Groups and windows.


def test_a_request_is_in_its_group_and_in_its_model(store):
    take(store, request_type="chat", temperature=0.7, completion_tokens=101, decode_seconds=2.0)
    found = evaluate(store, 1000.0)
    key = GroupKey("llama", "chat", "0.3-0.7")
    (group,), (model,) = found.windows["30s"].groups, found.windows["30s"].models
    assert group.key == key
    assert group.summary.acceptance_ratio == Percentiles(0.5, 0.5, 0.5)
    assert group.summary.acceptance_length_tokens == Percentiles(3.0, 3.0, 3.0)
    assert group.summary.time_per_output_token_seconds.p50 == pytest.approx(0.02)
    assert model.model_name == "llama"
    for summary in (group.summary, model.summary, found.since_start[key]):
        assert (summary.requests, summary.drafts) == (1, 30)
        assert (summary.draft_tokens, summary.accepted_tokens) == (120, 60)
    assert found.since_start[key].acceptance_ratio_histogram.sum == 0.5
    assert sum(found.since_start[key].acceptance_length_tokens_histogram.counts) == 1


def test_with_more_requests_than_are_kept_a_window_covers_the_newest_ones():
    store = RequestStore(RequestSettings(keep=100))
    for second in range(400):
        take(store, float(second))
    found = evaluate(store, 400.0)
    assert in_windows(found) == {"30s": 30, "5m": 100}
    assert [window.partial for window in found.windows.values()] == [False, True]
    assert found.windows["5m"].covered_seconds == 101.0
    assert found.taken == found.since_start[GroupKey("llama", "unknown", "unknown")].requests == 400


def test_a_kept_request_takes_bounded_memory_whatever_the_sender_writes():
    """The bound is the size that the key `requests.keep` documents."""
    store, number = RequestStore(RequestSettings(keep=1000)), 2000
    long = {"model_name": "m" * 256, "request_type": "t" * 256, "user": "u" * 16}
    times = {"completion_tokens": 10**6, "decode_seconds": 1.5, "first_token_seconds": 0.5}
    numbers = {"prompt_tokens": 10**6, "cached_tokens": 10**5}
    records = [
        RequestRecord(f"{each}{long['model_name']}", 10**5 + each, 10**7, 10**6 + each, 1000,
                      f"{each}{long['request_type']}", each / 10**5, user=f"{each}", target="t", **times, **numbers)
        for each in range(number)
    ]  # fmt: skip
    for record in records[:1000]:
        store.take(record, 1000.0, COST)
    tracemalloc.start()
    try:
        for record in records[1000:]:
            store.take(record, 1000.0, COST)
        kept = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert 300 * 1000 < kept < 700 * 1000


def test_the_times_of_a_target_are_summed_by_type_and_temperature(store):
    timed = {"completion_tokens": 101, "decode_seconds": 2.0, "request_type": "chat", "temperature": 0.0}
    for moment in (1010.0, 1070.0, 1100.0):
        take(store, moment, target="a", **timed)
    take(store, 1070.0, target="b", **timed)
    for unknown in ({"decode_seconds": None}, {"completion_tokens": 1}, {"completion_tokens": None}):
        take(store, 1070.0, target="a", **{**timed, **unknown})
    take(store, 1070.0, target="a", **{**timed, "request_type": "code"})
    take(store, 1070.0, **timed)
    evaluate(store, 1100.0)
    chat, code = ("chat 0", TypeTimes(4.0, 200.0)), ("code 0", TypeTimes(2.0, 100.0))
    assert store.times("llama", "a", 1010.0, 1100.0) == dict([chat, code])
    assert store.times("llama", "a", 1100.0, 1200.0) == store.times("other", "a", 0.0, 2000.0) == {}
    assert store.times("llama", "", 1010.0, 1100.0) == {}


def test_a_window_that_a_reload_made_longer_is_partial(store):
    evaluate(store, 0.0)
    for now in range(0, 7200, 60):
        take(store, float(now))
        assert evaluate(store, float(now)).windows["5m"].partial is (now < 300)
    longer = (30.0, 300.0, 3600.0)
    found = evaluate(store, 7200.0, longer)
    assert [label for label, window in found.windows.items() if window.partial] == ["1h"]
    for now in range(7200, 10_500, 60):
        take(store, float(now))
    found = evaluate(store, 10_500.0, longer)
    assert not any(window.partial for window in found.windows.values())
    assert in_windows(found)["1h"] == 60


def test_each_request_is_evaluated_at_its_own_cost(store):
    for cost in (make_cost(0.05, 0.0), make_cost(0.5, 0.0), None):
        take(store, accepted_tokens=30, cost=cost)
    summary = evaluate(store, 1000.0).windows["30s"].models[0].summary
    # 30 drafts of four give 60 tokens, in the time of 30 · 1.2 = 36 or of 30 · 3 = 90.
    assert (summary.requests, summary.evaluated, summary.below_break_even) == (3, 2, 1)


# Limits of groups.


def test_types_and_combinations_beyond_the_limit_are_other():
    store = RequestStore(RequestSettings(types=2))
    for kind in ("a", "b", "c", "d", "a"):
        take(store, request_type=kind)
    found = evaluate(store, 1000.0)
    by_type = {key.request_type: group.requests for key, group in found.since_start.items()}
    assert (by_type, found.folded["request_type"]) == ({"a": 2, "b": 1, "other": 2}, 2)
    store = RequestStore(RequestSettings(groups=1))
    for temperature in (0.0, 0.5, 2.0):
        take(store, temperature=temperature, request_type="chat")
    found = evaluate(store, 1000.0)
    assert {key: group.requests for key, group in found.since_start.items()} == {
        GroupKey("llama", "chat", "0"): 1,
        GroupKey("llama", "other", "other"): 2,
    }
    assert found.folded["group"] == 2


def test_a_name_without_a_request_for_a_period_loses_its_slot_and_its_totals_end():
    store = RequestStore(RequestSettings(types=1, models=1, groups=2))
    evaluate(store, 1000.0)
    for now, kind, temperature in (
        (1000.0, "old", 0.0),
        (1000.0, "old", 0.5),
        (1250.0, "new", 0.0),  # the type that holds the slot had requests in this period
        (1300.0, "old", 0.0),  # the period ends: another one begins
        (1400.0, "new", 0.0),
        (1600.0, "old", 0.0),  # it ends: the combination with 0.5 had no request
        (1900.0, "new", 0.0),
        (2200.0, "new", 0.0),  # it ends: the old type had no request
    ):
        take(store, now, request_type=kind, temperature=temperature)
    found = evaluate(store, 2200.0)
    # The totals of an ended combination do not move to other: its counters would jump.
    totals = {(key.request_type, key.temperature): group.requests for key, group in found.since_start.items()}
    assert totals == {("other", "0"): 1, ("other", "other"): 2, ("new", "0"): 1}
    assert found.taken == 8


def test_users_are_distinguished_by_model_and_those_beyond_the_limit_are_other(tmp_path):
    salt = tmp_path / "salt"
    salt.write_text("0123456789abcdef")
    limited = RequestSettings(users={"salt_file": str(salt), "max": 10})
    store = RequestStore(limited)
    take(store, user="u1", model_name="qwen")
    for user in ("u1", "u2", "u1", ""):
        take(store, user=user)
    found = {(one.user, one.model_name): one.summary.requests for one in evaluate(store, 1000.0).users}
    assert found == {("u1", "llama"): 2, ("u1", "qwen"): 1, ("u2", "llama"): 1}
    store = RequestStore(limited)
    for number in range(30):
        take(store, user=f"u{number}")
    found = evaluate(store, 1000.0)
    assert len(found.users) == 11
    assert {one.user: one.summary.requests for one in found.users}["other"] == found.folded["user"] == 20


# Evaluations.


async def test_findings_are_reused_until_something_changes(store):
    take(store)
    # Concurrent readers share one evaluation.
    first, other = await asyncio.gather(*(store.findings((30.0,), 1000.0) for _ in range(2)))
    assert other.windows is first.windows
    assert (await store.findings((30.0,), 1004.9)).windows is first.windows
    take(store, 1004.9)
    assert in_windows(await store.findings((30.0,), 1004.9)) == {"30s": 2}
    assert in_windows(await store.findings((30.0,), 1040.0)) == {"30s": 0}


async def test_many_requests_are_evaluated_only_at_intervals(store):
    take(store, number=MAX_EAGER_REQUESTS + 1)
    first = await store.findings((30.0,), 1000.0)
    take(store, 1001.0)
    soon = await store.findings((30.0,), 1001.0)
    assert soon.windows is first.windows
    (totals,) = soon.since_start.values()
    assert totals.requests == soon.taken == MAX_EAGER_REQUESTS + 2
    later = await store.findings((30.0,), 1000.0 + EVALUATION_SECONDS)
    assert in_windows(later) == {"30s": MAX_EAGER_REQUESTS + 2}
    for now, number in ((2000.0, 1), (2001.0, 2)):
        take(store, now)
        assert in_windows(await store.findings((30.0,), now)) == {"30s": number}


requests = st.builds(
    lambda model, kind, temperature, drafts, accepted, user: RequestRecord(
        model, drafts, 4 * drafts, min(accepted, 4 * drafts), 4, kind, temperature, user=user
    ),
    st.sampled_from(["a", "b", "c", "other"]),
    st.sampled_from(["", "x", "y", "z", "other", "unknown"]),
    st.sampled_from([None, 0.0, 0.5, 1.5]),
    st.integers(0, 60),
    st.integers(0, 240),
    st.sampled_from(["", "u1", "u2"]),
)


@settings(max_examples=30)
@given(
    st.lists(st.tuples(requests, st.floats(0, 60)), max_size=120),
    st.integers(1, 3),
    st.integers(1, 3),
    st.integers(1, 5),
)
def test_every_request_is_counted_once_even_if_folded(arrivals, models, types, groups):
    store = RequestStore(RequestSettings(models=models, types=types, groups=groups))
    now, taken = 1000.0, []
    for request, later in arrivals:
        now += later
        store.take(request, now, COST)
        taken.append((request, now))
    found = asyncio.run(store.findings((30.0, 300.0), now))
    assert found.taken == len(arrivals)
    assert len(found.since_start) <= groups + models + 1
    for window in found.windows.values():
        begin = now - window.seconds
        inside = [one for one, moment in taken if moment >= begin]
        for parts in (window.groups, window.models):
            summaries = [each.summary for each in parts]
            assert sum(each.requests for each in summaries) == len(inside)
            for field in ("drafts", "draft_tokens", "accepted_tokens"):
                expected = sum(getattr(each, field) for each in inside)
                assert sum(getattr(each, field) for each in summaries) == expected
        assert len(window.groups) <= groups + models + 1


def test_a_bucket_of_prompts_has_its_upper_bound_and_the_last_one_everything_above(store):
    for length in (0, 1, 1000, 1001, 4000, 16_001, 64_000, 64_001, 10_000_000):
        take(store, prompt_tokens=length)
    (found,) = evaluate(store, 1000.0).prompts
    assert {each.prompt_tokens: each.summary.requests for each in found.buckets} == {
        "0-1000": 3, "1000-4000": 2, "16000-64000": 2, ">64000": 2
    }  # fmt: skip
    assert found.buckets[1].summary.mean_prompt_tokens == 2500.5


def test_each_model_has_its_own_prompts_and_requests_of_unknown_length_are_left_out(store):
    for name, tokens in (("a", 5), ("a", None), ("b", None), ("c", 5)):
        take(store, model_name=name, prompt_tokens=tokens)
    found = evaluate(store, 1000.0).prompts
    assert [each.model_name for each in found] == ["a", "c"]
    assert found[0].buckets[0].summary.requests == 1
