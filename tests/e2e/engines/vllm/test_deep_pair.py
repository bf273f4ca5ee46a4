"""A draft model that really makes a server faster: the exporter's bounds contain what the client measured.

The server runs without speculation first, and then with it at the same address. The ratio of the client's mean
times in both is the truth. Every round has the same requests, so their means are comparable.
"""

from __future__ import annotations

from clients import SHORT_REQUESTS, send, send_until
from vllm_server import DEV_MODE, QUIET, draft_model, vllm
from watch import COST, REQUEST_SPEEDUP, SPEEDUP, bounds, learned, said, watch

from tests.e2e.conftest import eventually, free_port

K = 4
ROUNDS = [SHORT_REQUESTS] * 60
"""Each takes some 12 s without speculation."""
WINDOW = "3m"  # it has bounds from half of it on
HAS_BOUNDS = {COST: {"source": "baseline"}, f"{REQUEST_SPEEDUP}_lower": {"window": WINDOW}}
PAYS, LOSES = {"marginal", "healthy", "optimal"}, {"harmful"}
LEARNING_SECONDS = 75.0  # length of the baseline; the exporter wants 60 s


def test_the_bounds_contain_what_the_client_measured(tmp_path, remark):
    port = free_port()
    state = {"file": str(tmp_path / "state.json")}
    deep = {"model": "deep", "port": port, "more_environment": DEV_MODE}
    with (
        vllm("deep-plain", *QUIET, **deep) as server,
        watch("deep", server.url, window=WINDOW, state=state) as watching,
    ):
        plain = send_until(lambda: learned(watching, LEARNING_SECONDS), server.url, ROUNDS)
        watching.settled()
        server.stop()
        eventually(lambda: not watching.up(), what="a failed poll of the stopped server")
        with (
            vllm("deep-drafting", *QUIET, *draft_model(K, "deep-draft"), **deep) as drafts,
            watch("deep-unknown", drafts.url, window=WINDOW) as unknown,
        ):
            eventually(watching.up, what="a successful poll of the new server")
            send(drafts.url, ROUNDS[0])
            drafting = send_until(lambda: watching.shows(HAS_BOUNDS), drafts.url, ROUNDS)
            page, bare = watching.settled(), unknown.settled()
            verdict, of_unknown = (
                each.api("snapshot")["engines"][0]["verdict"] for each in (watching, unknown)
            )
    token = plain.per_token / drafting.per_token
    request = plain.per_request / drafting.per_request
    remark(f"K = 0: {plain}")
    remark(f"K = {K}: {drafting}")
    remark(f"truth: {token:.3f} a token, {request:.3f} a request; {verdict}; {said(page)}")

    assert page.find(COST, source="baseline"), "the baseline appears by itself"
    of_token = bounds(page, SPEEDUP, WINDOW)
    of_request = bounds(page, REQUEST_SPEEDUP, WINDOW, basis="baseline")
    assert of_token[0] <= token <= of_token[2]
    assert of_request[0] <= request <= of_request[2]
    # On a busy machine the bounds may include break-even; then the verdict is that it depends.
    assert verdict not in LOSES or token < 1
    assert (verdict in PAYS) <= (of_token[0] >= 1)
    assert verdict in PAYS or min(of_token[0], of_request[0]) < 1

    assert bare.find(COST) == bare.find(SPEEDUP) == [], "a draft model of unknown size"
    assert of_unknown == "unclear", "and it is not condemned"
