from __future__ import annotations

import re
from dataclasses import replace

import pytest

from spec_decode_exporter.core.internal_errors import InternalErrors
from spec_decode_exporter.figures.estimate import Estimate
from spec_decode_exporter.requests.request_findings import (
    ContextFall,
    Effect,
    GroupFindings,
    GroupKey,
    ModelFindings,
    Modes,
    Percentiles,
    PromptBucket,
    PromptFindings,
    RequestFindings,
    RequestTotals,
    Summary,
    WindowFindings,
)
from spec_decode_exporter.requests.request_record import Refusal
from spec_decode_exporter.web.page import request_panel as module
from tests.web.page.mixed_requests import mixed_requests
from tests.web.page.test_markup import Reading

SPEEDS = {Effect.GAINS: (1.5, 1.4, 1.6), Effect.LOSES: (0.8, 0.7, 0.9), Effect.UNCLEAR: (1.0, 0.9, 1.1)}


async def requests(findings):
    return await module.requests(findings, InternalErrors())


def summary(number=10, speed=None, **changes):
    said = Summary(
        totals=RequestTotals(number, 20 * number, 80 * number, 40 * number),
        acceptance_ratio=Percentiles(0.25, 0.5, 0.75),
        mean_acceptance_ratio=0.5,
        acceptance_length_tokens=Percentiles(2.0, 3.0, 4.0),
        time_per_output_token_seconds=Percentiles(0.01, 0.02, 0.03),
        speedup_ratio=Estimate(*speed, standard_error=0.1) if speed else None,
        below_break_even=3,
        evaluated=number,
        rejected=0,
        repetitive=0,
    )
    return replace(said, **changes)


def group(kind="chat", effect=Effect.UNCLEAR, number=10, model="llama", temperature="0", **changes):
    return GroupFindings(
        GroupKey(model, kind, temperature), summary(number, SPEEDS[effect], **changes), effect
    )


def found(*groups, mixed=False, modes=None, advice=(), counts=(), partial=False, **changes):
    names = dict.fromkeys(each.key.model_name for each in groups)
    number = sum(each.summary.totals.requests for each in groups)
    models = [ModelFindings(each, summary(number), modes, mixed, advice, counts) for each in names]
    windows = {
        label: WindowFindings(seconds, partial, groups, models)
        for label, seconds in (("30s", 30), ("5m", 300))
    }
    return replace(RequestFindings(enabled=True, windows=windows, taken=number), **changes)


def rows(html):
    return re.findall(r'<th scope="row" role="rowheader"><bdi>([^<]*)', html)


async def test_before_the_first_request_the_section_names_the_endpoint():
    html = await requests(RequestFindings(enabled=True))
    assert "No request was received yet. Send the metrics of vLLM's responses" in Reading(html).text


@pytest.mark.parametrize("effect", [Effect.LOSES, Effect.GAINS])
async def test_a_clear_effect_has_no_reason(effect):
    html = await requests(found(group("chat", effect)))
    assert html.count('class="context"') == 1  # the temperature


async def test_an_absent_value_is_not_0():
    nothing = {
        "acceptance_ratio": None,
        "acceptance_length_tokens": None,
        "time_per_output_token_seconds": None,
    }
    html = await requests(found(group(evaluated=0, below_break_even=0, **nothing)))
    assert html.count('class="none"') == 4
    assert ">0.0" not in html


async def test_a_mixed_workload_shows_its_modes_and_advice():
    advice = ["Serve creative requests <elsewhere>."]
    modes = Modes(0.4, 0.38, 0.82, 90)
    counts = [0] * 7 + [40] + [0] * 8 + [60, 0, 0, 0]
    html = await requests(found(group(), mixed=True, modes=modes, advice=advice, counts=counts))
    text = Reading(html).text
    assert "Mixed workload: " in text
    assert "Serve creative requests <elsewhere>." in text
    assert (
        "100 requests by acceptance rate, with two modes: of 90 with long answers, 40.0\u202f% around "
        "38.0\u202f%, 60.0\u202f% around 82.0\u202f%." in text
    )
    columns = html[html.index('class="columns"') : html.index("</svg>")]
    assert columns.count('class="fill"') == 2
    assert columns.count('class="mark"') == 2
    assert 'y="0" width="28" height="100"' in columns


async def test_without_a_finding_nothing_is_claimed():
    text = Reading(await requests(found(group(), counts=[0] * 19 + [7]))).text
    assert "Mixed" not in text
    assert "7 requests by acceptance rate, with one mode." in text


async def test_pathological_requests_are_shown_in_their_row():
    text = Reading(await requests(found(group(rejected=3, repetitive=1200)))).text
    assert "3 had almost nothing accepted" in text
    assert "1\u202f200 had almost everything accepted" in text


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


async def test_a_group_missing_in_the_shorter_window_has_no_median_there():
    both = found(group("chat"), group("gone"))
    short = replace(both.windows["30s"], groups=[group("chat")])
    html = await requests(replace(both, windows={**both.windows, "30s": short}))
    assert html.count('class="none"') == 1


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
                2010.0,
                0.5,
                Estimate(2.3, 2.2, 2.4, 0.05),
                Percentiles(0.1, 0.2, 0.4),
                summary(40, (1.5, 1.4, 1.6)),
                Effect.GAINS,
            ),
            PromptBucket(">64000", 70_400.2, None, None, None, summary(5, None), Effect.UNCLEAR),
        ]
        prompts = PromptFindings("llama", buckets, ContextFall(2010.0, 2.3, 70_400.2, 1.08))
        return found(group(number=45), prompts=[prompts])

    async def test_a_table_has_a_row_for_each_bucket(self, prompted):
        html = await requests(prompted)
        table = html[html.index("by prompt length") :]
        assert re.findall(r'role="rowheader">([^<]*)', table) == ["up to 4,000", "above 64,000"]
        for text in ("2.30", "2.20", "2.40", "1.50", "50"):
            assert text in table

    async def test_acceptance_that_falls_with_the_context_is_a_sentence(self, prompted):
        html = await requests(prompted)
        assert "a draft gives 2.30 tokens at 2,010 prompt tokens, and 1.08 at 70,400." in html
        (prompts,) = prompted.prompts
        without = await requests(replace(prompted, prompts=[replace(prompts, fall=None)]))
        assert "Acceptance falls" not in without
