"""A draft model that really makes a server faster: the exporter's bounds contain what the client measured.

The server runs without speculation first, and then with it at the same address. The ratio of the client's mean
times in both is the truth. Every round has the same requests, so their means are comparable.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from process import Server, free_port, get, until
from request_times import Times, answers_of, long_prompts, send, send_until
from vllm_server import DEV_MODE, QUIET, draft_model, vllm
from watch import Page, Watch, watch

K = 4
WORKERS = 3
ROUNDS = [[answers_of(worker, 6) for worker in range(WORKERS)]] * 30
"""Each takes some 20 s without speculation."""
LONG_PROMPT = 1500
"""Tokens."""
LONGER_CONTEXT = ("--max-model-len", "2048")
"""For these prompts, in place of the limit of the other tests."""
PARAMETERS = {"draft_parameters": 5_769_728, "target_parameters": 63_463_936}
"""Of both models, as ``build_models.py`` counts them."""
CONFIG = """\
windows: [30s, {window}]
targets:
  - url: {{url}}/metrics
    name: {{target}}
{more}
"""
WINDOW = "3m"
"""It has bounds from half of it on."""
SHORT_WINDOW = "1m"
LEARNING_SECONDS = 75.0
"""Length of the baseline; the exporter wants 60 s."""
SPEEDUP = "spec_decode_estimated_speedup_ratio"
REQUEST_SPEEDUP = "spec_decode_end_to_end_speedup_ratio"
COST = "spec_decode_draft_cost_ratio"


@dataclass(frozen=True)
class Phases:
    """The client's times without and with speculation, and the pages of the exporters at the end."""

    plain: Times
    drafting: Times
    long_plain: Times
    long_drafting: Times
    pages: Mapping[str, Page]
    """By what the exporter knows of the cost."""
    engines: Mapping[str, Any]
    """Its engine in the API at that time."""

    @property
    def token(self) -> float:
        """The true speed-up of decoding."""
        return self.plain.per_token / self.drafting.per_token

    @property
    def request(self) -> float:
        """The true speed-up of a request."""
        return self.plain.per_request / self.drafting.per_request


def config(window: str = WINDOW, **more: object) -> str:
    """Return a configuration with more sections."""
    return CONFIG.format(
        window=window, more="\n".join(f"{key}: {_braced(value)}" for key, value in more.items())
    )


def _braced(value: object) -> str:
    """Return YAML that survives ``str.format``."""
    return json.dumps(value).replace("{", "{{").replace("}", "}}")


def engine(watching: Watch) -> Any:
    """Return the engine as the API describes it; None while there is none."""
    engines = json.loads(get(f"{watching.server.url}/api/v1/snapshot"))["engines"]
    return next(iter(engines), None)


def learned(watching: Watch, seconds: float) -> bool:
    """Return whether a time without speculation is long enough, with its time to first token."""
    found = engine(watching)
    baseline = found and found["baseline"]
    return bool(
        baseline and baseline["seconds"] >= seconds and baseline["time_to_first_token_seconds"] is not None
    )


def bounds(page: Page, name: str, window: str = WINDOW, **labels: str) -> tuple[float, float, float]:
    """Return lower bound, value and upper bound in a window."""
    names = (f"{name}_lower", name, f"{name}_upper")
    low, value, high = (page.sum(each, window=window, **labels) for each in names)
    return low, value, high


def has_bounds(watching: Watch, window: str) -> bool:
    """Return whether the speed-up of a request has bounds."""
    return bool(watching.page().find(f"{REQUEST_SPEEDUP}_lower", window=window))


def knows_the_baseline(watching: Watch) -> bool:
    """Return whether the cost is that of the baseline, and the speed-up has bounds."""
    page = watching.page()
    return bool(page.find(COST, source="baseline") and page.find(f"{SPEEDUP}_lower", window=WINDOW))


