from __future__ import annotations

import argparse
import asyncio
import os
import re
import signal
import socket

import aiohttp
import pytest

from spec_decode_exporter.cli import simulate


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


async def test_an_unknown_scenario_is_reported_with_the_known_ones(parse, capsys):
    assert await simulate.run(parse("--scenario", "dorp")) == 1
    assert "dorp is neither a file nor a scenario" in capsys.readouterr().err


async def test_a_port_in_use_is_reported(parse, capsys):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        assert await simulate.run(parse("--listen-address", address)) == 1
    assert "address already in use; choose another" in capsys.readouterr().err


@pytest.mark.parametrize("speed", ["0", "-1", "1001", "nan", "fast"])
def test_an_invalid_speed_is_rejected(parse, capsys, speed):
    with pytest.raises(SystemExit):
        parse("--speed", speed)
    assert "is not a speed" in capsys.readouterr().err


@pytest.mark.parametrize("url", ["", "localhost:7732", "ftp://localhost", "http://", "http://[::1"])
def test_an_invalid_exporter_url_is_rejected(parse, capsys, url):
    with pytest.raises(SystemExit):
        parse("--requests.url", url)
    assert "is not an exporter's URL" in capsys.readouterr().err
