"""Metrics of requests on a page."""

from __future__ import annotations

import os
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families as read_text

from spec_decode_exporter.analysis.cost import Cost
from spec_decode_exporter.analysis.cost_source import CostSource
from spec_decode_exporter.config.request_settings import RequestSettings
from spec_decode_exporter.config.schema import Metrics, Profile
from spec_decode_exporter.figures.estimate import Estimate
from spec_decode_exporter.metrics.request_metrics import REQUEST_METRICS
from spec_decode_exporter.metrics.selection import selected_metrics
from spec_decode_exporter.monitor.snapshot import Snapshot
from spec_decode_exporter.requests.group_totals import (
    ACCEPTANCE_LENGTH_BOUNDS,
    ACCEPTANCE_RATIO_BOUNDS,
    HistogramCounter,
)
from spec_decode_exporter.requests.request_findings import (
    ContextFall,
    Effect,
    GroupFindings,
    GroupKey,
    GroupTotals,
    ModelFindings,
    Percentiles,
    PromptBucket,
    PromptFindings,
    RequestFindings,
    RequestHistogram,
    RequestTotals,
    Summary,
    UserFindings,
    WindowFindings,
)
from spec_decode_exporter.requests.request_record import Refusal, RequestRecord
from spec_decode_exporter.requests.request_store import RequestStore
from tests.metrics.written_page import families_of, page_of

GOLDEN = Path(__file__).parent / "golden" / "requests.txt"

SUMMARY = Summary(
    totals=RequestTotals(40, 1000, 4000, 2400),
    acceptance_ratio=Percentiles(0.4, 0.6, 0.8),
    mean_acceptance_ratio=0.61,
    acceptance_length_tokens=Percentiles(2.6, 3.4, 4.2),
    time_per_output_token_seconds=Percentiles(0.010, 0.012, 0.020),
    speedup_ratio=Estimate(1.5, 1.4, 1.6, 0.05),
    below_break_even=3,
    evaluated=40,
    rejected=2,
    repetitive=1,
)
NOTHING = Summary(RequestTotals(2), None, None, None, None, None, 0, 0, 0, 0)
"""Requests that drafted nothing."""

BOUNDS = (ACCEPTANCE_RATIO_BOUNDS, ACCEPTANCE_LENGTH_BOUNDS)
CHAT = GroupKey("llama", "chat", "0.3-0.7")
ODD = GroupKey('lla"ma', "a\\b\nc", "unknown")
SINCE = GroupTotals(
    RequestTotals(50, 1200, 4800, 2900),
    RequestHistogram((0.5, 1.0), (20, 25, 5), 30.25),
    RequestHistogram((2.0, 4.0), (10, 30, 10), 160.5),
)


PROMPTS = PromptFindings(
    "llama",
    [
        PromptBucket(
            "1000-4000",
            2000.0,
            0.5,
            Estimate(2.3, 2.2, 2.4, 0.05),
            Percentiles(0.1, 0.2, 0.4),
            SUMMARY,
            Effect.GAINS,
        ),
        PromptBucket(">64000", 70_000.0, None, None, None, NOTHING, Effect.UNCLEAR),
    ],
    ContextFall(2000.0, 2.3, 20_000.0, 1.08),
)


def model(summary=SUMMARY, *, mixed=True):
    return ModelFindings("llama", summary, None, mixed, ())


def found(**changes):
    groups = [GroupFindings(CHAT, SUMMARY, Effect.GAINS), GroupFindings(ODD, NOTHING, Effect.UNCLEAR)]
    windows = {"30s": WindowFindings(30.0, True, groups, [model()], covered_seconds=20.5)}
    return RequestFindings(
        **{
            "enabled": True,
            "windows": windows,
            "since_start": {CHAT: SINCE},
            "users": [UserFindings("3f2a", "llama", SUMMARY)],
            "prompts": [PROMPTS],
            "taken": 50,
            "bodies": 6,
            "refused": {Refusal.WITHOUT_METRICS: 4},
            "folded": {"request_type": 7, "model_name": 0},
            **changes,
        }
    )


def families(findings):
    return families_of(Snapshot(requests=findings))


