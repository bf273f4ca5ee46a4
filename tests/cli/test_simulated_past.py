"""The simulated past of a demo."""

from __future__ import annotations

import time
from itertools import pairwise

import pytest

from spec_decode_exporter.cli import simulated_past
from spec_decode_exporter.cli.simulated_past import PastClock, live_through


class Target:
    """Notes the time of each poll."""

    def __init__(self, clock, events):
        self._clock, self._events = clock, events

    async def poll(self):
        self._events.append(("poll", self._clock.wall()))


async def test_each_second_of_the_past_is_simulated_and_then_polled():
    clock, events = PastClock(30), []
    began = time.time()
    target = Target(clock, events)
    await live_through(clock, lambda: events.append(("simulated", clock.wall())), lambda: [target])
    assert [word for word, _ in events] == ["simulated", "poll"] * 29
    polls = [moment for word, moment in events if word == "poll"]
    assert polls[0] == pytest.approx(began - 29, abs=5)
    assert all(1 <= later - earlier < 2 for earlier, later in pairwise(polls))
    assert clock.wall() == pytest.approx(time.time(), abs=1)


async def test_a_demo_without_a_target_starts_in_the_present(monkeypatch):
    monkeypatch.setattr(simulated_past, "_FOUND_WITHIN", 0.0)
    clock = PastClock(30)
    await live_through(clock, lambda: None, list)
    assert clock.wall() == pytest.approx(time.time(), abs=1)
    assert not clock.step()
