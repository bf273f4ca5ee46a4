import pytest
from clients import Load, drive
from compare import check_counters, check_vllm, check_windows
from vllm_server import ngram, vllm


@pytest.fixture(scope="module")
def server():
    with vllm("ngram", *ngram(4)) as server:
        yield server


def test_every_number_equals_what_the_responses_say_though_many_steps_have_no_draft(server, watching, record):
    truth = drive(server.url, Load(temperature=0, seconds=20))
    page = watching.settled()
    check_vllm(server.url, truth)
    check_counters(page, truth)
    check_windows(page, truth)
    record("n-gram", page, truth)
    assert page.sum("spec_decode_coverage_ratio", window="10m") < 1
    assert watching.complaints() == []


def test_outside_of_development_mode_the_method_is_unknown(server, watching):
    [info] = watching.settled().find("spec_decode_engine_info")
    assert (info.labels["method"], info.labels["method_source"], info.labels["draft_model"]) == ("", "", "")
