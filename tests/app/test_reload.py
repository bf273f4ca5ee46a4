"""Reloads of the configuration."""

from __future__ import annotations

import asyncio

import pytest
from structlog.testing import capture_logs

from spec_decode_exporter.app.reload import ConfigReloader
from spec_decode_exporter.config.errors import ConfigError
from spec_decode_exporter.config.schema import Config


class Service:
    """Service whose adoption of a configuration waits until it is released, or fails."""

    def __init__(self):
        self.adopting = asyncio.Event()
        self.release = asyncio.Event()
        self.error = None
        self.snapshots_forgotten = 0

    async def adopt(self, _config):
        self.adopting.set()
        await self.release.wait()
        if self.error is not None:
            raise self.error

    async def restart(self):
        """Have nothing to restart."""

    def forget_snapshot(self):
        self.snapshots_forgotten += 1


@pytest.fixture(name="service")
def service_fixture():
    return Service()


@pytest.fixture(name="reloader")
def reloader_fixture(service, clock):
    return ConfigReloader(Config, None, service, clock)


@pytest.mark.parametrize("error", [ConfigError([]), ZeroDivisionError()])
async def test_a_reload_that_fails_is_shown_until_one_succeeds(reloader, service, error):
    service.release.set()
    service.error = error
    with pytest.raises(type(error)):
        await reloader.reload()
    assert not reloader.successful
    service.error = None
    await reloader.reload()
    assert reloader.successful
    assert service.snapshots_forgotten == 2


async def test_warnings_about_the_configuration_are_logged_with_every_reading(service, clock):
    target = {"url": "http://a", "speculative": {"method": "egale3"}}
    config = Config.model_validate({"targets": [target]})
    with capture_logs() as logs:
        ConfigReloader(lambda: config, None, service, clock).read()
    [log] = logs
    assert (log["event"], log["key"]) == ("config_warning", "targets[0].speculative.method")
    assert log["log_level"] == "warning"
