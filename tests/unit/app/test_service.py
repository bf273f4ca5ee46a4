"""The whole exporter: its configuration while it runs, and its state file."""

import asyncio
import gc
import json

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families
from structlog.testing import capture_logs

from spec_decode_exporter.app.service import FULL_EVERY, SETTLED_AFTER, Options, Service, collect_garbage
from spec_decode_exporter.config.load import load
from spec_decode_exporter.config.mistakes import ConfigError
from spec_decode_exporter.simulator.scenario import Scenario
from spec_decode_exporter.web.server import parse_listen_address
from tests.conftest import PAGES_AT_ONCE
from tests.fakes.simulated import Server

TARGET = "targets:\n  - url: http://vllm:8000/metrics\n    name: one\n"


@pytest.fixture
def file(tmp_path, clock, network):
    network.servers["vllm:8000"] = Server(clock, Scenario.model_validate({"load": {"concurrency": 1}}))
    file = tmp_path / "exporter.yml"
    file.write_text(TARGET)
    return file


async def started(clock, file, **options):
    """Start an exporter with the configuration in a file."""
    addresses = [parse_listen_address("127.0.0.1:0")]
    service = Service(lambda: load(file, environ={}), Options(addresses, **options), clock)
    await service.start()
    return service


@pytest.fixture
async def service(clock, file):
    service = await started(clock, file, lifecycle=True)
    yield service
    await service.close()


async def get(service, path, method="GET", **more):
    url = service.urls[0] + path
    async with aiohttp.ClientSession() as session, session.request(method, url, **more) as answer:
        return answer.status, await answer.text()


async def exported(service, name):
    """Return the value of a metric of the exporter itself."""
    _, text = await get(service, "metrics")
    families = text_string_to_metric_families(text)
    (sample,) = (
        each for family in families for each in family.samples if each.name == f"spec_decode_exporter_{name}"
    )
    return sample.value


async def test_an_invalid_configuration_is_reported_and_changes_nothing(service, clock, file):
    await clock.advance(2.0)
    file.write_text(f"{TARGET}poll: {{interval: never}}\n")
    with capture_logs() as logs:
        status, text = await get(service, "-/reload", "POST")
    assert (status, f"{file}:4: poll.interval" in text) == (500, True)
    assert [entry["event"] for entry in logs] == ["reload_failed"]
    assert await exported(service, "config_last_reload_successful") == 0
    assert len([*service.fleet.engines()]) == 1
    file.write_text(TARGET)
    assert (await get(service, "-/reload", "POST"))[0] == 200
    assert await exported(service, "config_last_reload_successful") == 1


async def test_an_unreadable_configuration_ends_the_start(tmp_path, clock):
    with pytest.raises(ConfigError):
        Service(lambda: load(tmp_path / "none.yml", environ={}), Options([]), clock)


async def test_the_api_knows_the_labels_and_windows_of_the_fleet_and_takes_requests_after_a_reload(
    service, clock, file
):
    await clock.advance(2.0)
    status, text = await get(service, "api/v1/snapshot?match=target=one&window=30s")
    assert (status, [engine["target"] for engine in json.loads(text)["engines"]]) == (200, ["one"])
    assert (await get(service, "api/v1/requests", "POST", json=[]))[0] == 404
    file.write_text(f"{TARGET}requests: {{ingest: true}}\n")
    await service.reload()
    assert (await get(service, "api/v1/requests", "POST", json=[]))[0] == 200


async def test_the_configuration_is_shown_without_secrets_and_has_a_hash(service, file, tmp_path):
    first = await exported(service, "config_hash")
    await service.reload()
    assert await exported(service, "config_hash") == first
    (tmp_path / "token").write_text("very-secret")
    file.write_text(f"{TARGET}    authorization: {{credentials_file: token}}\n")
    await service.reload()
    assert await exported(service, "config_hash") != first
    _, text = await get(service, "config")
    assert "very-secret" not in text
    assert "credentials_file" in text


