"""Reports on every recorded page of a real server."""

from __future__ import annotations

import asyncio

import pytest

from spec_decode_exporter.reports.exit_status import ExitStatus, observation_status
from spec_decode_exporter.reports.observation import observed_config, watch
from spec_decode_exporter.reports.observation_report import json_report, report
from spec_decode_exporter.reports.text import TextStyle
from spec_decode_exporter.scrape.client import HttpResponse
from tests.conftest import settle
from tests.paths import DATA

PAGES = sorted(page for page in (DATA / "pages").iterdir() if page.suffix in {".prom", ".om"})


class Recording:
    """Server that always returns the same page."""

    def __init__(self, page):
        self._page = page
        self.spent = 0.0

    async def get(self, url, *, max_body=None):
        return HttpResponse(self._page if "/metrics" in url else b"{}", "text/plain", 0.001)

    async def close(self):
        """Close nothing."""


class AtOnce:
    """Threads that take no time, as the clock expects."""

    async def run(self, function, *args):
        return function(*args)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
async def test_a_constant_page_is_reported_and_not_evaluated(page, clock, monkeypatch):
    monkeypatch.setattr(
        "spec_decode_exporter.monitor.target_monitor.Client", lambda *_, **__: Recording(page.read_bytes())
    )
    monkeypatch.setattr("spec_decode_exporter.scrape.poller.PAGES", AtOnce())
    task = asyncio.ensure_future(watch(observed_config(["a:1"], 12), 12, clock))
    await clock.advance(12)
    await settle(100)
    view = task.result().view()
    assert view.engines
    text = report(view, TextStyle())
    for written in (text, report(view, TextStyle(width=60)), json_report(view)):
        assert "nan" not in written.lower().replace("nano", "").split()
    assert observation_status(view) is ExitStatus.UNKNOWN
    assert text.count("### Missing data") == len(view.engines)
