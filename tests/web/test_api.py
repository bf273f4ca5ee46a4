"""The JSON API."""

from __future__ import annotations

from exporter.web.app import create_app


async def test_a_snapshot_is_served_as_json(aiohttp_client, make_state):
    client = await aiohttp_client(create_app(make_state()))
    answer = await client.get("/api/v1/snapshot")
    assert (answer.status, answer.content_type) == (200, "application/json")
    assert await answer.json() == {"engines": [{"state": "idle"}]}


async def test_a_snapshot_and_a_page_of_metrics_are_prepared_first(aiohttp_client, make_state):
    prepared = []

    async def prepare():
        prepared.append(True)

    client = await aiohttp_client(create_app(make_state(prepare=prepare, snapshot=lambda: len(prepared))))
    assert await (await client.get("/api/v1/snapshot")).json() == 1
    await client.get("/metrics")
    assert len(prepared) == 2
