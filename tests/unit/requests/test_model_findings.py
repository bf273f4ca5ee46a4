"""Findings about a model: kinds of requests that differ, advice by group, acceptance that falls with the prompt."""

import random
from types import SimpleNamespace

import pytest

from spec_decode_exporter.config.schema import RequestSettings
from spec_decode_exporter.costs.cost import CostSource
from spec_decode_exporter.figures.estimate import Estimate
from spec_decode_exporter.requests.model_findings import (
    MIN_SHARE,
    PromptBucket,
    PromptFindings,
    mixture_of,
    name,
)
from spec_decode_exporter.requests.record import RequestRecord, RequestSource
from spec_decode_exporter.requests.store import RequestStore
from spec_decode_exporter.requests.summary import GroupKey, KeptRequest
from tests.fakes.costs import make_cost
from tests.unit.requests.conftest import evaluate, request_of


def request(accepted, *, kind="chat", temperature="0", prompt="", drafts=100, tokens=4):
    """Return a kept request whose drafts have `accepted` accepted tokens in all."""
    record = RequestRecord("m", drafts, tokens * drafts, accepted, tokens)
    return KeptRequest(0.0, GroupKey("m", kind, temperature), "", prompt, record, "", None)


def around(accepted, number, **more):
    return [request(accepted + place % 7 - 3, **more) for place in range(number)]


@pytest.mark.parametrize(
    ("label", "low", "high"),
    [
        ("request_type", {"kind": "a"}, {"kind": "b"}),
        ("temperature", {"temperature": "0"}, {"temperature": ">1"}),
        ("temperature", {"temperature": "unknown"}, {"temperature": ">1"}),
        ("prompt_tokens", {"prompt": "0-1000"}, {"prompt": ">64000"}),
    ],
)
async def test_kinds_whose_bounds_differ_are_a_mixture_by_their_label(label, low, high):
    mixture = await mixture_of([*around(100, 40, **low), *around(200, 60, **high)])
    assert mixture.label == label
    assert (mixture.low.value, mixture.high.value) == (*low.values(), *high.values())
    assert mixture.low.length.value == pytest.approx(2.0, abs=0.01)
    assert mixture.high.length.value == pytest.approx(3.0, abs=0.01)


async def test_of_labels_that_differ_the_type_is_named_first():
    requests = [*around(100, 40, kind="a", temperature=">1"), *around(200, 40, kind="b", temperature="0")]
    assert (await mixture_of(requests)).label == "request_type"
    alike = [each._replace(key=each.key._replace(request_type="a")) for each in requests]
    assert (await mixture_of(alike)).label == "temperature"


@pytest.mark.parametrize(
    ("few", "many"),
    [
        ({"prompt": ""}, {"prompt": "0-1000"}),  # an unknown length is no kind
        ({"kind": "other"}, {"kind": "a"}),  # nor are the types beyond the limit
    ],
)
async def test_what_is_unknown_or_folded_is_no_kind(few, many):
    assert await mixture_of([*around(100, 50, **few), *around(300, 50, **many)]) is None


@pytest.mark.parametrize(("number", "others"), [(29, 29), (40, 400)])
async def test_a_kind_of_too_few_requests_is_not_compared(number, others):
    assert number < max(30, MIN_SHARE * (number + others))
    assert await mixture_of([*around(100, number, kind="a"), *around(300, others, kind="b")]) is None


@pytest.mark.parametrize(("few", "many"), [(2, 6), (1, 8)])
async def test_two_numbers_of_draft_tokens_are_no_mixture(few, many):
    """As with an experiment of two arms, or after a restart with another number."""
    requests = [*around(few * 80, 100, kind="a", tokens=few), *around(many * 60, 101, kind="b", tokens=many)]
    assert await mixture_of(requests) is None


@pytest.mark.parametrize("kind", ["a", "b"])
async def test_requests_of_a_rate_alone_are_not_compared(kind):
    rates = [request(10, kind=kind, drafts=0, tokens=0) for _ in range(50)]
    assert await mixture_of(rates) is None
    assert await mixture_of([]) is None
    assert await mixture_of([*rates, *around(100, 40, kind="a"), *around(300, 40, kind="b")]) is not None


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("share", [0.3, 0.7])
async def test_equal_kinds_are_rarely_a_mixture(share, seed):
    """Drafts that are accepted entirely or not at all: tokens cannot depend more on each other."""
    generator = random.Random(seed)
    requests = [
        request(4 * sum(generator.random() < share for _ in range(16)), kind=kind, drafts=16)
        for kind in "abcde"
        for _ in range(40)
    ]
    assert await mixture_of(requests) is None


@pytest.mark.parametrize(("lower", "is_mixed"), [(252, True), (258, False)])
async def test_a_kind_differs_below_085_of_the_other_beyond_the_bounds(lower, is_mixed):
    """0.85 of 4.05 tokens a draft are 3.44; of equal requests the bounds are the value."""
    low, high = (
        [request(accepted, kind=kind) for _ in range(40)]
        for kind, accepted in (("a", lower - 10), ("b", 305))
    )
    assert (await mixture_of([*low, *high]) is not None) is is_mixed


def bucket(length, error=0.05):
    """Return a bucket of prompts with a length of acceptance, or with too few requests for one."""
    estimate = length and Estimate(length, length - 2 * error, length + 2 * error, error, 100)
    return PromptBucket("", SimpleNamespace(acceptance_length=estimate))


