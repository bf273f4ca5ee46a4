"""Reports on every recorded page of a real server."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from spec_decode_exporter.reports.exit_status import ExitStatus, observation_status
from spec_decode_exporter.reports.observation import observed_config, watch
from spec_decode_exporter.reports.observation_report import json_report, report
from spec_decode_exporter.reports.text import TextStyle
from tests.conftest import settle
from tests.paths import DATA

PAGES = sorted(page for page in (DATA / "pages").iterdir() if page.suffix in {".prom", ".om"})


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
async def test_a_constant_page_is_reported_and_not_evaluated(page, network, clock):
    text = page.read_bytes()
    network.servers["a:1"] = SimpleNamespace(
        answer=lambda url: text if url.path.endswith("/metrics") else b"{}"
    )
    task = asyncio.ensure_future(watch(observed_config(["a:1"], 12), 12, clock))
    await clock.advance(12)
    await settle(100)
    view = task.result().view()
    assert view.engines
    for written in (report(view, TextStyle()), report(view, TextStyle(width=60)), json_report(view)):
        assert "nan" not in written.lower().replace("nano", "").split()
    assert observation_status(view) is ExitStatus.UNKNOWN
    assert report(view, TextStyle()).count("### Missing data") == len(view.engines)
