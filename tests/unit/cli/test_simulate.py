"""Command simulate: it serves until it is told to end; and the past of a demonstration."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import time
from itertools import pairwise
from types import SimpleNamespace

import aiohttp
import pytest

from spec_decode_exporter.cli import simulate
from spec_decode_exporter.cli.main import parse
from spec_decode_exporter.cli.simulate import PastClock, live_through


async def test_it_prints_its_url_serves_until_sigterm_and_exits_with_0(capsys):
    arguments = parse(["simulate", "--listen-address", "127.0.0.1:0", "--scenario", "drop"], {})
    task = asyncio.create_task(simulate.run(arguments))
    printed = ""
    while "Ctrl-C" not in printed:
        await asyncio.sleep(0)
        printed += capsys.readouterr().out
    assert "(drop, speed 1)" in printed
    url = re.search(r"http://\S+/metrics", printed)[0]
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        assert "vllm:spec_decode_num_drafts_total" in await answer.text()
    os.kill(os.getpid(), signal.SIGTERM)
    assert await task == 0


def test_a_port_in_use_is_reported(program):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        status, _, error = program("simulate", "--listen-address", address)
    assert status == 1
    assert "address already in use; choose another" in error


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
