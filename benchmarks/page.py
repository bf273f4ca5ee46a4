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
from spec_decode_exporter.web.page.handlers import page_data
from spec_decode_exporter.web.page.page_content import content
from spec_decode_exporter.web.page.page_data import ShownEngine
from spec_decode_exporter.web.page.page_query import PageQuery
from spec_decode_exporter.web.streaming import compressed, each
from tests.e2e.faster_clock import Server
from tests.e2e.moved_fleet import MovedFleet, moved_fleet

COST = {"cost": {"draft_cost_ratio": 0.08}}


def percentile(values: Sequence[float], share: float) -> float:
    return sorted(values)[int(share * (len(values) - 1))]


async def refreshes(fleet: MovedFleet, opened: int, rounds: int) -> None:
    state = fleet.state
    shown = page_data(state, await state.snapshot()).engines
    ids = [one.view.id for one in shown if isinstance(one, ShownEngine)]
    query = PageQuery.read(MultiDict(("engine", one) for one in ids[:opened]))
    seconds = []
    for _ in range(rounds):
        await fleet.advance(1)
        snapshot = await state.snapshot()
        begin = time.perf_counter()
        page = page_data(state, snapshot)
        text = (await content(query, page)).encode()
        seconds.append(time.perf_counter() - begin)
    packed = b"".join([piece async for piece in compressed(each([text]))])
    made = f"{1000 * percentile(seconds, 0.5):.0f} ms (p95 {1000 * percentile(seconds, 0.95):.0f})"
    size = f"{len(text) / 1000:.0f} kB, {len(packed) / 1000:.0f} kB packed"
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
