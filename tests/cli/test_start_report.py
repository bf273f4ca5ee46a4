"""Text at the start of ``run``."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from spec_decode_exporter.app.service import Options
from spec_decode_exporter.cli.start_report import ANSWER_SECONDS, first_answers, start_report
from spec_decode_exporter.monitor.snapshot import TargetStatus
from spec_decode_exporter.scrape.poll_record import PollRecord

URL = "http://localhost:7732/"
UP = TargetStatus(PollRecord(up=True, polls=1, version="0.32.0", engines=1), engine_kind="vllm", name="a")


def scrape_job(text):
    """Return the scrape job of a text as YAML."""
    (job,) = yaml.safe_load(text.partition("prometheus.yml:\n")[2].partition("\n\n")[0])
    return job


def test_the_address_of_the_page_is_the_last_line():
    text = start_report([UP], [URL, "unix:/run/a"], Options([]))
    assert text.endswith(f"\nPage: {URL}\n")
    external = Options([], external_url="https://example.com/spec")
    assert start_report([UP], [URL], external).endswith("\nPage: https://example.com/spec/\n")


@pytest.mark.parametrize(
    ("status", "line"),
    [
        (UP, "a: up, vllm 0.32.0, 1 engine"),
        (
            TargetStatus(PollRecord(up=True, engines=8), engine_kind="vllm", name="a"),
            "a: up, vllm, 8 engines",
        ),
        (
            TargetStatus(PollRecord(up=True, engines=0), name="a"),
            "a: up, but its page is of no supported server",
        ),
        (
            TargetStatus(PollRecord(up=False, error="refused", message="a:1: \x1b[2J"), name="a"),
            r"a: refused: a:1: \x1b[2J",
        ),
        (TargetStatus(name="a"), "a: no answer within 10 s"),
    ],
)
def test_each_target_has_its_first_answer(status, line):
    assert f"\n  {line}\n" in start_report([status], [URL], Options([]))


def test_the_scrape_job_is_that_of_the_page():
    assert scrape_job(start_report([UP], [URL], Options([]))) == {
        "job_name": "spec-decode",
        "scrape_interval": "15s",
        "static_configs": [{"targets": ["localhost:7732"]}],
    }
    options = Options([], web_config=Path("/etc/web.yml"))
    job = scrape_job(start_report([UP], ["https://gpu-1:7732/"], options))
    assert job["scheme"] == "https"
    assert job["static_configs"] == [{"targets": ["gpu-1:7732"]}]


def test_without_a_tcp_address_there_is_no_scrape_job():
    text = start_report([UP], ["unix:/run/a"], Options([]))
    assert "prometheus.yml" not in text
    assert text.endswith("Page: unix:/run/a\n")


async def test_it_waits_for_the_first_answer_of_every_target_but_not_for_ever():
    slept = []

    async def sleep(seconds):
        slept.append(seconds)

    late = TargetStatus(name="b")
    known = [(), (UP, late), (UP, UP)]
    assert await first_answers(lambda: known[min(len(slept), 2)], sleep) == (UP, UP)
    assert len(slept) == 2
    slept.clear()
    assert await first_answers(lambda: (UP, late), sleep) == (UP, late)
    assert sum(slept) == pytest.approx(ANSWER_SECONDS)
