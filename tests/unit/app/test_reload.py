"""Reading the configuration, its warnings, and reloads for clients."""

import asyncio

import pytest
from structlog.testing import capture_logs

from spec_decode_exporter.app.reload import PAUSE_SECONDS, ConfigReloader, config_warnings
from spec_decode_exporter.config.mistakes import ConfigError, Problem
from spec_decode_exporter.config.schema import Config
from tests.conftest import PAGES_AT_ONCE, settle

MISTAKE = ConfigError([Problem("exporter.yml:1", "tagrets", "is not a key")])


class File:
    """A configuration that is read, and adopted when the test lets it go."""

    def __init__(self, clock):
        self.error, self.adopted, self.going = None, 0, asyncio.Semaphore(0)
        self.clock = clock
        self.reloader = ConfigReloader(self.read, self.adopt, lambda: None, clock)

    def read(self):
        if self.error:
            raise self.error
        return Config()

    async def adopt(self, _):
        await self.going.acquire()
        self.adopted += 1


@pytest.fixture
async def file(clock, monkeypatch):
    monkeypatch.setattr("spec_decode_exporter.app.reload.CONFIGURATION", PAGES_AT_ONCE)
    return File(clock)


async def ended(file, tasks):
    """Let all reloads go on, and time pass; return the errors of tasks that have ended by then."""
    for _ in range(100):
        file.going.release()
    for _ in range(4):
        await file.clock.advance(PAUSE_SECONDS / 2)
    assert all(task.done() for task in tasks)
    return [task.exception() for task in tasks]


async def clients(file, number):
    tasks = [asyncio.create_task(file.reloader.reload_for_clients()) for _ in range(number)]
    await settle()
    return tasks


async def test_a_client_that_calls_during_a_reload_gets_one_that_begins_later(file, clock):
    [first] = await clients(file, 1)
    later = await clients(file, 3)
    file.going.release()
    await first
    assert not any(task.done() for task in later)
    assert await ended(file, later) == [None] * 3
    assert file.adopted == 2


async def test_any_number_of_clients_causes_one_reload_a_second(file, clock):
    await ended(file, [])
    tasks = []
    for _ in range(30):
        tasks += await clients(file, 10)
        await clock.advance(0.1)
    assert await ended(file, tasks) == [None] * 300
    assert file.adopted <= 1 + 4 / PAUSE_SECONDS


async def test_every_client_of_a_failed_reload_is_told_and_the_next_one_clears_the_problem(file):
    [first] = await clients(file, 1)
    file.error = MISTAKE
    others = await clients(file, 2)
    file.going.release()
    await first
    assert list(map(str, await ended(file, others))) == ["exporter.yml:1: tagrets is not a key"] * 2
    assert file.reloader.problem == "exporter.yml:1: tagrets is not a key"
    file.error = None
    assert await ended(file, await clients(file, 1)) == [None]
    assert file.reloader.problem == ""


async def test_a_client_that_goes_away_before_the_reload_leaves_it_to_the_others(file):
    [earlier] = await clients(file, 1)
    file.going.release()
    await earlier
    first, second = await clients(file, 2)  # the first waits for the pause
    first.cancel()
    assert await ended(file, [second]) == [None]
    assert file.adopted == 2


async def test_an_unexpected_error_is_a_problem_without_its_text(file):
    file.error = RuntimeError("a secret")
    with pytest.raises(RuntimeError):
        await file.reloader.reload()
    assert file.reloader.problem == "internal error: RuntimeError"


async def test_warnings_about_the_configuration_are_logged_with_every_reading(clock):
    config = configured("egale3")
    with capture_logs() as logs:
        ConfigReloader(lambda: config, None, None, clock).read()
    [log] = logs
    assert (log["event"], log["key"]) == ("config_warning", "targets[0].speculative.method")
    assert log["log_level"] == "warning"


def configured(method):
    return Config.model_validate({"targets": [{"url": "http://a", "speculative": {"method": method}}]})


@pytest.mark.parametrize(
    ("cost", "warned"),
    [
        ({"draft_cost_ratio": 0.3}, True),
        ({"draft_cost_ratio": 0.3, "running_requests": 16}, False),
        ({"loads": [{"running_requests": n, "draft_cost_ratio": 0.1} for n in (1, 8)]}, False),
    ],
)
def test_a_cost_without_its_load_is_a_warning_wherever_it_is_configured(cost, warned):
    config = Config.model_validate({"cost": cost, "targets": [{"url": "http://a", "cost": cost}]})
    found = list(config_warnings(config))
    assert [key for key, _ in found] == (["cost", "targets[0].cost"] if warned else [])
    assert all("Add `running_requests`" in text for _, text in found)
