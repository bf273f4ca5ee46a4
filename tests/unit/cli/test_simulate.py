from __future__ import annotations

import argparse
import asyncio
import os
import re
import signal
import socket
import time
from itertools import pairwise

import aiohttp
import pytest

from spec_decode_exporter.cli import simulate
from spec_decode_exporter.cli.simulate import PastClock, live_through


@pytest.fixture
def parse():
    """A function that reads the flags of the simulate."""

    def read(*flags):
        parser = argparse.ArgumentParser()
        simulate.add_arguments(parser, {})
        return parser.parse_args(flags)

    return read


async def test_it_prints_its_url_serves_until_sigterm_and_exits_with_0(parse, capsys):
    task = asyncio.create_task(simulate.run(parse("--listen-address", "127.0.0.1:0", "--scenario", "drop")))
    printed = ""
    while "Ctrl-C" not in printed:
        await asyncio.sleep(0)
        printed += capsys.readouterr().out
    assert "(drop, speed 1)" in printed
    async with (
        aiohttp.ClientSession() as session,
        session.get(re.search(r"http://\S+/metrics", printed)[0]) as answer,
    ):
        assert "vllm:spec_decode_num_drafts_total" in await answer.text()
    os.kill(os.getpid(), signal.SIGTERM)
    assert await task == 0


async def test_a_port_in_use_is_reported(parse, capsys):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        assert await simulate.run(parse("--listen-address", address)) == 1
    assert "address already in use; choose another" in capsys.readouterr().err


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
    monkeypatch.setattr(simulate, "_FOUND_WITHIN", 0.0)
    clock = PastClock(30)
    await live_through(clock, lambda: None, list)
    assert clock.wall() == pytest.approx(time.time(), abs=1)
    assert not clock.step()
