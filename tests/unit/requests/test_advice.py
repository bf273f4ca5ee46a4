"""Advice about groups of requests."""

import pytest

from spec_decode_exporter.costs.cost import CostSource
from spec_decode_exporter.requests.advice import name
from spec_decode_exporter.requests.findings import GroupKey
from spec_decode_exporter.requests.record import RequestSource
from tests.fakes.costs import make_cost


@pytest.fixture(name="advice")
def advice_fixture(taken, make_request):
    """Function that returns the advice; groups map a type to its requests, drafts and accepted tokens."""

    def advice(groups, *, cost=None, **request):
        requests = [
            # Requests differ slightly.
            make_request(drafts, accepted + turn % 3 - 1, request_type=kind, temperature=0.0, **request)
            for kind, (number, drafts, accepted) in groups.items()
            for turn in range(number)
        ]
        return list(taken(requests, cost or make_cost(0.25, 0.1)).models[0].advice)

    return advice


@pytest.mark.parametrize(
    ("groups", "more", "begin", "end"),
    [
        # 1.1 tokens a draft in 2.1 plain steps; with one draft token it would still lose.
        ({"prose": (40, 100, 10), "code": (40, 100, 350)}, {}, "Serve prose requests at temperature 0 (0.52 times as fast with speculation", "50 % of the requests) on replicas without speculation."),
        ({"prose": (40, 100, 10), "code": (40, 100, 350)}, {}, "Keep speculation for code requests at temperature 0 (2.14 times as fast): they gain most.", ""),
        # 1.9 tokens a draft in 2.1 plain steps lose, and one token gives 1 + 90/190 in 1.35.
        ({"prose": (40, 100, 90)}, {}, "Serve prose requests", "with fewer draft tokens: one draft token may still pay."),
        ({"prose": (40, 100, 10)}, {}, "Serve prose requests", "without speculation: no requests here gain."),
        ({"prose": (40, 100, 50)}, {"tokens": 1, "cost": make_cost(0.5, 0.1)}, "Serve prose requests", "without speculation: no requests here gain."),
        ({"broken": (1, 300, 1)}, {}, "1 request had almost no draft tokens accepted", ""),
        ({"loop": (2, 300, 1199)}, {}, "2 requests had almost all draft tokens accepted", ""),
        ({"prose": (40, 100, 10)}, {"cost": make_cost(0.25, 0.1, CostSource.TYPICAL)}, "The cost of drafting is not measured, only typical: measure it, or configure `cost`, before you act on this.", ""),
    ],
    ids=["a group that loses", "the group that gains", "fewer tokens may help", "no group gains", "one token cannot be reduced",
         "rejected", "repetitive", "typical cost"],
)  # fmt: skip
def test_groups_get_the_advice_of_their_speed_up(advice, groups, more, begin, end):
    assert [each for each in advice(groups, **more) if each.startswith(begin) and each.endswith(end)]


def test_too_few_requests_and_rates_alone_get_no_advice(advice, taken, make_request):
    assert advice({"chat": (10, 100, 100)}) == []
    requests = [make_request(0, 60, source=RequestSource.USAGE)] * 50
    assert taken(requests, None).models[0].advice == []
    (sentence,) = taken([make_request()] * 50, None).models[0].advice
    assert "configure `cost`" in sentence


def test_the_slowest_groups_are_named_and_the_others_counted(advice):
    found = advice({f"prose{number}": (30, 100, 10 + number) for number in range(5)})
    (sentence,) = (sentence for sentence in found if sentence.startswith("Serve"))
    assert [f"prose{number} " in sentence for number in range(5)] == [True, True, True, False, False]
    assert "and 2 more" in sentence


def test_a_group_that_is_slower_at_a_typical_cost_is_named_but_not_to_be_routed(advice):
    # 1.9 tokens a draft in 2.1 plain steps.
    # At the lowest c they take 1.5.
    found = advice({"prose": (40, 100, 90)}, cost=make_cost(0.25, 0.1, CostSource.TYPICAL, low=0.1, high=0.4))
    (sentence,) = found
    assert sentence == (
        "At the typical cost of drafting, speculation would slow down prose requests at temperature 0 (0.90 "
        "times as fast with speculation, at most 1.27; 100 % of the requests). Measure the cost, or configure "
        "`cost`, before you act on this."
    )


@pytest.mark.parametrize(
    ("kind", "temperature", "expected"),
    [
        ("chat", "0", "chat requests at temperature 0"),
        ("chat", "0-0.3", "chat requests at temperature up to 0.3"),
        ("chat", ">1", "chat requests at temperature above 1"),
        ("unknown", "unknown", "requests of no stated type without a temperature"),
        ("other", "0", "other requests at temperature 0"),
        ("other", "other", "the other requests"),
    ],
)
def test_groups_have_readable_names(kind, temperature, expected):
    assert name(GroupKey("llama", kind, temperature)) == expected