def test_a_fall_is_between_the_shortest_and_the_longest_prompts_with_enough_requests():
    known = [bucket(length) for length in (2.3, 2.6, 1.08)]
    buckets = [bucket(None), *known, bucket(None)]
    assert PromptFindings("m", buckets).falls
    for few in ([], known[:1], known[:2], [known[0], bucket(None)]):
        assert not PromptFindings("m", few).falls


@pytest.mark.parametrize(
    ("short", "long", "falls"),
    [
        # The bounds are 0.1 apart from the values: 0.85 · 1.9 = 1.615.
        (bucket(2.0), bucket(1.514), True),
        (bucket(2.0), bucket(1.516), False),
        # With exact lengths 15 % are needed.
        (bucket(2.0, 0.0), bucket(1.69, 0.0), True),
        (bucket(2.0, 0.0), bucket(1.7, 0.0), False),
        (bucket(2.0), bucket(3.0), False),
        (bucket(2.0, 0.5), bucket(1.1, 0.5), False),
    ],
)
def test_a_fall_is_15_percent_beyond_the_bounds(short, long, falls):
    assert PromptFindings("m", [short, long]).falls is falls


# Advice.

DEAR = make_cost(0.25, 0.1)


def advice(requests, cost):
    """Return the advice about requests that ended at one moment."""
    store = RequestStore(RequestSettings())
    for each in requests:
        store.take(each, 1000.0, cost)
    return list(evaluate(store, 1000.0).windows["5m"].models[0].advice)


def advice_on(groups, cost=DEAR):
    """Return the advice; groups map a type to its requests, which differ slightly, drafts and accepted tokens."""
    requests = [
        request_of(drafts, accepted + turn % 3 - 1, request_type=kind, temperature=0.0)
        for kind, (number, drafts, accepted) in groups.items()
        for turn in range(number)
    ]
    return advice(requests, cost)


@pytest.mark.parametrize(
    ("groups", "more", "begin", "end"),
    [
        # 1.1 tokens a draft in 2.1 plain steps.
        ({"prose": (40, 100, 10), "code": (40, 100, 350)}, {}, "Serve prose requests at temperature 0 (0.52 times as fast with speculation", "50 % of the requests) on replicas without speculation, or with fewer draft tokens."),
        ({"prose": (40, 100, 10), "code": (40, 100, 350)}, {}, "Keep speculation for code requests at temperature 0 (2.14 times as fast): they gain most.", ""),
        ({"prose": (40, 100, 10)}, {}, "Serve prose requests", "100 % of the requests) without speculation, or with fewer draft tokens."),
        ({"broken": (1, 300, 1)}, {}, "1 request had almost no draft tokens accepted", ""),
        ({"loop": (2, 300, 1199)}, {}, "2 requests had almost all draft tokens accepted", ""),
        ({"prose": (40, 100, 10)}, {"cost": make_cost(0.25, 0.1, CostSource.TYPICAL)}, "The cost of drafting is not measured, only typical. Measure or configure the cost before you act on this.", ""),
    ],
    ids=["a group that loses", "the group that gains", "no group gains", "rejected", "repetitive", "typical cost"],
)  # fmt: skip
def test_groups_get_the_advice_of_their_speed_up(groups, more, begin, end):
    assert [each for each in advice_on(groups, **more) if each.startswith(begin) and each.endswith(end)]


def test_two_kinds_that_an_average_hides_come_first_though_both_gain():
    found = advice_on({"chat": (40, 100, 150), "code": (60, 100, 330)}, cost=make_cost(0.2, 0.1))
    assert found[0] == (
        "Their average hides that speculation gives 2.50 tokens a draft to chat requests, and 4.30 to code requests."
    )
    assert not any("Serve" in sentence for sentence in found)


def test_too_few_requests_and_rates_alone_get_no_advice():
    assert advice_on({"chat": (10, 100, 100)}) == []
    requests = [request_of(0, 60, source=RequestSource.USAGE)] * 50
    assert advice(requests, None) == []
    (sentence,) = advice([request_of()] * 50, None)
    assert sentence.endswith("because the cost of drafting is: configure or measure it.")


def test_the_slowest_groups_are_named_and_the_others_counted():
    found = advice_on({f"prose{number}": (30, 100, 10 + number) for number in range(5)})
    (sentence,) = (sentence for sentence in found if sentence.startswith("Serve"))
    assert [f"prose{number} " in sentence for number in range(5)] == [True, True, True, False, False]
    assert "and 2 more" in sentence


def test_a_group_that_is_slower_at_a_typical_cost_is_named_but_not_to_be_routed():
    # 1.9 tokens a draft in 2.1 plain steps.
    # At the lowest c they take 1.5.
    found = advice_on(
        {"prose": (40, 100, 90)}, cost=make_cost(0.25, 0.1, CostSource.TYPICAL, low=0.1, high=0.4)
    )
    (sentence,) = found
    assert sentence == (
        "At the typical cost of drafting, speculation would slow down prose requests at temperature 0 (0.90 "
        "times as fast with speculation, at most 1.27; 100 % of the requests). Measure or configure the cost "
        "before you act on this."
    )


@pytest.mark.parametrize(
    ("kind", "temperature", "expected"),
    [
        ("chat", "0", "chat requests at temperature 0"),
        ("chat", "0-0.3", "chat requests at temperature up to 0.3"),
        ("chat", ">1", "chat requests at temperature above 1"),
        ("unknown", "unknown", "untyped requests"),
        ("other", "0", "other requests at temperature 0"),
        ("other", "other", "the other requests"),
    ],
)
def test_groups_have_readable_names(kind, temperature, expected):
    assert name(GroupKey("llama", kind, temperature)) == expected
