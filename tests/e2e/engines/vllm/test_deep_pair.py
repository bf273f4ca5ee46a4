"""A draft model that really makes a server faster: the exporter's bounds contain what the client measured.

The server runs without speculation first, and then with it at the same address. The ratio of the client's mean
times in both is the truth. Every round has the same requests, so their means are comparable.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from clients import Times, answers_of, send, send_until
from process import free_port, until
from vllm_server import DEV_MODE, QUIET, draft_model, vllm
from watch import COST, REQUEST_SPEEDUP, SPEEDUP, Page, bounds, engine, has_bounds, learned, said, watch

K = 4
WORKERS = 3
ROUNDS = [[answers_of(worker, 6) for worker in range(WORKERS)]] * 60
"""Each takes some 12 s without speculation."""
WINDOW = "3m"
"""It has bounds from half of it on."""
PAYS, LOSES = {"marginal", "healthy", "optimal"}, {"harmful"}
LEARNING_SECONDS = 75.0
"""Length of the baseline; the exporter wants 60 s."""


@dataclass(frozen=True)
class Phases:
    """The client's times without and with speculation, and what the exporters said at the end."""

    plain: Times
    drafting: Times
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


@pytest.fixture(scope="module")
def phases(tmp_path_factory, remark) -> Phases:
    port = free_port()
    state = {"file": str(tmp_path_factory.mktemp("deep") / "state.json")}
    deep = {"model": "deep", "port": port, "more_environment": DEV_MODE}
    with (
        vllm("deep-plain", *QUIET, **deep) as server,
        watch("deep", server.url, window=WINDOW, state=state) as watching,
    ):
        plain = send_until(lambda: learned(watching, LEARNING_SECONDS), server.url, ROUNDS)
        watching.settled()
        server.stop()
        until(lambda: not watching.up(), what="a failed poll of the stopped server", seconds=30)
        with (
            vllm("deep-drafting", *QUIET, *draft_model(K, "deep-draft"), **deep) as drafts,
            watch("deep-unknown", drafts.url, window=WINDOW) as unknown,
        ):
            watching.wait_until_up()
            send(drafts.url, ROUNDS[0])
            drafting = send_until(lambda: has_bounds(watching, WINDOW, source="baseline"), drafts.url, ROUNDS)
            every = {"baseline": watching, "unknown": unknown}
            pages = {name: each.settled() for name, each in every.items()}
            engines = {name: engine(each) for name, each in every.items()}
    found = Phases(plain, drafting, pages, engines)
    remark(f"K = 0: {plain}")
    remark(f"K = {K}: {drafting}")
    remark(f"truth: {found.token:.3f} a token, {found.request:.3f} a request")
    for name, page in pages.items():
        remark(f"{name}: {engines[name]['verdict']}; {said(page)}")
    return found


def test_the_baseline_appears_by_itself_and_its_bounds_contain_the_truth(phases):
    page = phases.pages["baseline"]
    assert page.find(COST, source="baseline")
    low, _, high = bounds(page, SPEEDUP, WINDOW)
    assert low <= phases.token <= high


def test_the_bounds_of_a_request_contain_its_truth(phases):
    low, _, high = bounds(phases.pages["baseline"], REQUEST_SPEEDUP, WINDOW, basis="baseline")
    assert low <= phases.request <= high


def test_no_verdict_contradicts_the_truth(phases):
    """A busy machine may make the second server slower than the first, and then so it is."""
    for told in phases.engines.values():
        assert told["verdict"] not in PAYS or phases.token > 1
        assert told["verdict"] not in LOSES or phases.token < 1


def test_a_baseline_decides_where_its_bounds_exclude_break_even(phases):
    """On a busy machine they may include it; then the verdict is that it depends."""
    page = phases.pages["baseline"]
    token, request = bounds(page, SPEEDUP, WINDOW), bounds(page, REQUEST_SPEEDUP, WINDOW, basis="baseline")
    pays = phases.engines["baseline"]["verdict"] in PAYS
    assert pays or min(token[0], request[0]) < 1
    assert token[0] >= 1 or not pays


def test_a_draft_model_of_unknown_size_has_no_speedup_and_is_not_condemned(phases):
    page = phases.pages["unknown"]
    assert page.find(COST) == []
    assert page.find(SPEEDUP) == []
    assert phases.engines["unknown"]["verdict"] == "unclear"
