import json
import os

import pytest
from clients import VLLM, Load, drive
from compare import check_counters, check_vllm, check_windows
from drop import drop_and_recovery
from process import get
from vllm_server import DEV_MODE, QUIET, draft_model, vllm
from watch import row, watch

LATENCIES = ("time_to_first_token", "time_per_output_token")


@pytest.fixture(scope="module")
def server():
    with vllm("draft-model", *draft_model(4), *QUIET, more_environment=DEV_MODE) as server:
        yield server


def test_every_number_equals_what_the_responses_say_while_the_temperature_rises(server, watching, remark):
    greedy = drive(server.url, Load(temperature=0, seconds=20))
    page = watching.settled()
    check_vllm(server.url, greedy)
    check_counters(page, greedy)
    check_windows(page, greedy)
    remark(row("draft model, temperature 0", page, greedy))
    assert greedy.acceptance > 0.5

    # One at a time: with several sampled requests in a step, vLLM on a CPU accepts many more drafts.
    sampled = drive(server.url, Load(temperature=1, seconds=40, at_once=1))
    page = watching.settled()
    check_counters(page, greedy + sampled)
    check_windows(page, greedy + sampled)
    remark(row("  and then temperature 1", page, greedy + sampled))
    assert sampled.acceptance < greedy.acceptance / 3
    assert page.sum("spec_decode_draft_acceptance_ratio", window="30s") < greedy.acceptance / 3
    assert all(page.find(f"spec_decode_{quantity}_quantile_seconds") for quantity in LATENCIES)


def test_the_filtered_page_is_read_and_vllm_says_its_version_and_how_it_speculates(server, watching):
    page = watching.settled()
    assert page.find("spec_decode_exporter_target_info", page="filtered")
    assert page.sum("spec_decode_exporter_poll_bytes") < 20_000
    assert watching.complaints() == []
    version = json.loads(get(f"{server.url}/version"))["version"]
    assert page.find("spec_decode_exporter_target_info", version=version, front_end="python")
    [info] = page.find("spec_decode_engine_info")
    assert (info.labels["method"], info.labels["method_source"]) == ("draft_model", "server_info")
    assert info.labels["draft_model"] == f"{os.environ['VLLM_MODELS']}/draft"
    assert page.sum("spec_decode_configured_tokens") == 4
    log = server.log
    assert "POST /v1/completions" in log
    assert "GET /metrics" not in log, "vLLM logs no poll when told so"


def test_a_drop_is_flagged_soon_and_cleared_after_the_recovery(server, remark):
    with watch("drop", server.url) as watching:
        remark(drop_and_recovery(watching, server.url, VLLM, worse=1))
