"""Metrics of requests on a page."""

import asyncio
import dataclasses
from itertools import product

from msgspec.structs import replace

from spec_decode_exporter.config.schema import RequestSettings
from spec_decode_exporter.monitor.snapshot import Snapshot
from spec_decode_exporter.requests.record import Refusal, RequestRecord
from spec_decode_exporter.requests.store import RequestStore
from tests.fakes.costs import make_cost
from tests.fakes.golden import is_golden_page
from tests.paths import DATA
from tests.unit.metrics.written_page import families_of, page_of

CHAT = RequestRecord(
    "llama", 30, 120, 90, 4, "chat", 0.5, 121, 1.2, 0.1, prompt_tokens=1500, cached_tokens=100, user="3f2a"
)
LONG = replace(CHAT, accepted_tokens=30, completion_tokens=61, prompt_tokens=20_000)
CODE = replace(CHAT, accepted_tokens=12, completion_tokens=43, request_type="code", user="")
ODD = RequestRecord('llama"', 0, 0, 0, 4, "a\\b\nc")
"""It drafted nothing; its names have characters that are escaped on a page."""


async def findings_of(*requests, windows=(30.0,)):
    """Return the findings about requests that ended at one moment, each with its own acceptance."""
    store = RequestStore(RequestSettings(ingest=True))
    for number, request in enumerate(requests):
        accepted = request.accepted_tokens - number % 5 if request.drafts else 0
        store.take(replace(request, accepted_tokens=accepted), 0.0, make_cost(0.3))
    store.refuse(Refusal.WITHOUT_METRICS, 4)
    return await store.findings(windows, 1.0)


WHOLE = asyncio.run(findings_of(*[CHAT] * 40, *[LONG] * 20, *[CODE] * 40, *[ODD] * 2))
OF_CHAT = {key: sums for key, sums in WHOLE.since_start.items() if key.request_type == "chat"}
FOUND = dataclasses.replace(WHOLE, since_start=OF_CHAT, folded={"request_type": 7, "model_name": 0})
"""Findings with groups that are in a window alone."""


async def test_the_page_is_the_golden_one():
    text = await page_of(Snapshot(requests=FOUND))
    is_golden_page(DATA / "metrics" / "requests.txt", text)


async def test_a_workload_of_one_kind_is_0_and_not_absent():
    alike = await findings_of(*[CHAT] * 40)
    mixed, of_one_kind = (
        {
            tuple(sample.labels.values()): sample.value
            for family in families_of(Snapshot(requests=findings))
            for sample in family.samples
            if sample.name == "spec_decode_mixed_workload"
        }
        for findings in (FOUND, alike)
    )
    assert mixed["llama", "30s"] == 1
    assert of_one_kind == {("llama", "30s"): 0}


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
            store.take(replace(request, **times, **prompt), 0.0, cost)
    findings = await store.findings((30.0, 300.0), 1.0)
    groups, models = len(findings.since_start), len(findings.windows["5m"].models)
    assert (groups, models) == (60 + 21, 20 + 1)
    families = families_of(Snapshot(requests=findings))
    samples = [sample for family in families for sample in family.samples]
    of_users = [sample for sample in samples if "user" in sample.labels]
    assert len(samples) - len(of_users) <= 81 * 74 + 21 * (2 + 5 * 1 + 1) + 11 == 6173
    of_prompts = [sample for sample in samples if "prompt_tokens" in sample.labels]
    assert len({sample.labels["prompt_tokens"] for sample in of_prompts}) == 5
    assert len(of_users) <= 2 * 21 * 21 == 882
