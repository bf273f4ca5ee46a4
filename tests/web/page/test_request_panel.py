from __future__ import annotations

import re
from dataclasses import replace
from types import SimpleNamespace

import pytest

from spec_decode_exporter.core.isolation import Isolation
from spec_decode_exporter.figures.estimate import Estimate
from spec_decode_exporter.requests.cells import Effect, Percentiles, Sums
from spec_decode_exporter.requests.findings import (
    ContextFall,
    GroupFindings,
    GroupKey,
    ModelFindings,
    PromptBucket,
    PromptFindings,
    RequestFindings,
    WindowFindings,
)
from spec_decode_exporter.requests.record import Refusal, RequestSource
from spec_decode_exporter.web.page import request_panel as module
from tests.web.page.mixed_requests import mixed_requests
from tests.web.page.test_markup import Reading

SPEEDS = {Effect.GAINS: (1.5, 1.4, 1.6), Effect.LOSES: (0.8, 0.7, 0.9), Effect.UNCLEAR: (1.0, 0.9, 1.1)}


async def requests(findings):
    return await module.requests(findings, Isolation())


def summary(number=10, speed=None, **changes):
    said = {
        "requests": number,
        "drafts": 20 * number,
        "draft_tokens": 80 * number,
        "accepted_tokens": 40 * number,
        "acceptance_counts": [0] * 20,
        "acceptance_length": None,
        "mean_prompt_tokens": None,
        "cached_ratio": None,
        "time_to_first_token_seconds": None,
        "effect": Effect.UNCLEAR,
        "acceptance_ratio": Percentiles(0.25, 0.5, 0.75),
        "mean_acceptance_ratio": 0.5,
        "acceptance_length_tokens": Percentiles(2.0, 3.0, 4.0),
        "time_per_output_token_seconds": Percentiles(0.01, 0.02, 0.03),
        "speedup_ratio": Estimate(*speed, standard_error=0.1) if speed else None,
        "below_break_even": 3,
        "evaluated": number,
        "rejected": 0,
        "repetitive": 0,
    }
    return SimpleNamespace(**{**said, **changes})


def group(kind="chat", effect=Effect.UNCLEAR, number=10, model="llama", temperature="0", **changes):
    own = summary(number, SPEEDS[effect], effect=effect, **changes)
    return GroupFindings(GroupKey(model, kind, temperature), own)


def found(*groups, mixed=False, advice=(), partial=False, **changes):
    names = dict.fromkeys(each.key.model_name for each in groups)
    number = sum(each.summary.requests for each in groups)
    models = [ModelFindings(each, summary(number), None, mixed, advice) for each in names]
    windows = {
        label: WindowFindings(seconds, partial, groups, models)
        for label, seconds in (("30s", 30), ("5m", 300))
    }
    return replace(
        RequestFindings(enabled=True, windows=windows, sources={RequestSource.METRICS: number}), **changes
    )


def rows(html):
    return re.findall(r'<th scope="row" role="rowheader"><bdi>([^<]*)', html)


async def test_before_the_first_request_the_section_names_the_endpoint():
    html = await requests(RequestFindings(enabled=True))
    assert "No request was received yet. Send the metrics of vLLM's responses" in Reading(html).text


async def test_rejected_and_merged_requests_are_counted():
    refused = {Refusal.MALFORMED: 2, Refusal.RATE: 3000, Refusal.CONTRADICTORY: 0, Refusal.DROPPED: 7}
    html = await requests(
        found(group(), refused=refused, folded={"request_type": 7, "user": 0}, partial=True)
    )
    text = Reading(html).text
    assert text.endswith(
        "Since the start 10 requests were received; rejected 2 malformed, 3\u202f000 above the rate, "
        "7 dropped by the sender;"
        " counted as other 7 by request_type."
    )
    assert "Some requests of the last 5m are missing" in text


async def test_the_mixed_workload_of_the_simulator_is_shown():
    html = await requests(await mixed_requests())
    text = Reading(html).text
    assert rows(html)[0] == "creative"
    assert "Mixed workload" in text
    assert "Serve creative requests at temperature up to 1" in text
    assert "with two modes: " in text


class TestPrompts:
    @pytest.fixture(name="prompted")
    def prompted_fixture(self):
        """Findings of a model whose acceptance falls with the length of the prompt."""
        buckets = [
            PromptBucket(
                "1000-4000",
                summary(
                    40,
                    (1.5, 1.4, 1.6),
                    cached_ratio=0.5,
                    acceptance_length=Estimate(2.3, 2.2, 2.4, 0.05),
                    time_to_first_token_seconds=Percentiles(0.1, 0.2, 0.4),
                ),
            ),
            PromptBucket(">64000", summary(5, None)),
        ]
        prompts = PromptFindings("llama", buckets, ContextFall(2010.0, 2.3, 70_400.2, 1.08))
        return found(group(number=45), prompts=[prompts])

    async def test_a_table_has_a_row_for_each_bucket(self, prompted):
        html = await requests(prompted)
        table = html[html.index("by prompt length") :]
        assert re.findall(r'role="rowheader">([^<]*)', table) == ["up to 4,000", "above 64,000"]
        for text in ("2.30", "2.20", "2.40", "1.50", "50"):
            assert text in table


async def test_pathological_requests_are_shown_in_their_row():
    text = Reading(await requests(found(group(rejected=3, repetitive=1200)))).text
    assert "3 had almost nothing accepted" in text
    assert "1\u202f200 had almost everything accepted" in text


@pytest.mark.parametrize(
    ("tokens", "drafts", "evaluated", "lower", "upper", "expected"),
    [
        (0, 0, 0, None, None, "nothing was drafted"),
        (900, 0, 0, None, None, "the sender reports a rate only"),
        (900, 900, 0, None, None, "the cost of drafting is unknown"),
        (900, 900, 29, None, None, "too few requests"),
        (900, 900, 40, 0.99, 1.01, "the bounds include 1"),
        (900, 900, 40, 1.0, 1.01, "the bounds include 1"),
        (900, 900, 40, 0.9, 0.92, "the cost of drafting is only a default"),
    ],
)
def test_the_reason_for_an_unclear_effect(tokens, drafts, evaluated, lower, upper, expected):
    assert (
        module.why_unclear(Sums(drafts=drafts, draft_tokens=tokens, evaluated=evaluated), lower, upper)
        == expected
    )


async def test_requests_that_report_a_rate_only_are_counted():
    html = await requests(found(group(), sources={RequestSource.METRICS: 7, RequestSource.USAGE: 3}))
    assert "Since the start 10 requests were received; 3 of them report a rate only." in Reading(html).text
