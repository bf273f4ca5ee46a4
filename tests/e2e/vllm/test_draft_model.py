import json
import time

import pytest
from clients import Load, drive, driving
from compare import check_counters, check_vllm, check_windows
from process import get, until
from vllm_server import DEV_MODE, QUIET, draft_model, models, vllm
from watch import watch

LATENCIES = ("time_to_first_token", "time_per_output_token")
DROPPED = "spec_decode_acceptance_dropped"
BASELINE = "spec_decode_baseline_acceptance_length_tokens"


@pytest.fixture(scope="module")
def server():
    with vllm("draft-model", *draft_model(4), *QUIET, more_environment=DEV_MODE) as server:
        yield server


@pytest.fixture(scope="module")
def watching(server):
    with watch("draft-model", server.url) as watching:
        yield watching


def test_every_number_equals_what_the_responses_say_while_the_temperature_rises(server, watching, record):
    greedy = drive(server.url, Load(temperature=0, seconds=20))
    page = watching.settled()
    check_vllm(server.url, greedy)
    check_counters(page, greedy)
    check_windows(page, greedy)
    record("draft model, temperature 0", page, greedy)
    assert greedy.acceptance > 0.5

    # One at a time: with several sampled requests in a step, vLLM on a CPU accepts many more drafts.
    sampled = drive(server.url, Load(temperature=1, seconds=40, at_once=1))
    page = watching.settled()
    check_counters(page, greedy + sampled)
    check_windows(page, greedy + sampled)
    record("  and then temperature 1", page, greedy + sampled)
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
    assert info.labels["draft_model"] == str(models() / "draft")
    assert page.sum("spec_decode_configured_tokens") == 4
    log = server.log.read_text(encoding="utf-8")
    assert "POST /v1/completions" in log
    assert "GET /metrics" not in log, "vLLM logs no poll when told so"


def seconds_until(dropped, watching, server, load):
    """Return the delay from the first request to the exporter's report, which remains for ten polls."""
    began = time.monotonic()
    with driving(server.url, load):
        until(
            lambda: watching.page().sum(DROPPED, kind="sudden") == dropped,
            what=f"{DROPPED} {dropped}; see {watching.server.log}",
            seconds=load.seconds,
        )
        seconds = time.monotonic() - began
        assert watching.settled(polls=10).sum(DROPPED, kind="sudden") == dropped
    return seconds


def test_a_drop_is_flagged_within_15_seconds_and_cleared_after_the_recovery(server, remark):
    with watch("drop", server.url) as watching:
        with driving(server.url, Load(temperature=0, seconds=240)):
            known = f"a baseline; see {watching.server.log}"
            until(lambda: watching.page().find(BASELINE), what=known, seconds=240)
            page = watching.settled(polls=20)
        baseline = page.sum(BASELINE)
        assert page.sum("spec_decode_acceptance_length_tokens", window="30s") == pytest.approx(
            baseline, rel=0.1
        )
        assert {sample.value for sample in page.find(DROPPED)} == {0}

        flagged = seconds_until(1, watching, server, Load(temperature=1, seconds=60))
        page = watching.page()
        assert page.sum(BASELINE) == pytest.approx(baseline, rel=0.1)

        cleared = seconds_until(0, watching, server, Load(temperature=0, seconds=90))
        page = watching.page()
        assert page.sum("spec_decode_acceptance_drops_total", kind="sudden") == 1
        assert page.sum("spec_decode_acceptance_drops_total", kind="slow") == 0
        interval = page.sum("spec_decode_exporter_poll_interval_seconds")
        remark(
            f"a poll every {interval:.1f} s; temperature 0 to 1: flagged after {flagged:.1f} s;"
            f" back to 0: cleared after {cleared:.1f} s"
        )
        assert flagged < 15
