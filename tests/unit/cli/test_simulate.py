"""Command simulate: it serves until it is told to end; and the past of a demonstration."""

import time
from itertools import pairwise
from types import SimpleNamespace

import pytest

from spec_decode_exporter.cli.simulate import PastClock, live_through


async def test_each_second_of_the_past_is_simulated_and_then_polled():
    clock, events, began = PastClock(30), [], time.time()

    async def poll():
        events.append(("poll", clock.wall()))

    target = SimpleNamespace(poll=poll)
    await live_through(clock, lambda: events.append(("simulated", clock.wall())), lambda: [target])
    assert [word for word, _ in events] == ["simulated", "poll"] * 29
    polls = [moment for word, moment in events if word == "poll"]
    assert polls[0] == pytest.approx(began - 29, abs=5)
    assert all(1 <= later - earlier < 2 for earlier, later in pairwise(polls))
    assert clock.wall() == pytest.approx(time.time(), abs=5)