def values_of(findings, name):
    """Return the values of a metric by those of its labels, of which ``le`` is the last."""
    return {
        tuple(sample.labels.values()): sample.value
        for family in families(findings)
        for sample in family.samples
        if sample.name == name
    }


async def test_the_page_is_the_golden_one():
    """After a wanted change: ``UPDATE_GOLDEN=1 pytest tests/metrics``, then read the difference."""
    page = await page_of(Snapshot(requests=found()))
    if os.environ.get("UPDATE_GOLDEN"):
        GOLDEN.write_text(page, encoding="utf-8")
    assert page == GOLDEN.read_text(encoding="utf-8")
    assert {
        label for family in read_text(page) for one in family.samples for label in one.labels.values()
    } >= {
        ODD.model_name,
        ODD.request_type,
    }


def test_no_metric_is_exported_if_no_requests_are_received():
    assert families(found(enabled=False)) == []


def test_every_metric_has_values_if_the_findings_are_complete():
    names = {family.name for family in families(found())}
    assert names == {metric.family for metric in REQUEST_METRICS}


def test_the_exporter_s_own_counters_begin_at_0_with_every_reason():
    fresh = RequestFindings(enabled=True)
    assert values_of(fresh, "spec_decode_exporter_requests_taken_total") == {(): 0}
    assert values_of(fresh, "spec_decode_exporter_request_bodies_taken_total") == {(): 0}
    refused = values_of(fresh, "spec_decode_exporter_requests_refused_total")
    reasons = ("malformed", "without_metrics", "contradictory", "rate", "dropped", "too_costly", "body")
    assert refused == {(reason,): 0 for reason in reasons}


def test_buckets_are_cumulative_and_end_with_the_count():
    name = "spec_decode_request_acceptance_ratio"
    labels = ("llama", "chat", "0.3-0.7")
    buckets = values_of(found(), f"{name}_bucket")
    assert buckets == {(*labels, "0.5"): 20, (*labels, "1.0"): 45, (*labels, "+Inf"): 50}
    assert values_of(found(), f"{name}_count") == {labels: 50}
    assert values_of(found(), f"{name}_sum") == {labels: 30.25}


def test_figures_of_requests_without_drafts_are_absent():
    findings = found(
        windows={"30s": WindowFindings(30.0, False, [GroupFindings(ODD, NOTHING, Effect.UNCLEAR)])}
    )
    said = {
        family.name for family in families(findings) if any("window" in one.labels for one in family.samples)
    }
    assert said == {
        "spec_decode_window_requests",
        "spec_decode_window_evaluated_requests",
        "spec_decode_request_effect",
        "spec_decode_pathological_requests",
    }


@pytest.mark.parametrize(
    ("name", "labels", "value"),
    [
        ("spec_decode_window_evaluated_requests", ("llama", "chat", "0.3-0.7", "30s"), 40),
        ("spec_decode_requests_below_break_even_ratio", ("llama", "chat", "0.3-0.7", "30s"), 3 / 40),
        ("spec_decode_request_speedup_ratio_lower", ("llama", "chat", "0.3-0.7", "30s"), 1.4),
        ("spec_decode_request_speedup_ratio_upper", ("llama", "chat", "0.3-0.7", "30s"), 1.6),
        ("spec_decode_request_saved_tokens_total", ("llama", "chat", "0.3-0.7"), 2900),
        ("spec_decode_pathological_requests", ("llama", "chat", "0.3-0.7", "30s", "rejected"), 2),
        ("spec_decode_request_acceptance_quantile_ratio", ("llama", "chat", "0.3-0.7", "30s", "0.1"), 0.4),
        ("spec_decode_model_request_acceptance_quantile_ratio", ("llama", "30s", "0.9"), 0.8),
        ("spec_decode_mixed_workload", ("llama", "30s"), 1),
        ("spec_decode_user_acceptance_ratio", ("3f2a", "llama"), 0.6),
        ("spec_decode_exporter_requests_folded_total", ("request_type",), 7),
    ],
)
def test_each_metric_has_the_number_of_its_finding(name, labels, value):
    assert values_of(found(), name)[labels] == pytest.approx(value)


