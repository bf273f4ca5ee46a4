from __future__ import annotations

import asyncio

import pytest
from structlog.testing import capture_logs

from exporter.web.app import create_app
from exporter.web.slots import MOST


@pytest.fixture
async def held(aiohttp_client, make_state, until):
    """A client, pages that are being made, and what lets them go on."""
    go_on, begun = asyncio.Event(), []

    async def wait():
        begun.append(1)
        await go_on.wait()

    client = await aiohttp_client(create_app(make_state(prepare=wait)))
    asked = [asyncio.create_task(client.get("/metrics")) for _ in range(MOST)]
    await until(lambda: len(begun) == MOST)
    yield client, asked, go_on
    go_on.set()
    await asyncio.gather(*asked)


@pytest.mark.parametrize("path", ["/metrics", "/", "/api/v1/snapshot"])
async def test_while_all_slots_are_taken_others_are_refused_and_do_not_wait(held, path):
    client, _, _ = held
    answer = await client.get(path)
    assert answer.status == 503
    assert answer.headers["Retry-After"] == "1"


async def test_whether_it_is_healthy_is_told_all_the_same(held):
    client, _, _ = held
    assert (await client.get("/-/healthy")).status == 200


async def test_a_slot_is_free_again_when_its_page_is_sent(held):
    client, asked, go_on = held
    go_on.set()
    assert {answer.status for answer in await asyncio.gather(*asked)} == {200}
    assert (await client.get("/metrics")).status == 200


async def test_a_slot_is_free_again_when_its_page_fails(aiohttp_client, make_state):
    fails = [True] * (MOST + 1)

    async def fail():
        if fails:
            fails.pop()
            raise RuntimeError

    client = await aiohttp_client(create_app(make_state(prepare=fail)))
    with capture_logs():
        assert {(await client.get("/metrics")).status for _ in range(MOST + 1)} == {500}
    assert (await client.get("/metrics")).status == 200
