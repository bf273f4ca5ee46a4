from __future__ import annotations

import pytest

from spec_decode_exporter.config.mistakes import ConfigError, Problem
from spec_decode_exporter.web.application import create_app


@pytest.fixture
def client_of(aiohttp_client, make_state):
    async def make(**given):
        return await aiohttp_client(create_app(make_state(**given)))

    return make


async def reload_badly():
    raise ConfigError((Problem("exporter.yml:3", "targets[0].url", "is not a URL"),))


async def test_a_failed_reload_reports_the_position_of_the_error(client_of):
    client = await client_of(reload=reload_badly)
    answer = await client.post("/-/reload")
    assert answer.status == 500
    assert "exporter.yml:3" in await answer.text()
    assert "the previous one stays active" in await answer.text()


async def test_without_the_lifecycle_api_reload_is_forbidden(client_of):
    client = await client_of(reload=None)
    answer = await client.post("/-/reload")
    assert answer.status == 403
    assert (await answer.text()).startswith("Lifecycle API is not enabled.")
