"""Request store: groups, windows, cardinality limits and evaluation intervals."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spec_decode_exporter.config.request_settings import RequestSettings
from spec_decode_exporter.requests.request_findings import (
    GroupKey,
    Percentiles,
    RequestFindings,
    RequestTotals,
)
from spec_decode_exporter.requests.request_record import Refusal, RequestRecord
from spec_decode_exporter.requests.request_store import EVALUATION_SECONDS, MAX_EAGER_REQUESTS, RequestStore
from tests.fixtures.costs import make_cost


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
    store.take(
        make_request(30, 60, request_type="chat", temperature=0.7, completion_tokens=101, decode_seconds=2.0),
        1000.0,
    )
    found = evaluate(store, 1000.0)
    key = GroupKey("llama", "chat", "0.3-0.7")
    (group,) = found.windows["30s"].groups
    assert group.key == key
    assert group.summary.totals == RequestTotals(1, 30, 120, 60)
    assert group.summary.acceptance_ratio == Percentiles(0.5, 0.5, 0.5)
    assert group.summary.acceptance_length_tokens == Percentiles(3.0, 3.0, 3.0)
    assert group.summary.time_per_output_token_seconds.p50 == pytest.approx(0.02)
    (model,) = found.windows["30s"].models
    assert (model.model_name, model.summary.totals) == ("llama", RequestTotals(1, 30, 120, 60))
    assert found.since_start[key].totals == RequestTotals(1, 30, 120, 60)
    assert found.since_start[key].acceptance_ratio.sum == 0.5
    assert found.since_start[key].acceptance_length_tokens.count == 1


def test_a_request_without_a_type_or_a_temperature_is_unknown(make_store, make_request, evaluate):
    store = make_store()
    store.take(make_request(), 1000.0)
    assert list(evaluate(store, 1000.0).since_start) == [GroupKey("llama", "unknown", "unknown")]


def test_a_request_that_did_not_draft_counts_but_has_no_acceptance(make_store, make_request, evaluate):
    store = make_store()
    store.take(make_request(0, 0), 1000.0)
    found = evaluate(store, 1000.0)
    (group,) = found.windows["30s"].groups
    assert group.summary.totals == RequestTotals(requests=1)
    assert group.summary.acceptance_ratio is None
    assert group.summary.mean_acceptance_ratio is None
    assert group.summary.evaluated == 0
    (totals,) = found.since_start.values()
    assert (totals.totals.requests, totals.acceptance_ratio.count) == (1, 0)


def test_a_window_has_the_requests_of_its_length(make_store, make_request, evaluate):
    store = make_store()
    for now in (1000.0, 1200.0, 1270.0, 1280.0, 1299.0):
        store.take(make_request(), now)
    found = evaluate(store, 1300.0)
    requests = {label: window.models[0].summary.totals.requests for label, window in found.windows.items()}
    assert requests == {"30s": 3, "5m": 5}


def covered(found):
    return {label: window.covered_seconds for label, window in found.windows.items()}


def test_a_window_is_partial_until_the_store_is_as_old(make_store, make_request, evaluate):
    store = make_store()
    evaluate(store, 1000.0)
    store.take(make_request(), 1010.0)
    found = evaluate(store, 1040.0)
    assert {label: window.partial for label, window in found.windows.items()} == {"30s": False, "5m": True}
    assert covered(found) == {"30s": 30.0, "5m": 40.0}
    found = evaluate(store, 1300.0)
    assert not found.windows["5m"].partial
    assert covered(found) == {"30s": 30.0, "5m": 300.0}


def test_a_window_is_partial_if_its_oldest_requests_were_removed(make_store, make_request, evaluate):
    store = make_store(keep=100)
    evaluate(store, 0.0)
    for number in range(150):
        store.take(make_request(), 1000.0 + number)
    found = evaluate(store, 1149.0)
    assert {label: window.partial for label, window in found.windows.items()} == {"30s": False, "5m": True}
    assert covered(found) == {"30s": 30.0, "5m": 100.0}
    assert found.windows["5m"].models[0].summary.totals.requests == 100
    assert found.taken == 150


def test_a_window_that_a_reload_made_longer_is_partial(make_store, make_request, evaluate):
    store = make_store()
    evaluate(store, 0.0)
    for now in range(0, 7200, 60):
        store.take(make_request(), float(now))
        assert evaluate(store, float(now), (30.0, 300.0)).windows["5m"].partial is (now < 300)
    longer = (30.0, 300.0, 3600.0)
    partial = {label: window.partial for label, window in evaluate(store, 7200.0, longer).windows.items()}
    assert partial == {"30s": False, "5m": False, "1h": True}
    for now in range(7200, 10_500, 60):
        store.take(make_request(), float(now))
    found = evaluate(store, 10_500.0, longer).windows["1h"]
    assert (found.partial, found.models[0].summary.totals.requests) == (False, 60)


def test_windows_that_began_during_a_pause_are_partial(make_store, make_request, evaluate):
    store = make_store()
    evaluate(store, 0.0)
    store.take(make_request(), 990.0)
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
        store.take(make_request(request_type=kind), 1000.0)
    found = evaluate(store, 1000.0)
    requests = {key.request_type: group.totals.requests for key, group in found.since_start.items()}
    assert requests == {"a": 2, "b": 1, "other": 2}
    assert found.folded["request_type"] == 2


def test_combinations_beyond_the_limit_are_other_of_their_model(make_store, make_request, evaluate):
    store = make_store(groups=1)
    for temperature in (0.0, 0.5, 2.0):
        store.take(make_request(temperature=temperature, request_type="chat"), 1000.0)
    found = evaluate(store, 1000.0)
    requests = {key: group.totals.requests for key, group in found.since_start.items()}
    assert requests == {GroupKey("llama", "chat", "0"): 1, GroupKey("llama", "other", "other"): 2}
    assert found.folded["group"] == 2


def test_a_type_that_loses_its_slot_ends_and_its_stored_requests_are_other(
    make_store, make_request, evaluate
):
    store = make_store(types=1)
    store.take(make_request(request_type="old"), 1000.0)
    for _ in range(2):
        store.take(make_request(request_type="new"), 1299.0)
    # A period has passed: the type of the next request has a slot now.
    store.take(make_request(request_type="new"), 1300.0)
    found = evaluate(store, 1300.0)
    since_start = {key.request_type: group.totals.requests for key, group in found.since_start.items()}
    # The totals of the old type do not move to other: its counters would jump.
    assert since_start == {"other": 2, "new": 1}
    in_window = Counter()
    for group in found.windows["5m"].groups:
        in_window[group.key.request_type] += group.summary.totals.requests
    assert in_window == {"other": 3, "new": 1}
    assert found.taken == 4


def test_a_combination_keeps_its_slot_when_others_become_free(make_store, make_request, evaluate):
    store = make_store(types=2, groups=4)

    def bring(kind, temperature, now, number=1):
        for _ in range(number):
            store.take(make_request(request_type=kind, temperature=temperature), now)

    evaluate(store, 1000.0)
    for kind, temperature, number in (("a", 0.0, 100), ("a", 0.5, 10), ("b", 0.0, 1), ("b", 0.5, 1)):
        bring(kind, temperature, 1001.0, number)
    bring("a", 2.0, 1002.0, 40)  # waits for a combination's slot
    bring("c", 0.0, 1002.0, 50)  # takes over the slot of b, whose two combinations end
    for kind, temperature in (("a", 0.5), ("c", 0.0), ("a", 2.0)):
        bring(kind, temperature, 1400.0)
    since_start = {
        (key.request_type, key.temperature): group.totals.requests
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
        store.take(make_request(model_name="old", request_type=kind), 1000.0)
    for _ in range(5):
        store.take(make_request(model_name="new"), 1299.0)
    store.take(make_request(model_name="new"), 1300.0)
    found = evaluate(store, 1300.0)
    models = {model.model_name: model.summary.totals.requests for model in found.windows["5m"].models}
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
        store.take(make_request(user=user, model_name=model_name), 1000.0)
    users = {(one.user, one.model_name): one.summary.totals.requests for one in evaluate(store, 1000.0).users}
    assert users == {("u1", "llama"): 2, ("u1", "qwen"): 1, ("u2", "llama"): 1}


def test_users_beyond_the_limit_are_other(make_store, make_request, evaluate, users):
    store = make_store(users=users)
    for number in range(30):
        store.take(make_request(user=f"u{number}"), 1000.0)
    found = evaluate(store, 1000.0)
    assert len(found.users) == 11
    assert {one.user: one.summary.totals.requests for one in found.users}["other"] == 20
    assert found.folded["user"] == 20


def test_each_request_is_evaluated_at_the_cost_of_its_own_target(make_store, make_request, evaluate):
    store = make_store()
    for target in ("cheap", "dear", "unknown"):
        store.take(make_request(30, 30, target=target), 1000.0)
    costs = {"cheap": make_cost(0.05, 0.0), "dear": make_cost(0.5, 0.0)}
    found = evaluate(store, 1000.0, costs=lambda model_name, target: costs.get(target))
    summary = found.windows["30s"].models[0].summary
    # 30 drafts of four give 60 tokens, in the time of 30 · 1.2 = 36 or of 30 · 3 = 90.
    assert (summary.evaluated, summary.below_break_even) == (2, 1)


async def test_findings_are_reused_until_something_changes(make_store, make_request):
    store, cost, asked = make_store(), make_cost(), Counter()

    def costs(model_name, target):
        asked[target] += 1
        return cost

    store.take(make_request(), 1000.0)
    first = await store.findings((30.0,), 1000.0, costs)
    again = await store.findings((30.0,), 1004.9, costs)
    assert asked[""] == 1
    assert again.windows["30s"] is first.windows["30s"]
    store.take(make_request(), 1004.9)
    assert (await store.findings((30.0,), 1004.9, costs)).windows["30s"] is not first.windows["30s"]
    assert (await store.findings((30.0,), 1040.0, costs)).windows["30s"].groups == []


async def test_many_requests_are_evaluated_only_at_intervals(make_store, make_request):
    store, cost = make_store(), make_cost()
    for _ in range(MAX_EAGER_REQUESTS + 1):
        store.take(make_request(), 1000.0)
    first = await store.findings((30.0,), 1000.0, lambda *_: cost)
    store.take(make_request(), 1001.0)
    soon = await store.findings((30.0,), 1001.0, lambda *_: cost)
    assert soon.windows == first.windows
    assert soon.taken == MAX_EAGER_REQUESTS + 2
    (totals,) = soon.since_start.values()
    assert totals.totals.requests == MAX_EAGER_REQUESTS + 2
    later = await store.findings((30.0,), 1000.0 + EVALUATION_SECONDS, lambda *_: cost)
    assert later.windows["30s"].models[0].summary.totals.requests == MAX_EAGER_REQUESTS + 2


async def test_concurrent_readers_share_one_evaluation(make_store, make_request):
    store, cost = make_store(), make_cost()
    store.take(make_request(), 1000.0)
    one, other = await asyncio.gather(
        *(store.findings((30.0, 300.0), 1000.0, lambda *_: cost) for _ in range(2))
    )
    assert one.windows is other.windows


async def test_requests_may_arrive_during_an_evaluation(make_store, make_request):
    store, cost = make_store(keep=1000), make_cost()
    for number in range(1000):
        store.take(make_request(request_type=f"t{number % 7}"), 1000.0 + number / 100)
    looking = asyncio.ensure_future(store.findings((30.0, 300.0), 1010.0, lambda *_: cost))
    while not looking.done():
        store.take(make_request(request_type="late"), 1010.0)
        await asyncio.sleep(0)
    window = looking.result().windows["30s"]
    assert window.models[0].summary.totals.requests == 1000
    assert sum(group.summary.totals.requests for group in window.groups) == 1000


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
    store = RequestStore(RequestSettings(ingest=True, models=models, types=types, groups=groups, keep=100))
    cost, now, taken = make_cost(0.1, 0.0), 1000.0, []
    for request, later in arrivals:
        now += later
        store.take(request, now)
        taken.append((request, now))
    found = asyncio.run(store.findings((30.0, 300.0), now, lambda *_: cost))
    assert found.taken == len(arrivals)
    assert len(found.since_start) <= groups + models + 1
    for window in found.windows.values():
        inside = [request for request, moment in taken[-100:] if moment >= now - window.seconds]
        expected = RequestTotals(
            len(inside),
            sum(request.drafts for request in inside),
            sum(request.draft_tokens for request in inside),
            sum(request.accepted_tokens for request in inside),
        )
        assert added_up(group.summary.totals for group in window.groups) == expected
        assert added_up(model.summary.totals for model in window.models) == expected
        assert sum(group.summary.evaluated for group in window.groups) == sum(
            model.summary.evaluated for model in window.models
        )
        assert sum(group.summary.below_break_even for group in window.groups) == sum(
            model.summary.below_break_even for model in window.models
        )
        assert len(window.groups) <= groups + models + 1


def added_up(totals):
    each = list(totals)
    return RequestTotals(
        sum(one.requests for one in each),
        sum(one.drafts for one in each),
        sum(one.draft_tokens for one in each),
        sum(one.accepted_tokens for one in each),
    )
