"""Reading the configuration, its warnings, and reloads."""

import pytest
from structlog.testing import capture_logs

from spec_decode_exporter.app.reload import ConfigReloader
from spec_decode_exporter.config.mistakes import ConfigError, Problem
from spec_decode_exporter.config.schema import Config
from tests.conftest import PAGES_AT_ONCE

MISTAKE = ConfigError([Problem("exporter.yml:1", "tagrets", "is not a key")])


@pytest.fixture
def config_pool(monkeypatch):
    monkeypatch.setattr("spec_decode_exporter.app.reload.CONFIGURATION", PAGES_AT_ONCE)


async def test_a_failed_reload_is_told_and_adopts_nothing_and_the_next_one_clears_the_problem(
    clock, config_pool
):
    adopted, errors = [], [MISTAKE]

    def read():
        if errors:
            raise errors.pop()
        return Config()

    async def adopt(config):
        adopted.append(config)

    reloader = ConfigReloader(read, adopt, lambda: None, clock)
    with pytest.raises(ConfigError):
        await reloader.reload()
    assert (reloader.problem, adopted) == ("exporter.yml:1: tagrets is not a key", [])
    await reloader.reload()
    assert (reloader.problem, len(adopted)) == ("", 1)


async def test_an_unexpected_error_is_a_problem_without_its_text(clock, config_pool):
    def read():
        raise RuntimeError("a secret")

    reloader = ConfigReloader(read, None, lambda: None, clock)
    with pytest.raises(RuntimeError):
        await reloader.reload()
    assert reloader.problem == "internal error: RuntimeError"


async def test_warnings_about_the_configuration_are_logged_with_every_reading(clock):
    config = configured("egale3")
    with capture_logs() as logs:
        ConfigReloader(lambda: config, None, None, clock).read()
    [log] = logs
    assert (log["event"], log["key"]) == ("config_warning", "targets[0].speculative.method")
    assert log["log_level"] == "warning"


def configured(method):
    return Config.model_validate({"targets": [{"url": "http://a", "speculative": {"method": method}}]})
