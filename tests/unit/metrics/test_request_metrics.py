"""Metrics of requests on a page."""

from itertools import product
from types import SimpleNamespace

import msgspec

from spec_decode_exporter.config.schema import RequestSettings
from spec_decode_exporter.figures.estimate import Estimate
from spec_decode_exporter.monitor.snapshot import Snapshot
from spec_decode_exporter.requests.model_findings import (
    Kind,
    Mixture,
    ModelFindings,
    PromptBucket,
    PromptFindings,
)
from spec_decode_exporter.requests.record import Refusal, RequestRecord, RequestSource
from spec_decode_exporter.requests.store import (
    GroupFindings,
    RequestFindings,
    RequestStore,
    UserFindings,
    WindowFindings,
)
from spec_decode_exporter.requests.summary import (
    Effect,
    GroupKey,
    Percentiles,
    RequestHistogram,
    RequestSummary,
)
from tests.fakes.costs import make_cost
from tests.fakes.golden import is_golden
from tests.paths import DATA
from tests.unit.metrics.written_page import families_of, page_of
from tests.unit.requests.test_summary import kept

SUMMARY = SimpleNamespace(
    requests=40,
    draft_tokens=4000,
    accepted_tokens=2400,
    acceptance_ratio=Percentiles(0.4, 0.6, 0.8),
    mean_acceptance_ratio=0.61,
    acceptance_length_tokens=Percentiles(2.6, 3.4, 4.2),
    time_per_output_token_seconds=Percentiles(0.010, 0.012, 0.020),
    speedup_ratio=Estimate(1.5, 1.4, 1.6, 0.05),
    below_break_even=3,
    evaluated=40,
    rejected=2,
    repetitive=1,
    effect=Effect.GAINS,
    acceptance_length=Estimate(2.3, 2.2, 2.4, 0.05),
)
NOTHING = RequestSummary([kept(RequestRecord("llama", 0, 0, 0, 4))] * 2)
"""Requests that drafted nothing."""

CHAT = GroupKey("llama", "chat", "0.3-0.7")
ODD = GroupKey('lla"ma', "a\\b\nc", "unknown")
SINCE = SimpleNamespace(
    requests=50,
    drafts=1200,
    draft_tokens=4800,
    accepted_tokens=2900,
    acceptance_ratio_histogram=RequestHistogram((0.5, 1.0), (20, 25, 5), 30.25),
    acceptance_length_tokens_histogram=RequestHistogram((2.0, 4.0), (10, 30, 10), 160.5),
)


LOW = SimpleNamespace(acceptance_length=Estimate(1.2, 1.1, 1.3, 0.05))
PROMPTS = PromptFindings(
    "llama",
    [PromptBucket("1000-4000", SUMMARY), PromptBucket("16000-64000", LOW), PromptBucket(">64000", NOTHING)],
)
MIXTURE = Mixture(
    "request_type", Kind("chat", SUMMARY.acceptance_length), Kind("code", SUMMARY.acceptance_length)
)


def model(summary=SUMMARY, *, mixed=True):
    return ModelFindings("llama", summary, MIXTURE if mixed else None, ())


def found(**changes):
    groups = [GroupFindings(CHAT, SUMMARY), GroupFindings(ODD, NOTHING)]
    windows = {"30s": WindowFindings(30.0, True, groups, [model()], covered_seconds=20.5)}
    return RequestFindings(
        **{
            "enabled": True,
            "windows": windows,
            "since_start": {CHAT: SINCE},
            "users": [UserFindings("3f2a", "llama", SUMMARY)],
            "prompts": [PROMPTS],
            "sources": {RequestSource.METRICS: 50},
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
    text = await page_of(Snapshot(requests=found()))
    is_golden(DATA / "metrics" / "requests.txt", text)


def test_a_workload_of_one_kind_is_0_and_not_absent():
    windows = {"30s": WindowFindings(30.0, False, [], [model(mixed=False)])}
    assert values_of(found(windows=windows), "spec_decode_mixed_workload") == {("llama", "30s"): 0}


async def test_the_defaults_allow_6173_series_at_most_and_882_of_users():
    """The limits of the configuration limit the page, for any untrusted text (decision 10).

    Two windows. Every group has all its 74, every model its 2, and 6 by the length of the prompt.
    """
    store, cost = RequestStore(RequestSettings(ingest=True)), make_cost(0.1)
    times = {"completion_tokens": 90, "decode_seconds": 1.0, "first_token_seconds": 0.1}
    for model_name, kind, temperature in product(range(30), range(15), (None, 0, 0.2, 0.5, 0.9, 1.5)):
        request = RequestRecord(f"m{model_name}", 30, 120, 60, 4, f"t{kind}", temperature, user=f"u{kind}")
        for tokens in (500, 2000, 9000, 20_000, 90_000):
            prompt = {"prompt_tokens": tokens, "cached_tokens": 100}
            store.take(msgspec.structs.replace(request, **times, **prompt), 0.0, cost)
    findings = await store.findings((30.0, 300.0), 1.0)
    groups, models = len(findings.since_start), len(findings.windows["5m"].models)
    assert (groups, models) == (60 + 21, 20 + 1)
    samples = [sample for family in families(findings) for sample in family.samples]
    of_users = [sample for sample in samples if "user" in sample.labels]
    assert len(samples) - len(of_users) <= 81 * 74 + 21 * (2 + 5 * 1 + 1) + 11 == 6173
    of_prompts = [sample for sample in samples if "prompt_tokens" in sample.labels]
    assert len({sample.labels["prompt_tokens"] for sample in of_prompts}) == 5
    assert len(of_users) <= 2 * 21 * 21 == 882
