"""Reloads of the configuration."""

from __future__ import annotations

from structlog.testing import capture_logs

from spec_decode_exporter.app.reload import ConfigReloader
from spec_decode_exporter.config.schema import Config


async def test_warnings_about_the_configuration_are_logged_with_every_reading(clock):
    target = {"url": "http://a", "speculative": {"method": "egale3"}}
    config = Config.model_validate({"targets": [target]})
    with capture_logs() as logs:
        ConfigReloader(lambda: config, None, None, clock).read()
    [log] = logs
    assert (log["event"], log["key"]) == ("config_warning", "targets[0].speculative.method")
    assert log["log_level"] == "warning"
