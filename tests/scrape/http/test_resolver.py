"""Names are looked up in threads of their own."""

from __future__ import annotations

import asyncio
import socket
import threading

import pytest

from spec_decode_exporter.config.schema import Config
from spec_decode_exporter.discovery.target import Target
from spec_decode_exporter.monitor.event_log import EventLog
from spec_decode_exporter.monitor.fleet import Fleet
from spec_decode_exporter.monitor.persistence.remembered_engines import RememberedEngines
from spec_decode_exporter.scrape.http.resolver import CONFIGURED, Resolver


@pytest.fixture
def hanging(monkeypatch):
    """Names that end in ``.hang`` keep their thread until the test ends; return those that were asked for."""
    end, asked, real = threading.Event(), [], socket.getaddrinfo

    def look_up(host, *arguments, **keywords):
        if host.endswith(".hang"):
            asked.append(host)
            end.wait()
            raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
        return real("127.0.0.1", *arguments, **keywords)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    yield asked
    end.set()


async def test_an_address_takes_no_thread(monkeypatch):
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: pytest.fail("looked up"))
    assert await Resolver(1).look_up("::1", 80) == ["::1"]
    assert await Resolver(1).look_up("127.0.0.1", 80) == ["127.0.0.1"]


async def test_a_name_has_each_of_its_addresses_once(monkeypatch):
    found = [(2, 1, 6, "", ("127.0.0.2", 80)), (2, 1, 6, "", ("127.0.0.2", 80)), (10, 1, 6, "", ("::1", 80))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    assert await Resolver(1).look_up("a.test", 80) == ["127.0.0.2", "::1"]


async def test_names_that_hang_hold_up_no_other_resolver_and_no_thread_of_the_event_loop(hanging, until):
    slow = Resolver(2)
    waiting = [asyncio.ensure_future(slow.look_up(f"{number}.hang", 80)) for number in range(100)]
    await until(lambda: len(hanging) == 2)
    assert await CONFIGURED.look_up("a.test", 80) == ["127.0.0.1"]
    assert await asyncio.to_thread(lambda: 1) == 1
    for one in waiting:
        one.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert len(hanging) == 2


async def test_the_targets_of_a_list_share_threads_with_no_other_target(clock):
    fleet = Fleet(Config(), clock, RememberedEngines(), EventLog("1"))
    own, one, two, other = (
        fleet._shared(Target(f"http://{name}:1/m", name, found_by=found_by)).resolver
        for name, found_by in (("a", ""), ("b", "http x"), ("c", "http x"), ("d", "http y"))
    )
    assert own is CONFIGURED
    assert one is two
    assert len({own, one, other}) == 3
