"""Request store: groups, windows, cardinality limits and evaluation intervals."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spec_decode_exporter.config.request_settings import RequestSettings
from spec_decode_exporter.requests.cells import CELL_SECONDS, Effect, Percentiles
from spec_decode_exporter.requests.findings import GroupKey, RequestFindings
from spec_decode_exporter.requests.record import Refusal, RequestRecord, RequestSource
from spec_decode_exporter.requests.store import (
    EVALUATION_SECONDS,
    MAX_EAGER_REQUESTS,
    MAX_WAITING,
    RequestStore,
    Slots,
    bucket_labels,
)
from tests.fakes.costs import make_cost


def take(store, request, now, cost=None):
    return store.take(request, now, cost or make_cost())


def counts_of(summary):
    return summary.requests, summary.drafts, summary.draft_tokens, summary.accepted_tokens


def test_an_empty_store_has_empty_windows(make_store, evaluate):
    store = make_store()
    assert store.last == RequestFindings(enabled=True)
    found = evaluate(store, 1000.0)
    assert (found.taken, found.refused, found.since_start) == (0, {}, {})
    assert list(found.windows) == ["30s", "5m"]
    assert found.windows["5m"].groups == []
    assert store.last is found


def test_a_request_is_in_its_group_and_in_its_model(make_store, make_request, evaluate):
    store = make_store()
    take(
        store,
        make_request(30, 60, request_type="chat", temperature=0.7, completion_tokens=101, decode_seconds=2.0),
        1000.0,
    )
    found = evaluate(store, 1000.0)
    key = GroupKey("llama", "chat", "0.3-0.7")
    (group,) = found.windows["30s"].groups
    assert group.key == key
    assert counts_of(group.summary) == (1, 30, 120, 60)
    assert group.summary.acceptance_ratio == Percentiles(0.5, 0.5, 0.5)
    assert group.summary.acceptance_length_tokens == Percentiles(3.0, 3.0, 3.0)
    assert group.summary.time_per_output_token_seconds.p50 == pytest.approx(0.02, rel=0.04)
    (model,) = found.windows["30s"].models
    assert (model.model_name, counts_of(model.summary)) == ("llama", (1, 30, 120, 60))
    assert counts_of(found.since_start[key]) == (1, 30, 120, 60)
    assert found.since_start[key].acceptance_ratio_histogram.sum == 0.5
    assert found.since_start[key].acceptance_length_tokens_histogram.count == 1


def test_a_request_without_a_type_or_a_temperature_is_unknown(make_store, make_request, evaluate):
    store = make_store()
    take(store, make_request(), 1000.0)
    assert list(evaluate(store, 1000.0).since_start) == [GroupKey("llama", "unknown", "unknown")]


def test_a_request_that_did_not_draft_counts_but_has_no_acceptance(make_store, make_request, evaluate):
    store = make_store()
    take(store, make_request(0, 0), 1000.0)
    found = evaluate(store, 1000.0)
    (group,) = found.windows["30s"].groups
    assert counts_of(group.summary) == (1, 0, 0, 0)
    assert group.summary.acceptance_ratio is None
    assert group.summary.mean_acceptance_ratio is None
    assert group.summary.evaluated == 0
    (totals,) = found.since_start.values()
    assert (totals.requests, totals.acceptance_ratio_histogram.count) == (1, 0)


def test_a_window_has_the_requests_of_its_length(make_store, make_request, evaluate):
    store = make_store()
    for now in (1000.0, 1200.0, 1270.0, 1280.0, 1299.0):
        take(store, make_request(), now)
    found = evaluate(store, 1300.0)
    requests = {label: window.models[0].summary.requests for label, window in found.windows.items()}
    assert requests == {"30s": 3, "5m": 5}


def test_a_window_of_merged_cells_lacks_no_request(make_store, make_request, evaluate):
    """Beyond five minutes a cell is a minute: one that began before the window counts as a whole."""
    store = make_store()
    windows = (300.0, 600.0)
    evaluate(store, 0.0, windows)
    for second in range(1500):
        take(store, make_request(), float(second))
        if second > 1400:
            five, ten = evaluate(store, float(second), windows).windows.values()
            assert 300 <= five.models[0].summary.requests <= 305
            assert 600 <= ten.models[0].summary.requests <= 660
            assert not ten.partial


def covered(found):
    return {label: window.covered_seconds for label, window in found.windows.items()}


def test_a_window_is_partial_until_the_store_is_as_old(make_store, make_request, evaluate):
    store = make_store()
    evaluate(store, 1000.0)
    take(store, make_request(), 1010.0)
    found = evaluate(store, 1040.0)
    assert {label: window.partial for label, window in found.windows.items()} == {"30s": False, "5m": True}
    assert covered(found) == {"30s": 30.0, "5m": 40.0}
    found = evaluate(store, 1300.0)
    assert not found.windows["5m"].partial
    assert covered(found) == {"30s": 30.0, "5m": 300.0}


def test_a_window_that_a_reload_made_longer_is_partial(make_store, make_request, evaluate):
    store = make_store()
    evaluate(store, 0.0)
    for now in range(0, 7200, 60):
        take(store, make_request(), float(now))
        assert evaluate(store, float(now), (30.0, 300.0)).windows["5m"].partial is (now < 300)
    longer = (30.0, 300.0, 3600.0)
    partial = {label: window.partial for label, window in evaluate(store, 7200.0, longer).windows.items()}
    assert partial == {"30s": False, "5m": False, "1h": True}
    for now in range(7200, 10_500, 60):
        take(store, make_request(), float(now))
    found = evaluate(store, 10_500.0, longer).windows["1h"]
    assert (found.partial, found.models[0].summary.requests) == (False, 60)


def test_windows_that_began_during_a_pause_are_partial(make_store, make_request, evaluate):
    store = make_store()
    evaluate(store, 0.0)
    take(store, make_request(), 990.0)
    assert not evaluate(store, 1000.0).windows["5m"].partial
    store.resume(1001.0)
    partial = {label: window.partial for label, window in evaluate(store, 1001.0).windows.items()}
    assert partial == {"30s": True, "5m": True}
    assert not evaluate(store, 1031.0).windows["30s"].partial
    assert not evaluate(store, 1301.0).windows["5m"].partial


def test_refusals_are_counted_by_reason(make_store, evaluate):
    store = make_store()
    store.refuse(Refusal.RATE, 7)
    store.refuse(Refusal.RATE)
    store.refuse(Refusal.MALFORMED)
    assert evaluate(store, 1000.0).refused == {Refusal.RATE: 8, Refusal.MALFORMED: 1}


def test_types_beyond_the_limit_are_other(make_store, make_request, evaluate):
    store = make_store(types=2)
    for kind in ("a", "b", "c", "d", "a"):
        take(store, make_request(request_type=kind), 1000.0)
    found = evaluate(store, 1000.0)
    requests = {key.request_type: group.requests for key, group in found.since_start.items()}
    assert requests == {"a": 2, "b": 1, "other": 2}
    assert found.folded["request_type"] == 2


def test_combinations_beyond_the_limit_are_other_of_their_model(make_store, make_request, evaluate):
    store = make_store(groups=1)
    for temperature in (0.0, 0.5, 2.0):
        take(store, make_request(temperature=temperature, request_type="chat"), 1000.0)
    found = evaluate(store, 1000.0)
    requests = {key: group.requests for key, group in found.since_start.items()}
    assert requests == {GroupKey("llama", "chat", "0"): 1, GroupKey("llama", "other", "other"): 2}
    assert found.folded["group"] == 2


def test_a_type_that_loses_its_slot_ends_and_its_stored_requests_are_other(
    make_store, make_request, evaluate
):
    store = make_store(types=1)
    take(store, make_request(request_type="old"), 1000.0)
    for _ in range(2):
        take(store, make_request(request_type="new"), 1299.0)
    # A period has passed: the type of the next request has a slot now.
    take(store, make_request(request_type="new"), 1300.0)
    found = evaluate(store, 1300.0)
    since_start = {key.request_type: group.requests for key, group in found.since_start.items()}
    # The totals of the old type do not move to other: its counters would jump.
    assert since_start == {"other": 2, "new": 1}
    in_window = Counter()
    for group in found.windows["5m"].groups:
        in_window[group.key.request_type] += group.summary.requests
    assert in_window == {"other": 3, "new": 1}
    assert found.taken == 4


def test_a_combination_keeps_its_slot_when_others_become_free(make_store, make_request, evaluate):
    store = make_store(types=2, groups=4)

    def bring(kind, temperature, now, number=1):
        for _ in range(number):
            take(store, make_request(request_type=kind, temperature=temperature), now)

    evaluate(store, 1000.0)
    for kind, temperature, number in (("a", 0.0, 100), ("a", 0.5, 10), ("b", 0.0, 1), ("b", 0.5, 1)):
        bring(kind, temperature, 1001.0, number)
    bring("a", 2.0, 1002.0, 40)  # waits for a combination's slot
    bring("c", 0.0, 1002.0, 50)  # takes over the slot of b, whose two combinations end
    for kind, temperature in (("a", 0.5), ("c", 0.0), ("a", 2.0)):
        bring(kind, temperature, 1400.0)
    since_start = {
        (key.request_type, key.temperature): group.requests
        for key, group in evaluate(store, 1401.0).since_start.items()
    }
    assert since_start == {
        ("a", "0"): 100,
        ("a", "0.3-0.7"): 11,
        ("a", ">1"): 1,
        ("c", "0"): 1,
        ("other", "other"): 90,
    }


def test_a_model_that_loses_its_slot_becomes_other_with_all_its_groups(make_store, make_request, evaluate):
    store = make_store(models=1, groups=1)
    for kind in ("a", "b"):
        take(store, make_request(model_name="old", request_type=kind), 1000.0)
    for _ in range(5):
        take(store, make_request(model_name="new"), 1299.0)
    take(store, make_request(model_name="new"), 1300.0)
    found = evaluate(store, 1300.0)
    models = {model.model_name: model.summary.requests for model in found.windows["5m"].models}
    assert models == {"other": 7, "new": 1}
    assert {key.model_name for key in found.since_start} == {"other", "new"}


def test_users_are_distinguished_by_model(make_store, make_request, evaluate, users):
    store = make_store(users=users)
    for user, model_name in (
        ("u1", "llama"),
        ("u1", "qwen"),
        ("u2", "llama"),
        ("u1", "llama"),
        ("", "llama"),
    ):
        take(store, make_request(user=user, model_name=model_name), 1000.0)
    users = {(one.user, one.model_name): one.summary.requests for one in evaluate(store, 1000.0).users}
    assert users == {("u1", "llama"): 2, ("u1", "qwen"): 1, ("u2", "llama"): 1}


def test_users_beyond_the_limit_are_other(make_store, make_request, evaluate, users):
    store = make_store(users=users)
    for number in range(30):
        take(store, make_request(user=f"u{number}"), 1000.0)
    found = evaluate(store, 1000.0)
    assert len(found.users) == 11
    assert {one.user: one.summary.requests for one in found.users}["other"] == 20
    assert found.folded["user"] == 20


def test_each_request_is_evaluated_at_its_own_cost(make_store, make_request, evaluate):
    store = make_store()
    for cost in (make_cost(0.05, 0.0), make_cost(0.5, 0.0), None):
        store.take(make_request(30, 30), 1000.0, cost)
    summary = evaluate(store, 1000.0).windows["30s"].models[0].summary
    # 30 drafts of four give 60 tokens, in the time of 30 · 1.2 = 36 or of 30 · 3 = 90.
    assert (summary.requests, summary.evaluated, summary.below_break_even) == (3, 2, 1)


async def test_findings_are_reused_until_something_changes(make_store, make_request):
    store = make_store()
    take(store, make_request(), 1000.0)
    first = await store.findings((30.0,), 1000.0)
    assert (await store.findings((30.0,), 1004.9)).windows is first.windows
    take(store, make_request(), 1004.9)
    assert (await store.findings((30.0,), 1004.9)).windows["30s"].models[0].summary.requests == 2
    assert (await store.findings((30.0,), 1040.0)).windows["30s"].groups == []


async def test_many_requests_are_evaluated_only_at_intervals(make_store, make_request):
    store = make_store()
    for _ in range(MAX_EAGER_REQUESTS + 1):
        take(store, make_request(), 1000.0)
    first = await store.findings((30.0,), 1000.0)
    take(store, make_request(), 1001.0)
    soon = await store.findings((30.0,), 1001.0)
    assert soon.windows is first.windows
    assert soon.taken == MAX_EAGER_REQUESTS + 2
    (totals,) = soon.since_start.values()
    assert totals.requests == MAX_EAGER_REQUESTS + 2
    later = await store.findings((30.0,), 1000.0 + EVALUATION_SECONDS)
    assert later.windows["30s"].models[0].summary.requests == MAX_EAGER_REQUESTS + 2
    take(store, make_request(), 2000.0)
    assert (await store.findings((30.0,), 2000.0)).windows["30s"].models[0].summary.requests == 1
    take(store, make_request(), 2001.0)
    assert (await store.findings((30.0,), 2001.0)).windows["30s"].models[0].summary.requests == 2


async def test_concurrent_readers_share_one_evaluation(make_store, make_request):
    store = make_store()
    take(store, make_request(), 1000.0)
    one, other = await asyncio.gather(*(store.findings((30.0, 300.0), 1000.0) for _ in range(2)))
    assert one.windows is other.windows


async def test_requests_may_arrive_during_an_evaluation(make_store, make_request):
    store = make_store()
    for number in range(1000):
        take(store, make_request(request_type=f"t{number % 7}"), 1000.0 + number / 100)
    looking, later = asyncio.ensure_future(store.findings((30.0, 300.0), 1010.0)), 1010.0
    while not looking.done():
        later += 1.0
        take(store, make_request(request_type="late"), later)
        await asyncio.sleep(0)
    window = looking.result().windows["30s"]
    total = sum(group.summary.requests for group in window.groups)
    assert window.models[0].summary.requests == total >= 1000


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


@settings(deadline=None)
@given(
    st.lists(st.tuples(requests, st.floats(0, 60)), max_size=120),
    st.integers(1, 3),
    st.integers(1, 3),
    st.integers(1, 5),
)
def test_every_request_is_counted_once_even_if_folded(arrivals, models, types, groups):
    store = RequestStore(RequestSettings(ingest=True, models=models, types=types, groups=groups))
    now, taken = 1000.0, []
    for request, later in arrivals:
        now += later
        take(store, request, now)
        taken.append((request, now))
    found = asyncio.run(store.findings((30.0, 300.0), now))
    assert found.taken == len(arrivals)
    assert len(found.since_start) <= groups + models + 1
    for window in found.windows.values():
        begin = now - window.seconds
        inside = [one for one, moment in taken if (moment // CELL_SECONDS + 1) * CELL_SECONDS > begin]
        drafts, tokens = sum(each.drafts for each in inside), sum(each.draft_tokens for each in inside)
        expected = [len(inside), drafts, tokens, sum(each.accepted_tokens for each in inside)]
        for parts in (window.groups, window.models):
            assert [
                sum(column)
                for column in zip([0] * 4, *(counts_of(each.summary) for each in parts), strict=True)
            ] == expected
        assert len(window.groups) <= groups + models + 1


def test_requests_are_counted_by_their_source(make_store, make_request, evaluate):
    store = make_store()
    for source in (RequestSource.METRICS, RequestSource.USAGE, RequestSource.USAGE):
        take(store, make_request(source=source), 1000.0)
    assert evaluate(store, 1000.0).sources == {RequestSource.METRICS: 1, RequestSource.USAGE: 2}


class TestPrompts:
    @pytest.fixture(name="prompts")
    def prompts_fixture(self, make_store, make_request, evaluate):
        """Function that returns the findings of each model about requests of these attributes."""

        def prompts(attributes):
            store = make_store()
            for each in attributes:
                take(store, make_request(**each), 1000.0)
            return {each.model_name: each for each in evaluate(store, 1000.0).prompts}

        return prompts

    def test_a_bucket_has_its_upper_bound_and_the_last_one_everything_above(self, prompts):
        lengths = (0, 1, 1000, 1001, 4000, 16_001, 64_000, 64_001, 10_000_000)
        (found,) = prompts([{"prompt_tokens": length} for length in lengths]).values()
        assert [(each.prompt_tokens, each.summary.requests) for each in found.buckets] == [
            ("0-1000", 3),
            ("1000-4000", 2),
            ("16000-64000", 2),
            (">64000", 2),
        ]
        assert found.buckets[1].summary.mean_prompt_tokens == 2500.5

    def test_each_model_has_its_own_and_requests_of_unknown_length_are_left_out(self, prompts):
        known, unknown = {"prompt_tokens": 5}, {}
        found = prompts(
            [
                {"model_name": name, **more}
                for name, more in (("a", known), ("a", unknown), ("b", unknown), ("c", known))
            ]
        )
        assert list(found) == ["a", "c"]
        assert found["a"].buckets[0].summary.requests == 1

    def test_a_bucket_has_acceptance_speed_up_first_token_and_the_cached_share(self, prompts):
        requests = [
            {
                "drafts": 30,
                "accepted_tokens": 30 + number % 2 * 60,
                "prompt_tokens": 100,
                "cached_tokens": 50 if number < 10 else None,
                "first_token_seconds": number / 10 if number else None,
                "completion_tokens": 200,
            }
            for number in range(40)
        ]
        (bucket,) = prompts(requests)["llama"].buckets
        length = bucket.summary.acceptance_length
        assert length.value == pytest.approx(3.0)
        assert length.lower < 3.0 < length.upper
        assert bucket.summary.cached_ratio == 0.5
        found = bucket.summary.time_to_first_token_seconds
        assert (found.p10, found.p50, found.p90) == pytest.approx((0.48, 2.0, 3.52), rel=0.04)
        assert bucket.summary.effect is Effect.GAINS

    def test_acceptance_that_falls_with_the_prompt_is_found(self, prompts):
        short = [{"drafts": 30, "accepted_tokens": 35 + n % 9, "prompt_tokens": 2000 + n} for n in range(40)]
        long = [{"drafts": 30, "accepted_tokens": n % 5, "prompt_tokens": 20_000 + n} for n in range(40)]
        fall = prompts([*short, *long])["llama"].fall
        assert (fall.short_tokens, fall.long_tokens) == (2019.5, 20_019.5)
        assert (fall.short_length, fall.long_length) == pytest.approx((2.3, 1.07), abs=0.02)
        assert prompts([*short, *({**each, "prompt_tokens": 20_000} for each in short)])["llama"].fall is None


def brought(limit, **requests):
    """Return slots with these requests of each name."""
    slots = Slots(limit)
    for name, number in requests.items():
        for _ in range(number):
            slots.admit(name)
    return slots


def test_the_first_names_get_the_slots():
    slots = Slots(2)
    assert [slots.admit(name) for name in "abca"] == [True, True, False, True]
    assert slots.folded == 1
    assert [slots.label(name) for name in ("", "other", "a", "c")] == ["unknown", "other", "a", "other"]


@pytest.mark.parametrize(
    ("limit", "requests", "lost", "kept"),
    [
        (2, {"a": 10, "b": 3, "c": 6}, "b", "ac"),  # twice the requests
        (2, {"a": 10, "b": 3, "c": 5}, "", "ab"),
        (3, {"a": 100, "b": 1, "c": 2, "d": 50, "e": 20}, "bc", "ade"),
    ],
)
def test_names_with_twice_the_requests_take_over_slots_at_the_end_of_a_period(limit, requests, lost, kept):
    slots = brought(limit, **requests)
    assert slots.end_period() == set(lost)
    assert [name for name in "abcde" if name in slots] == list(kept)


def test_a_holder_without_requests_in_a_period_loses_its_slot_to_any_name():
    slots = brought(1, a=50)
    assert slots.end_period() == set()
    assert "a" in slots
    slots.admit("b")
    assert slots.end_period() == {"a"}


def test_a_frequent_name_among_thousands_of_others_gets_a_slot():
    slots = brought(1, a=2)
    for number in range(20 * MAX_WAITING):
        slots.admit(f"once {number}")
        slots.admit("frequent")
    assert slots.end_period() == {"a"}
    assert "frequent" in slots


@pytest.mark.parametrize(
    ("bounds", "labels"),
    [
        ((0.0, 0.3, 0.7, 1.0), ["0", "0-0.3", "0.3-0.7", "0.7-1", ">1"]),
        ((0.5, 1.25), ["0-0.5", "0.5-1.25", ">1.25"]),
        ((1000, 64_000), ["0-1000", "1000-64000", ">64000"]),
        ((5,), ["0-5", ">5"]),
        ((0.00001, 1.0), ["0-0.00001", "0.00001-1", ">1"]),
    ],
)
def test_a_label_names_both_bounds_without_a_space(bounds, labels):
    assert bucket_labels(bounds) == labels