class TestLearnedState:
    @pytest.fixture(name="remembering", autouse=True)
    def remembering_fixture(self, file):
        file.write_text(f"{TARGET}state: {{file: state.json, interval: 1m}}\n")
        return file.parent / "state.json"

    async def test_is_saved_every_interval_and_at_the_end(self, remembering, service, clock, until):
        await clock.advance(2.0)
        assert saved_engines(remembering) == []
        await clock.advance(60.0)
        await until(lambda: saved_engines(remembering))
        (saved,) = saved_engines(remembering)
        assert (saved["target"], saved["engine"]) == ("one", "0")
        remembering.unlink()
        await service.close()
        assert remembering.exists()

    @pytest.mark.parametrize("polls", [0, 1, 2])
    async def test_goes_on_after_a_restart_of_the_exporter(self, remembering, service, file, clock, polls):
        await clock.advance(40.0)
        await service.close()
        [before] = saved_engines(remembering)
        again = await started(clock, file)
        await clock.advance(polls)
        await again.close()
        [after] = saved_engines(remembering)
        drafts = [saved["learned"]["drops"]["sudden"]["baseline"]["units"] for saved in (before, after)]
        assert 100 < drafts[0] <= drafts[1]

    async def test_that_cannot_be_saved_is_reported_by_a_metric_and_the_page(
        self, remembering, service, clock, until
    ):
        await clock.advance(2.0)
        remembering.unlink()
        remembering.mkdir()
        await clock.advance(60.0)
        await until(lambda: service._saver.file.problem)
        assert await exported(service, "state_last_save_successful") == 0
        assert "The state file cannot be written: it is not a plain file." in (await get(service, ""))[1]
        remembering.rmdir()
        async with asyncio.timeout(60):
            while not remembering.is_file():  # a thread saves it, once a minute
                await clock.advance(60.0)
        await until(lambda: not service._saver.file.problem)
        await clock.advance(2.0)
        assert await exported(service, "state_last_save_successful") == 1


def saved_engines(file):
    """Return the entries of engines in a state file."""
    return json.loads(file.read_text())["engines"]


@pytest.fixture
async def watching(clock, file, monkeypatch):
    """A service over the configuration as Kubernetes mounts it: a link to what a ConfigMap holds now."""
    monkeypatch.setattr("spec_decode_exporter.app.reload.CONFIGURATION", PAGES_AT_ONCE)
    mounted = file.parent / "mounted.yml"
    mounted.symlink_to(file)
    service = await started(clock, mounted, watched=mounted)

    def swap(name, text):
        (mounted.parent / name).write_text(text)
        link = mounted.parent / "link"
        link.symlink_to(name)
        link.replace(mounted)

    service.mounted, service.swap = mounted, swap
    with capture_logs() as logs:
        service.reloads = lambda: [each["event"] for each in logs if each["event"].startswith("reload")]
        yield service
    await service.close()


@pytest.mark.parametrize("mistake", ["poll: {interval: never}\n", None], ids=["invalid", "missing"])
async def test_a_watched_file_with_a_mistake_is_logged_once_and_the_old_one_stays(watching, clock, mistake):
    if mistake:
        watching.swap("second.yml", TARGET + mistake)
    else:
        watching.mounted.unlink()
    for _ in range(4):
        await clock.advance(5.0)
        assert watching.reloads() == ["reload_failed"]
    assert [watch.target.name for watch in watching.fleet] == ["one"]
    watching.swap("third.yml", TARGET)
    await clock.advance(5.0)
    assert watching.reloads() == ["reload_failed", "reloaded"]


async def test_a_watched_file_is_adopted_once_a_missing_secret_exists(watching, clock, tmp_path):
    watching.swap("second.yml", f"{TARGET}    basic_auth: {{username: u, password_file: late}}\n")
    await clock.advance(5.0)
    assert watching.reloads() == ["reload_failed"]
    (tmp_path / "late").write_text("hunter2")
    await clock.advance(5.0)
    assert watching.reloads() == ["reload_failed", "reloaded"]


async def test_all_garbage_is_collected_at_once_once_targets_have_settled_and_now_and_then(
    clock, monkeypatch
):
    begin, calls = clock.monotonic(), []
    for name in ("set_threshold", "unfreeze", "collect", "freeze"):
        monkeypatch.setattr(gc, name, lambda *_, name=name: calls.append((name, clock.monotonic() - begin)))
    task = asyncio.create_task(collect_garbage(clock))
    for seconds in (0.0, SETTLED_AFTER, FULL_EVERY, FULL_EVERY):
        await clock.advance(seconds)
    task.cancel()
    moments = [0.0, SETTLED_AFTER, SETTLED_AFTER + FULL_EVERY, SETTLED_AFTER + 2 * FULL_EVERY]
    assert calls[1:] == [(name, moment) for moment in moments for name in ("unfreeze", "collect", "freeze")]
