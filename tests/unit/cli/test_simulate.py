"""Command simulate: it serves until a signal ends it; and the past of a demonstration."""

import time
from itertools import pairwise
from types import SimpleNamespace
from unittest.mock import AsyncMock

import pytest

from spec_decode_exporter.cli.simulate import PastClock, live_through


async def test_each_second_of_the_past_is_simulated_and_then_polled():
    clock, events, began = PastClock(30), [], time.time()
    target = SimpleNamespace(poll=AsyncMock(side_effect=lambda: events.append(("poll", clock.wall()))))
    server = SimpleNamespace(catch_up=lambda: events.append(("simulated", clock.wall())))
    found = iter([[], [target], [target, target]])  # a demo has all of its targets, or no past
    await live_through(clock, [server, server], lambda: next(found))
    assert [word for word, _ in events] == ["simulated", "simulated", "poll", "poll"] * 29
    polls = [moment for word, moment in events if word == "poll"][::2]
    assert polls[0] == pytest.approx(began - 29, abs=5)
    assert all(1 <= later - earlier < 2 for earlier, later in pairwise(polls))
    assert clock.wall() == pytest.approx(time.time(), abs=5)
