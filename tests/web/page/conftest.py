from __future__ import annotations

import asyncio

import pytest

from spec_decode_exporter.web.page.handlers import page_data
from spec_decode_exporter.web.page.page_data import ShownEngine
from tests.e2e.faster_clock import Server
from tests.e2e.moved_fleet import moved_fleet

TOLD = {"cost": {"draft_cost_ratio": 0.08}, "speculative": {"method": "eagle3"}}


async def watched():
    servers = [Server("chat", told=TOLD), Server("off", changes={"speculation": {"tokens": 0}})]
    async with moved_fleet(servers) as fleet:
        await fleet.advance(310)
        return list(page_data(fleet.state, await fleet.state.snapshot()).engines)


@pytest.fixture(scope="module")
def engines():
    """Return an engine that drafts, and one that does not."""
    return asyncio.run(watched())


def changed(engine, **update):
    """Return an engine with other values."""
    return ShownEngine(engine.view.model_copy(update=update), engine.trace)
