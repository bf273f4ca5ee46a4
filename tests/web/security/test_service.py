"""The whole exporter with a web configuration."""

from __future__ import annotations

import aiohttp
import pytest
from spec_decode_exporter.web.security.live_config import CHECK_INTERVAL
from spec_decode_exporter.web.server.listen import parse_listen_address
from structlog.testing import capture_logs

from spec_decode_exporter.app.service import Options, Service
from spec_decode_exporter.config.load import load
from spec_decode_exporter.config.mistakes import ConfigError

METRIC = "spec_decode_exporter_web_config_last_reload_successful"
ADDRESSES = [parse_listen_address("127.0.0.1:0")]


@pytest.fixture
async def start(tmp_path, clock):
    """Return a function that starts the exporter; the fixture closes it."""
    running = []

    async def start(web_config):
        config = tmp_path / "exporter.yml"
        config.write_text("discovery: {dns: []}\ntargets: []\n")
        running.append(
            Service(lambda: load(config, environ={}), Options(ADDRESSES, web_config=web_config), clock)
        )
        await running[-1].start()
        return running[-1]

    yield start
    for service in running:
        await service.close()


async def page(service, **options):
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{service.urls[0]}metrics", **options) as answer,
    ):
        return answer.status, await answer.text()


async def test_it_serves_users_over_tls_and_exports_the_result_of_the_last_reload(
    start, folder, trusting, hashed, clock, until
):
    good = (
        "tls_server_config: {cert_file: server.pem, key_file: server.key}\n"
        f"basic_auth_users: {{alice: {hashed(b'wonderland')}}}\n"
    )
    service = await start(folder.write(good))
    own = {"ssl": trusting(), "headers": {"Authorization": aiohttp.encode_basic_auth("alice", "wonderland")}}
    assert (await page(service, ssl=trusting()))[0] == 401
    status, text = await page(service, **own)
    assert status == 200
    assert f"{METRIC} 1.0" in text
    with capture_logs() as logs:
        folder.write("basic_auth_users: {}\n")
        await clock.advance(CHECK_INTERVAL)
        await until(lambda: any(log["event"] == "web_config_reload_failed" for log in logs))
    assert f"{METRIC} 0.0" in (await page(service, **own))[1]


async def test_an_invalid_web_configuration_prevents_the_start(start, folder):
    with pytest.raises(ConfigError, match=r"web\.yml:1: basic_auth_users"):
        await start(folder.write("basic_auth_users: {}\n"))
