"""Reading the configuration, its warnings, and reloads."""

from unittest.mock import Mock

import pytest
from structlog.testing import capture_logs

from spec_decode_exporter.app.reload import ConfigReloader
from spec_decode_exporter.config.schema import Config
from tests.conftest import PAGES_AT_ONCE


async def test_an_unexpected_error_is_a_problem_without_its_text(clock, monkeypatch):
    monkeypatch.setattr("spec_decode_exporter.app.reload.CONFIGURATION", PAGES_AT_ONCE)
    read = Mock(side_effect=RuntimeError("a secret"))
    reloader = ConfigReloader(read, None, lambda: None, clock)
    with pytest.raises(RuntimeError):
        await reloader.reload()
    assert reloader.problem == "internal error: RuntimeError"


async def test_warnings_about_the_configuration_are_logged_with_every_reading(clock):
    target = {"url": "http://a", "speculative": {"method": "egale3"}}
    config = Config.model_validate({"targets": [target]})
    with capture_logs() as logs:
        ConfigReloader(lambda: config, None, None, clock).read()
    [log] = logs
    assert (log["event"], log["key"]) == ("config_warning", "targets[0].speculative.method")
    assert log["log_level"] == "warning"
