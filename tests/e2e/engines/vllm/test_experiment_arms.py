"""An experiment on a real pair: the same requests with and without a draft model, at the same time.

The ratio of the client's mean times is the truth. The exporter's bounds contain it: those of the experiment, and
those of the drafting server by the cost that the experiment measures.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor

from clients import Times, answers_of, send
from process import Server
from vllm_server import QUIET, draft_model, vllm
from watch import COST, SPEEDUP, TARGET, Watch, bounds, watch

from tests.e2e.conftest import eventually

WINDOW = "2m"
EXPERIMENT = {
    "name": "drafter",
    "arms": {name: {"match": {"speculation": name}} for name in ("plain", "drafting")},
    "baseline": "plain",
}
ARM_SPEEDUP = "spec_decode_experiment_speedup_ratio"
ARM = {"arm": "drafting", "basis": "time_per_output_token"}
ROUND = [answers_of(worker, 3) for worker in range(2)]
MAX_ROUNDS = 60


def test_an_experiment_measures_the_truth_and_the_cost(remark):
    with (
        vllm("arm-plain", *QUIET, model="deep") as plain,
        vllm("arm-drafting", *QUIET, *draft_model(4, "deep-draft"), model="deep") as drafting,
        watch("arms", drafting.url, window=WINDOW, **arms(plain, drafting)) as watching,
    ):
        eventually(lambda: len(ups(watching)) == 2, what="polls of both servers")
        without, with_drafts = send_both_until(lambda: is_measured(watching), plain.url, drafting.url)
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


def arms(plain: Server, drafting: Server) -> Mapping[str, object]:
    """Return the sections of the configuration."""
    known = {"url": f"{drafting.url}/metrics", "name": TARGET, "speculative": {"method": "draft_model"}}
    targets = [
        {**known, "labels": {"speculation": "drafting"}},
        {"url": f"{plain.url}/metrics", "name": "plain", "labels": {"speculation": "plain"}},
    ]
    return {"targets": targets, "experiments": [EXPERIMENT]}


def ups(watching: Watch) -> list[float]:
    """Return the targets whose last poll succeeded."""
    return [sample.value for sample in watching.page().find("spec_decode_exporter_target_up") if sample.value]


def is_measured(watching: Watch) -> bool:
    """Return whether both speed-ups have bounds, with the cost that the experiment measured."""
    page = watching.page()
    return all(
        (
            page.find(f"{ARM_SPEEDUP}_lower", window=WINDOW, **ARM),
            page.find(f"{SPEEDUP}_lower", window=WINDOW, target="server"),
            page.find(COST, source="experiment", target="server"),
        )
    )


def send_both_until(happened: Callable[[], bool], *urls: str) -> list[Times]:
    """Send the same rounds of requests to several servers at the same time, until a condition is met."""
    times = [Times() for _ in urls]
    with ThreadPoolExecutor(len(urls)) as pool:
        for _ in range(MAX_ROUNDS):
            found = pool.map(lambda url: send(url, ROUND), urls)
            times = [so_far + more for so_far, more in zip(times, found, strict=True)]
            if happened():
                return times
    raise AssertionError(f"the condition was not met after {times[0]} and {times[1]}")
