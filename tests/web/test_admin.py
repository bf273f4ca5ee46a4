from __future__ import annotations

import pytest

from spec_decode_exporter.config.errors import ConfigError, Problem
from spec_decode_exporter.web.application import create_app


@pytest.fixture
def client_of(aiohttp_client, make_state):
    async def make(**given):
        return await aiohttp_client(create_app(make_state(**given)))

    return make


async def reload_well():
    pass


async def reload_badly():
    raise ConfigError((Problem("exporter.yml:3", "targets[0].url", "is not a URL"),))


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("path", ["/-/healthy", "/-/ready"])
async def test_a_running_exporter_is_healthy_and_ready(client_of, method, path):
    client = await client_of()
    assert (await client.request(method, path)).status == 200


@pytest.mark.parametrize("method", ["POST", "PUT"])
async def test_a_reload_is_done_before_it_is_answered(client_of, method):
    done = []

    async def reload():
        done.append("read")

    client = await client_of(reload=reload)
    assert (await client.request(method, "/-/reload")).status == 200
    assert done == ["read"]


async def test_a_reload_that_fails_says_where_the_mistake_is(client_of):
    client = await client_of(reload=reload_badly)
    answer = await client.post("/-/reload")
    assert answer.status == 500
    assert "exporter.yml:3" in await answer.text()
    assert "the old one stays" in await answer.text()


async def test_without_the_lifecycle_api_nobody_may_reload(client_of):
    client = await client_of(reload=None)
    answer = await client.post("/-/reload")
    assert answer.status == 403
    assert (await answer.text()).startswith("Lifecycle API is not enabled.")


@pytest.mark.parametrize("method", ["GET", "HEAD", "DELETE"])
async def test_reading_does_not_reload(client_of, method):
    client = await client_of(reload=reload_well)
    answer = await client.request(method, "/-/reload")
    assert answer.status == 405
    assert answer.headers["Allow"] == "POST,PUT"


async def test_the_configuration_is_shown_as_text(client_of):
    client = await client_of(config_text=lambda: "targets:\n- url: http://<b>/\n")
    answer = await client.get("/config")
    assert answer.content_type == "text/plain"
    assert await answer.text() == "targets:\n- url: http://<b>/\n"
