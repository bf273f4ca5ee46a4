import pytest
from clients import Load, drive
from compare import check_counters, check_vllm, check_windows
from process import get
from vllm_server import NGRAM, QUIET, vllm
from watch import row

DRAFTS = "vllm:spec_decode_num_drafts"


@pytest.fixture(scope="module")
def server():
    with vllm(
        "data-parallel", *NGRAM, *QUIET, "--data-parallel-size", "2", "--api-server-count", "2"
    ) as server:
        yield server


def test_the_sum_over_two_engines_equals_what_the_responses_say(server, watching, remark):
    truth = drive(server.url, Load(temperature=0, seconds=20, at_once=4))
    page = watching.settled()
    check_vllm(server.url, truth)
    check_counters(page, truth)
    check_windows(page, truth)
    remark(row("two engines, two API servers", page, truth))
    assert page.sum("spec_decode_coverage_ratio", window="10m", engine="0") < 1, "some steps have no draft"
    infos = page.find("spec_decode_engine_info")
    assert {info.labels["method"] for info in infos} == {""}, "unknown outside of development mode"
    drafts = page.find("spec_decode_window_draft_tokens", window="10m")
    assert {sample.labels["engine"] for sample in drafts} == {"0", "1"}
    assert all(sample.value > 0 for sample in drafts)


def test_several_api_servers_are_asked_for_the_whole_page_and_log_none_of_the_polls(server, watching):
    assert get(f"{server.url}/metrics/?name[]={DRAFTS}_total") == "", "the filtered page is empty"
    page = watching.settled()
    assert page.find("spec_decode_exporter_target_info", page="whole")
    assert page.sum("spec_decode_exporter_target_up") == 1
    whole = get(f"{server.url}/metrics")
    assert f"{DRAFTS}_total{{" in whole
    assert f"{DRAFTS}_created{{" not in whole
    assert "GET /metrics" not in server.log
