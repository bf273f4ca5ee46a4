"""Pages of watched engines, with other facts than theirs."""

from collections import Counter
from unittest.mock import AsyncMock

from spec_decode_exporter.monitor.snapshot import Snapshot
from spec_decode_exporter.web.fleet import PageQuery
from spec_decode_exporter.web.page import content, page_facts
from tests.fakes.moved_fleet import Server, moved_fleet
from tests.unit.web.plain_state import plain_state

TOLD = {"cost": {"draft_cost_ratio": 0.08}, "speculative": {"method": "eagle3"}}


async def watched():
    """Return the snapshot of an engine that drafts, and of one that does not."""
    servers = [
        Server("chat", told=TOLD),
        Server("off", changes={"speculation": {"tokens": 0}, "load": {"concurrency": 4}}),
    ]
    async with moved_fleet(servers, poll={"interval": "3s"}) as fleet:
        await fleet.advance(310)
        return await fleet.service.state.snapshot()


async def shown(snapshot=None, query=PageQuery(), views=None, **changes):  # noqa: B008  it is frozen
    """Return the content of the page; ``views`` replace the engines, ``changes`` what the templates read."""
    state = plain_state(snapshot=AsyncMock(return_value=snapshot or Snapshot(number=1)))
    facts = await page_facts(state, query)
    if views is not None:
        fleet = facts["fleet"]
        fleet.engines = fleet.shown = list(views)
        fleet.standings, fleet.unknown = Counter(view.standing for view in views), set()
    return str(await content(state.errors, facts | changes))