@pytest.fixture(scope="module")
def phases(tmp_path_factory, remark) -> Phases:
    folder: Path = tmp_path_factory.mktemp("deep")
    port = free_port()
    learning = config(state={"file": str(folder / "state.json")})
    of_long_prompts = config(SHORT_WINDOW, state={"file": str(folder / "long.json")}, cost=PARAMETERS)
    common = (*QUIET, *LONGER_CONTEXT)

    def long_times(server: Server, watching: Watch, seed: int) -> Times:
        rounds = [[long_prompts(LONG_PROMPT, 40, seed * 1000 + number)] for number in range(60)]
        return send_until(lambda: learned(watching, 62), server.url, rounds)

    with vllm("deep-plain", *common, model="deep", port=port, more_environment=DEV_MODE) as server:
        send(server.url, ROUNDS[0])
        with watch("deep-long-plain", server.url, config=of_long_prompts) as watching:
            long_plain = long_times(server, watching, 1)
        with watch("deep", server.url, config=learning) as watching:
            plain = send_until(lambda: learned(watching, LEARNING_SECONDS), server.url, ROUNDS)
            watching.settled()
            server.stop()
            until(lambda: not watching.up(), what="a failed poll of the stopped server", seconds=30)
            speculation = draft_model(K, "deep-draft")
            with (
                vllm(
                    "deep-drafting", *common, *speculation, model="deep", port=port, more_environment=DEV_MODE
                ) as drafts,
                watch("deep-sizes", drafts.url, config=config(cost=PARAMETERS)) as sizes,
                watch("deep-unknown", drafts.url, config=config()) as unknown,
            ):
                watching.wait_until_up()
                drafting = send_until(lambda: knows_the_baseline(watching), drafts.url, ROUNDS)
                every = {"baseline": watching, "sizes": sizes, "unknown": unknown}
                pages = {name: each.settled() for name, each in every.items()}
                engines = {name: engine(each) for name, each in every.items()}
                with watch("deep-long-drafting", drafts.url, config=of_long_prompts) as again:
                    rounds = [[long_prompts(LONG_PROMPT, 40, 2000 + number)] for number in range(60)]
                    long_drafting = send_until(lambda: has_bounds(again, SHORT_WINDOW), drafts.url, rounds)
                    pages["long prompts"] = again.settled()
                    engines["long prompts"] = engine(again)
    found = Phases(plain, drafting, long_plain, long_drafting, pages, engines)
    for name in ("plain", "drafting", "long_plain", "long_drafting"):
        remark(f"{name}: {getattr(found, name)}")
    remark(f"truth: {found.token:.3f} a token, {found.request:.3f} a request")
    (Path(".e2e/logs") / "deep-engines.json").write_text(json.dumps(engines, indent=1))
    for name, page in pages.items():
        remark(f"{name}: {said(page)}, {engines[name]['verdict']}")
    return found


def said(page: Page) -> str:
    """Return the speed-ups of a page with their bounds, and the source of the cost."""
    costs = page.find(COST)
    texts = [f"{cost.labels['source']}, c = {cost.value:.3f}" for cost in costs]
    for name in (SPEEDUP, REQUEST_SPEEDUP):
        for low in page.find(f"{name}_lower"):
            window = low.labels["window"]
            _, value, high = bounds(page, name, window)
            texts.append(f"{name} {window} {value:.3f} [{low.value:.3f}, {high:.3f}]")
    return "; ".join(texts)


def test_the_baseline_appears_by_itself_and_its_bounds_contain_the_truth(phases):
    page = phases.pages["baseline"]
    assert page.find(COST, source="baseline")
    low, _, high = bounds(page, SPEEDUP)
    assert low <= phases.token <= high
    assert high / low < 1.5


def test_the_bounds_of_a_request_contain_its_truth(phases):
    low, _, high = bounds(phases.pages["baseline"], REQUEST_SPEEDUP, basis="baseline")
    assert low <= phases.request <= high


def test_with_a_baseline_speculation_pays(phases):
    assert phases.engines["baseline"]["verdict"] in {"healthy", "optimal"}


def test_bounds_by_the_sizes_of_the_models_contain_the_truth_too(phases):
    page = phases.pages["sizes"]
    assert page.find(COST, source="sizes")
    low, _, high = bounds(page, SPEEDUP)
    assert low <= phases.token <= high
    assert phases.engines["sizes"]["verdict"] in {"unclear", "marginal", "healthy", "optimal"}


def test_a_draft_model_of_unknown_size_has_no_speedup_and_is_not_condemned(phases):
    page = phases.pages["unknown"]
    assert page.find(COST) == []
    assert page.find(SPEEDUP) == []
    assert phases.engines["unknown"]["verdict"] == "unclear"


def test_a_draft_model_delays_the_first_token_of_a_long_prompt_and_the_exporter_says_so(phases):
    assert phases.long_drafting.to_first_token > 1.1 * phases.long_plain.to_first_token
    engine = phases.engines["long prompts"]
    before = engine["baseline"]["time_to_first_token_seconds"]
    page = phases.pages["long prompts"]
    low, _, high = bounds(page, REQUEST_SPEEDUP, SHORT_WINDOW, basis="baseline")
    after = page.sum("spec_decode_time_to_first_token_seconds", window="30s")
    assert after > 1.1 * before
    assert low <= phases.long_plain.per_request / phases.long_drafting.per_request <= high
