"""The page with 100 engines: cost of a refresh.

    python -m benchmarks.page [--engines 100] [--minutes 6] [--rounds 20] [--smoke]

The engines are simulated, on a clock that is moved.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence

import structlog
from multidict import MultiDict

from benchmarks.options import parsed, parser
from spec_decode_exporter.monitor.engine_snapshot import id_of
from spec_decode_exporter.web.limits import packed
from spec_decode_exporter.web.page import content, page_facts
from spec_decode_exporter.web.query import PageQuery
from tests.fakes.moved_fleet import MovedFleet, Server, moved_fleet

COST = {"cost": {"draft_cost_ratio": 0.08}}


def percentile(values: Sequence[float], share: float) -> float:
    return sorted(values)[int(share * (len(values) - 1))]


async def refreshes(fleet: MovedFleet, opened: int, rounds: int) -> None:
    state = fleet.service.state
    ids = [id_of(labels) for labels, _ in (await state.snapshot()).engines]
    query = PageQuery.read(MultiDict(("engine", one) for one in ids[:opened]))
    seconds = []
    for _ in range(rounds):
        await fleet.advance(1)
        await state.snapshot()
        begin = time.perf_counter()
        text = (await content(state.errors, await page_facts(state, query))).encode()
        seconds.append(time.perf_counter() - begin)
    made = f"{1000 * percentile(seconds, 0.5):.0f} ms (p95 {1000 * percentile(seconds, 0.95):.0f})"
    size = f"{len(text) / 1000:.0f} kB, {len(await packed(text)) / 1000:.0f} kB packed"
    print(f"{len(ids)} engines, {opened} open: made in {made}, {size}")


async def measure(engines: int, minutes: int, rounds: int) -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    servers = [Server(f"chat-{number}", told=COST) for number in range(engines)]
    async with moved_fleet(servers) as fleet:
        await fleet.advance(60 * minutes)
        for opened in (0, 1, 8):
            await refreshes(fleet, opened, rounds)


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--engines", type=int, default=100)
    options.add_argument("--minutes", type=int, default=6, help="minutes that the engines have been watched")
    options.add_argument("--rounds", type=int, default=20, help="refreshes of each row")
    arguments = parsed(options, engines=2, minutes=1, rounds=1)
    asyncio.run(measure(arguments.engines, arguments.minutes, arguments.rounds))


if __name__ == "__main__":
    main()
