"""An experiment on a real pair: the same requests with and without a draft model, at the same time.

The ratio of the client's mean times is the truth. The exporter's bounds contain it: those of the experiment, and
those of the drafting server by the cost that the experiment measures.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from clients import SHORT_REQUESTS, Times, send
from vllm_server import QUIET, draft_model, vllm
from watch import COST, SPEEDUP, TARGET, bounds, watch

from tests.e2e.conftest import eventually

WINDOW = "2m"
EXPERIMENT = {
    "name": "drafter",
    "arms": {name: {"match": {"speculation": name}} for name in ("plain", "drafting")},
    "baseline": "plain",
}
UP = "spec_decode_exporter_target_up"
ARM_SPEEDUP = "spec_decode_experiment_speedup_ratio"
ARM = {"arm": "drafting", "basis": "time_per_output_token"}
HAVE_BOUNDS = {
    f"{ARM_SPEEDUP}_lower": {"window": WINDOW, **ARM},
    f"{SPEEDUP}_lower": {"window": WINDOW, "target": "server"},
    COST: {"source": "experiment", "target": "server"},
}
"""Both speed-ups have bounds, with the cost that the experiment measured."""
ROUND = [requests[:3] for requests in SHORT_REQUESTS[:2]]
MAX_ROUNDS = 60


def test_an_experiment_measures_the_truth_and_the_cost(remark):
    with (
        vllm("arm-plain", *QUIET, model="deep") as plain,
        vllm("arm-drafting", *QUIET, *draft_model(4, "deep-draft"), model="deep") as drafting,
    ):
        known = {"url": f"{drafting.url}/metrics", "name": TARGET, "speculative": {"method": "draft_model"}}
        targets = [
            {**known, "labels": {"speculation": "drafting"}},
            {"url": f"{plain.url}/metrics", "name": "plain", "labels": {"speculation": "plain"}},
        ]
        more = {"targets": targets, "experiments": [EXPERIMENT]}
        without = with_drafts = Times()
        with (
            watch("arms", drafting.url, window=WINDOW, **more) as watching,
            ThreadPoolExecutor(1) as pool,
        ):
            eventually(lambda: watching.page().sum(UP) == 2, what="polls of both servers")
            for _ in range(MAX_ROUNDS):  # the same requests for both at the same time
                of_plain = pool.submit(send, plain.url, ROUND)
                with_drafts += send(drafting.url, ROUND)
                without += of_plain.result()
                if watching.shows(HAVE_BOUNDS):
                    break
            else:
                pytest.fail(f"no bounds after {without} and {with_drafts}")
            page = watching.settled()
    truth = without.per_token / with_drafts.per_token
    arm, engine = bounds(page, ARM_SPEEDUP, WINDOW, **ARM), bounds(page, SPEEDUP, WINDOW, target="server")
    remark(f"experiment, K = 0: {without}")
    remark(f"experiment, K = 4: {with_drafts}")
    told = ", ".join(
        f"{name} {value:.3f} [{low:.3f}, {high:.3f}]"
        for name, (low, value, high) in (("experiment", arm), ("engine", engine))
    )
    remark(f"truth: {truth:.3f} a token; {told}; c {page.find(COST)[0].value:.3f}")
    assert arm[0] <= truth <= arm[2]
    assert page.find(COST, source="experiment", target="server")
    assert engine[0] <= truth <= engine[2]