@pytest.mark.parametrize("effect", Effect)
def test_the_effect_is_a_state_set_of_the_finding_whatever_the_bounds(effect):
    """With the default cost a loss is unclear, though the upper bound is below 1."""
    losing = replace(SUMMARY, speedup_ratio=Estimate(0.91, 0.9, 0.92, 0.05))
    windows = {"30s": WindowFindings(30.0, False, [GroupFindings(CHAT, losing, effect)])}
    assert values_of(found(windows=windows), "spec_decode_request_effect") == {
        ("llama", "chat", "0.3-0.7", "30s", each.value): each is effect for each in Effect
    }


def test_a_workload_of_one_kind_is_0_and_not_absent():
    windows = {"30s": WindowFindings(30.0, False, [], [model(mixed=False)])}
    assert values_of(found(windows=windows), "spec_decode_mixed_workload") == {("llama", "30s"): 0}


class TestNumberOfSeries:
    """The limits of the configuration limit the page, for any untrusted text (decision 10)."""

    @pytest.fixture(name="board")
    def board_fixture(self):
        """Request store with the default limits, after more models, types, temperatures and users than these."""
        board = RequestStore(RequestSettings(ingest=True))
        for model_name, kind, temperature in product(range(30), range(15), (None, 0, 0.2, 0.5, 0.9, 1.5)):
            request = RequestRecord(
                f"m{model_name}", 30, 120, 60, 4, f"t{kind}", temperature, user=f"u{kind}"
            )
            times = {"decode_seconds": 1.0, "first_token_seconds": 0.1}
            for tokens in (500, 2000, 9000, 20_000, 90_000):
                prompt = {"prompt_tokens": tokens, "cached_tokens": 100}
                board.take(replace(request, completion_tokens=90, **times, **prompt), 0.0)
        return board

    async def test_the_defaults_allow_6447_at_most_and_882_of_users(self, board):
        """Two windows. Every group has all its 74, every model its 10, and 11 by the length of the prompt."""
        cost = Cost(0.1, 0.1, CostSource.CONFIGURED, None)
        findings = await board.findings((30.0, 300.0), 1.0, lambda *_: cost)
        groups, models = len(findings.since_start), len(findings.windows["5m"].models)
        assert (groups, models) == (60 + 21, 20 + 1)
        samples = [sample for family in families(findings) for sample in family.samples]
        of_users = [sample for sample in samples if "user" in sample.labels]
        assert len(samples) - len(of_users) <= 81 * 74 + 21 * (10 + 5 * 2 + 1) + 12 == 6447
        of_prompts = [sample for sample in samples if "prompt_tokens" in sample.labels]
        assert len({sample.labels["prompt_tokens"] for sample in of_prompts}) == 5
        assert len(of_users) <= 2 * 21 * 21 == 882

    def test_a_bucket_of_prompts_is_2_and_their_finding_1(self):
        bucket = found(windows={}, since_start={}, users=(), refused={}, folded={}, prompts=())
        others = sum(len(family.samples) for family in families(bucket))
        one = replace(PROMPTS, buckets=PROMPTS.buckets[:1])
        samples = sum(len(family.samples) for family in families(replace(bucket, prompts=[one])))
        assert samples == others + 2 + 1

    @pytest.mark.parametrize(
        ("profile", "group", "one_model"),
        [(Profile.STANDARD, 37, 5), (Profile.FULL, 74, 10)],
    )
    def test_a_group_and_a_model_are_as_many_as_stated(self, profile, group, one_model):
        """Limits of the defaults: a change of the table must consider decision 10."""
        selection = selected_metrics(Metrics(profile=profile), (30.0, 300.0))
        windows = {
            label: WindowFindings(0.0, False, [GroupFindings(CHAT, SUMMARY, Effect.GAINS)], [model()])
            for label in ("30s", "5m")
        }
        since = GroupTotals(SINCE.totals, *(HistogramCounter(bounds).snapshot() for bounds in BOUNDS))
        findings = found(
            windows=windows, since_start={CHAT: since}, users=(), prompts=(), folded=dict.fromkeys("abcd", 0)
        )
        found_families = families_of(Snapshot(requests=findings), selection)
        expected = group + one_model + 13
        assert sum(len(family.samples) for family in found_families) == expected
