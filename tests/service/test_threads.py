"""A stuck file of a list, a slow password and a stuck disk of the state delay no poll and no other list."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest
from pydantic import SecretStr

from spec_decode_exporter.config.target_settings import Scrape
from spec_decode_exporter.core.tasks import PAGES, TARGET_LISTS
from spec_decode_exporter.discovery.groups import json_groups
from spec_decode_exporter.discovery.lists import FileDiscovery
from spec_decode_exporter.monitor import state
from spec_decode_exporter.monitor.state import Remembered, StateSaver
from spec_decode_exporter.scrape.sample import SampleReader
from spec_decode_exporter.web import security
from tests.conftest import CHECKOUT

PAGE = (CHECKOUT / "tests/data/pages/vllm-0.32.0-python-ngram-k4.prom").read_bytes()
CEILING = 60.0


@pytest.mark.parametrize("kind", ["files of lists", "passwords", "state"])
async def test_blocking_work_that_hangs_delays_no_page_and_no_list(monkeypatch, clock, tmp_path, kind):
    end, begun = threading.Event(), threading.Event()

    def hang(*_words):
        begun.set()
        assert end.wait(CEILING)
        raise OSError("the disk is gone")

    monkeypatch.setattr(FileDiscovery, "_check", hang)
    monkeypatch.setattr(security, "_matches", hang)
    monkeypatch.setattr(state, "_loaded", hang)
    users = {"ann": SecretStr("$2b$04$" + "a" * 53)}
    checked = security.Passwords()
    work = {
        "files of lists": lambda: FileDiscovery(Path("targets.json"), Scrape()).targets(),
        "passwords": lambda: checked.match(users, "ann", b"secret"),
        "state": lambda: StateSaver(Remembered(), clock, lambda: None).use(tmp_path / "state"),
    }[kind]
    stuck = [asyncio.ensure_future(work()) for _ in range(6)]
    try:
        await asyncio.to_thread(begun.wait, CEILING)
        reading = await asyncio.wait_for(PAGES.run(SampleReader().read, PAGE, with_latencies=True), CEILING)
        assert await asyncio.wait_for(TARGET_LISTS.run(json_groups, b"[]"), CEILING) == []
        assert len(reading.samples) == 1
        assert not any(each.done() for each in stuck)
    finally:
        end.set()
        failures = await asyncio.gather(*stuck, return_exceptions=True)
    assert {type(each) for each in failures} == {OSError}
