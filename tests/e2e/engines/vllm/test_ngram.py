import re

import pytest
from clients import Load, drive
from compare import check_counters, check_vllm, check_windows
from process import get
from vllm_server import ngram, vllm
from watch import watch

POLL = re.compile(r'^.*"GET (/metrics/\?\S*) HTTP/1\.1" 200 OK$\n', re.MULTILINE)
"""A request for the filtered page in the access log."""
POLLS_TO_MEASURE = 300
"""Enough for the hundredths of a second in which the kernel counts processor time."""
DAY = 86_400


@pytest.fixture(scope="module")
def server():
    """One that writes an access log, as vLLM does by default."""
    with vllm("ngram", *ngram(4)) as server:
        yield server


@pytest.fixture(scope="module")
def watching(server):
    with watch("ngram", server.url) as watching:
        yield watching


@pytest.fixture
def polls(server, watching):
    """The lines of the access log that the exporter caused, with the path asked for."""
    watching.settled(polls=12)
    return [(found[0], found[1]) for found in POLL.finditer(server.log.read_text(encoding="utf-8"))]


def cpu_milliseconds(server, path):
    before = server.cpu_seconds()
    for _ in range(POLLS_TO_MEASURE):
        get(server.url + path)
    return (server.cpu_seconds() - before) / POLLS_TO_MEASURE * 1000


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


def test_vllm_logs_every_poll_when_not_told_otherwise(polls, remark):
    assert len(polls) >= 12
    size = sum(len(line) for line, _ in polls) / len(polls)
    remark(f"access log, no flag: {size:.0f} bytes a poll, {size * DAY / 1e6:.0f} MB a day at one a second")
    assert size * DAY > 20e6


def test_the_filtered_page_costs_the_server_less_than_a_third_of_the_whole_one(server, polls, remark):
    filtered = cpu_milliseconds(server, min((path for _, path in polls), key=len))
    whole = cpu_milliseconds(server, "/metrics")
    remark(f"CPU of the API server a poll: filtered {filtered:.2f} ms, whole page {whole:.2f} ms")
    assert filtered < whole / 3
