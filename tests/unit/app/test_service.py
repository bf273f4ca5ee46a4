from __future__ import annotations

import asyncio
import json
import threading

import aiohttp
import pytest
from aiohttp import web
from prometheus_client.parser import text_string_to_metric_families
from structlog.testing import capture_logs

from spec_decode_exporter.app.service import Options, Service
from spec_decode_exporter.config.load import load
from spec_decode_exporter.config.mistakes import ConfigError
from spec_decode_exporter.core.tasks import CONFIGURATION
from spec_decode_exporter.monitor.state_file import StateFile
from spec_decode_exporter.monitor.target_monitor import TargetMonitor
from spec_decode_exporter.scrape.poller import DutyCycle, PollSchedule
from spec_decode_exporter.web.hosts import AllowedHosts
from spec_decode_exporter.web.server import parse_address, parse_listen_address

PAGE = """\
# TYPE vllm:spec_decode_num_drafts_total counter
vllm:spec_decode_num_drafts_total{{engine="0",model_name="m"}} {drafts}.0
vllm:spec_decode_num_draft_tokens_total{{engine="0",model_name="m"}} {draft_tokens}.0
vllm:spec_decode_num_accepted_tokens_total{{engine="0",model_name="m"}} {accepted}.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{{engine="0",model_name="m",position="0"}} {accepted}.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{{engine="0",model_name="m",position="1"}} 0.0
"""


class Server:
    """A server whose page gains 10 drafts, 20 draft tokens and 7 accepted tokens with every poll."""

    def __init__(self):
        self.polls = 0
        self.taken = 0
        """Pages that the exporter has read to the end."""
        self.waiting = 0
        """Polls that wait for their tick."""

    async def page(self, _request):
        self.polls += 1
        return web.Response(
            text=PAGE.format(drafts=10 * self.polls, draft_tokens=20 * self.polls, accepted=7 * self.polls)
        )


@pytest.fixture
async def server(aiohttp_server, monkeypatch):
    server = Server()
    answered = DutyCycle.answered
    receive, sleep_until = TargetMonitor._receive, PollSchedule.sleep_until

    def taken(watch, page):
        server.taken += 1
        return receive(watch, page)

    async def waiting(scheduler, moment):
        server.waiting += 1
        try:
            await sleep_until(scheduler, moment)
        finally:
            server.waiting -= 1

    def at_once(duty, now, _seconds):
        """Take no real time: a busy machine answers so slowly that targets would be polled less often."""
        answered(duty, now, 0.0)

    monkeypatch.setattr(DutyCycle, "answered", at_once)
    monkeypatch.setattr(TargetMonitor, "_receive", taken)
    monkeypatch.setattr(PollSchedule, "sleep_until", waiting)
    app = web.Application()
    app.router.add_get("/metrics", server.page)
    running = await aiohttp_server(app)
    server.url = str(running.make_url("/metrics"))
    return server


@pytest.fixture
def file(tmp_path, server):
    file = tmp_path / "exporter.yml"
    file.write_text(f"targets:\n  - url: {server.url}\n    name: one\n    labels: {{team: a}}\n")
    return file


@pytest.fixture
async def service(file, clock):
    options = Options([parse_listen_address("127.0.0.1:0")], lifecycle=True)
    service = Service(lambda: load(file, environ={}), options, clock)
    await service.start()
    yield service
    await service.close()


async def get(service, path, method="GET"):
    async with aiohttp.ClientSession() as session, session.request(method, service.urls[0] + path) as answer:
        return answer.status, await answer.text()


async def samples(service):
    status, text = await get(service, "metrics")
    assert status == 200
    return {
        (
            sample.name,
            *(sample.labels.get(label, "") for label in ("target", "window", "team", "zone")),
        ): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


async def polled(server, clock, until, times):
    for _ in range(times):
        before = server.taken
        await until(lambda: server.waiting)  # a tick that comes during a poll is passed over
        await clock.advance(1.0)
        await until(lambda: server.taken > before and server.waiting)  # noqa: B023  waited for here
        await clock.advance(0.0, turns=200)


async def minutes_until(clock, condition):
    """Let minutes pass until the condition is true: the state is saved by a thread, once a minute."""
    async with asyncio.timeout(60):
        while not condition():
            await clock.advance(60.0)


async def test_a_reload_keeps_the_windows_of_a_target_and_gives_it_its_new_labels(
    service, server, clock, until, file
):
    await polled(server, clock, until, 3)
    file.write_text(
        file.read_text().replace("{team: a}", "{zone: z}") + "poll: {timeout: 2s}\nmetrics: {profile: full}\n"
    )
    assert (await get(service, "-/reload", "POST"))[0] == 200
    await polled(server, clock, until, 1)
    found = await samples(service)
    assert found["spec_decode_window_draft_tokens", "one", "30s", "", "z"] == 20 * (server.polls - 1)
    assert found["spec_decode_drafts_total", "one", "", "", "z"] == 10 * (server.polls - 1)


async def test_an_invalid_configuration_changes_nothing(service, server, clock, until, file):
    await polled(server, clock, until, 2)
    good = file.read_text()
    file.write_text(good + "poll: {interval: never}\n")
    with capture_logs() as logs:
        status, text = await get(service, "-/reload", "POST")
    assert status == 500
    assert f"{file}:5: poll.interval" in text
    assert [entry["event"] for entry in logs] == ["reload_failed"]
    await polled(server, clock, until, 1)
    found = await samples(service)
    assert found["spec_decode_drafts_total", "one", "", "a", ""] == 10 * (server.polls - 1)
    assert found["spec_decode_exporter_config_last_reload_successful", "", "", "", ""] == 0
    file.write_text(good)
    assert (await get(service, "-/reload", "POST"))[0] == 200
    assert (await samples(service))["spec_decode_exporter_config_last_reload_successful", "", "", "", ""] == 1


async def test_an_unreadable_configuration_ends_the_start(tmp_path, clock):
    with pytest.raises(ConfigError):
        Service(lambda: load(tmp_path / "none.yml", environ={}), Options([]), clock)


async def test_the_configuration_is_shown_without_secrets(service, file, tmp_path):
    (tmp_path / "token").write_text("very-secret")
    file.write_text(file.read_text() + "    authorization: {credentials_file: token}\n")
    await service.reload()
    _, text = await get(service, "config")
    assert "very-secret" not in text
    assert "credentials_file" in text


async def test_the_hash_is_that_of_the_configuration(service, file):
    key = ("spec_decode_exporter_config_hash", "", "", "", "")
    first = (await samples(service))[key]
    await service.reload()
    assert (await samples(service))[key] == first
    file.write_text(file.read_text() + "windows: [1m, 10m]\n")
    await service.reload()
    assert (await samples(service))[key] != first


class TestLearnedState:
    @pytest.fixture(name="remembering")
    def remembering_fixture(self, file):
        file.write_text(file.read_text() + "state: {file: state.json, interval: 1m}\n")
        return file.parent / "state.json"

    async def test_is_saved_every_interval_and_at_the_end(self, remembering, service, server, clock, until):
        await polled(server, clock, until, 2)
        assert not remembering.exists()
        await clock.advance(60.0)
        await until(remembering.exists)
        (saved,) = saved_engines(remembering)
        assert (saved["target"], saved["model_name"], saved["engine"]) == ("one", "m", "0")
        remembering.unlink()
        await service.close()
        assert remembering.exists()

    @pytest.mark.parametrize("polls", [0, 1, 2])
    async def test_goes_on_after_a_restart_of_the_exporter(
        self, remembering, service, server, clock, until, file, polls
    ):
        await polled(server, clock, until, 40)
        await service.close()
        learned = baseline_drafts(remembering)
        assert learned > 100
        again = Service(lambda: load(file, environ={}), service._options, clock)
        await again.start()
        await polled(server, clock, until, polls)
        await again.close()
        assert baseline_drafts(remembering) >= learned

    async def test_of_a_removed_target_is_kept(self, remembering, service, server, clock, until, file):
        await polled(server, clock, until, 2)
        file.write_text("discovery:\n  files: [nothing-*.yml]\nstate: {file: state.json}\n")
        await service.reload()
        await clock.advance(0.0)
        await service.close()
        assert [saved["target"] for saved in saved_engines(remembering)] == ["one"]

    async def test_that_cannot_be_saved_is_told_by_a_metric_and_the_page(
        self, remembering, service, server, clock, until
    ):
        metric = ("spec_decode_exporter_state_last_save_successful", "", "", "", "")
        await polled(server, clock, until, 2)
        remembering.mkdir()
        await clock.advance(60.0)
        await until(lambda: service._saver.file.failure)
        assert (await samples(service))[metric] == 0
        assert "The state file cannot be written: it is not a plain file." in (await get(service, ""))[1]
        remembering.rmdir()
        await minutes_until(clock, remembering.is_file)
        await until(lambda: not service._saver.file.failure)
        await clock.advance(2.0)
        assert (await samples(service))[metric] == 1

    async def test_is_saved_later_if_a_save_raises_which_is_logged_once(
        self, remembering, service, server, clock, until, monkeypatch
    ):
        await polled(server, clock, until, 2)
        attempts = []

        def fail(file, data):
            attempts.append(file)
            raise RuntimeError

        with monkeypatch.context() as patch, capture_logs() as logs:
            patch.setattr(StateFile, "save", fail)
            await minutes_until(clock, lambda: len(attempts) >= 3)
        assert [entry["event"] for entry in logs].count("saving_failed") == 1
        assert not remembering.exists()
        await minutes_until(clock, remembering.exists)

    async def test_is_written_by_one_writer_at_a_time_also_at_the_end(
        self, remembering, service, server, clock, until, monkeypatch
    ):
        save, go_on, writing, most = StateFile.save, threading.Event(), [], []

        def slow(file, data):
            writing.append(data)
            most.append(len(writing))
            go_on.wait(10)
            save(file, data)
            writing.pop()

        monkeypatch.setattr(StateFile, "save", slow)
        await polled(server, clock, until, 2)
        await clock.advance(60.0)
        await until(lambda: writing)
        closing = asyncio.create_task(service.close())
        await until(lambda: all(task.cancelled() for task in service._tasks.values()))
        await clock.advance(0.0, turns=2000)
        assert not closing.done()
        go_on.set()
        await closing
        assert most == [1, 1]
        assert remembering.exists()


def saved_engines(file):
    """Return the entries of engines in a state file."""
    _, *entries = map(json.loads, file.read_text().splitlines())
    return [entry for entry in entries if entry["kind"] == "engine"]


def baseline_drafts(file):
    """Return the number of drafts in the baseline of a state file."""
    (saved,) = saved_engines(file)
    return saved["learned"]["drops"]["sudden"]["baseline"]["units"]


async def test_a_snapshot_contains_labels_and_findings(service, server, clock, until):
    await polled(server, clock, until, 3)
    status, text = await get(service, "api/v1/snapshot")
    (engine,) = json.loads(text)["engines"]
    assert status == 200
    assert engine["labels"] == {"target": "one", "model_name": "m", "engine": "0", "team": "a"}
    assert [finding["name"] for finding in engine["findings"]] == []
    assert engine["windows"][0]["draft_acceptance_ratio"]["value"] == 0.35


class TestAFileThatIsWatched:
    @pytest.fixture(name="watching")
    async def watching_fixture(self, file, clock, monkeypatch):
        """A service over the configuration as Kubernetes mounts it: a link to what a ConfigMap holds now."""

        async def at_once(function, *arguments):
            return function(*arguments)

        monkeypatch.setattr(CONFIGURATION, "run", at_once)
        mounted = file.parent / "mounted.yml"
        mounted.symlink_to(file)
        options = Options([parse_listen_address("127.0.0.1:0")], watched=mounted)
        service = Service(lambda: load(mounted, environ={}), options, clock)
        await service.start()
        service.mounted = mounted
        with capture_logs() as service.log:
            yield service
        await service.close()

    @staticmethod
    def swap(service, name, text):
        (service.mounted.parent / name).write_text(text)
        link = service.mounted.parent / "link"
        link.symlink_to(name)
        link.replace(service.mounted)

    @staticmethod
    def events(service):
        return [entry["event"] for entry in service.log if entry["event"].startswith("reload")]

    async def test_with_a_mistake_is_logged_once_and_the_old_one_stays_until_it_is_corrected(
        self, watching, clock, file
    ):
        text = file.read_text()
        self.swap(watching, "second.yml", text + "poll: {interval: never}\n")
        await clock.advance(5.0)
        assert self.events(watching) == ["reload_failed"]
        for _ in range(3):
            await clock.advance(5.0)
        assert self.events(watching) == ["reload_failed"]
        assert [watch.target.name for watch in watching.fleet] == ["one"]
        self.swap(watching, "third.yml", text)
        await clock.advance(5.0)
        assert self.events(watching) == ["reload_failed", "reloaded"]

    async def test_with_a_missing_secret_is_adopted_once_the_secret_exists(self, watching, clock, file):
        self.swap(
            watching, "second.yml", file.read_text() + "    basic_auth: {username: u, password_file: late}\n"
        )
        await clock.advance(5.0)
        assert self.events(watching) == ["reload_failed"]
        (file.parent / "late").write_text("hunter2")
        await clock.advance(5.0)
        assert self.events(watching) == ["reload_failed", "reloaded"]

    async def test_that_is_missing_is_a_mistake(self, watching, clock):
        watching.mounted.unlink()
        await clock.advance(5.0)
        assert self.events(watching) == ["reload_failed"]


async def test_requests_are_accepted_after_a_reload_and_evaluated_by_the_cost_of_their_model(
    service, server, clock, until, file
):
    record = {
        "model": "m",
        "target": "one",
        "metrics": {
            "speculative_decoding": {
                "num_spec_steps": 40,
                "num_draft_tokens": 80,
                "num_accepted_draft_tokens": 4,
                "num_spec_tokens": 2,
            }
        },
    }
    url = f"{service.urls[0]}api/v1/requests"
    async with aiohttp.ClientSession() as session:
        assert (await session.post(url, json=record)).status == 404
        file.write_text(f"{file.read_text()}cost: {{draft_cost_ratio: 0.2}}\nrequests: {{ingest: true}}\n")
        assert (await get(service, "-/reload", "POST"))[0] == 200
        await polled(server, clock, until, 10)
        assert (await session.post(url, json=[record] * 30)).status == 200
        said = await (await session.get(url)).json()
    (group,) = [group for group in said["groups"] if group["window"] == "5m"]
    # 1.1 tokens a step, which takes as long as 1.4 plain ones.
    assert group["speedup_ratio"]["value"] == pytest.approx(1.1 / 1.4)
    assert group["below_break_even"] == group["evaluated"] == 30


async def test_the_server_beside_it_may_send_its_requests_through_a_unix_socket(file, clock, tmp_path):
    file.write_text(f"{file.read_text()}requests: {{ingest: true}}\n")
    options = Options([parse_address(f"unix:{tmp_path}/exporter.sock")])
    service = Service(lambda: load(file, environ={}), options, clock)
    await service.start()
    connector = aiohttp.UnixConnector(f"{tmp_path}/exporter.sock")
    async with aiohttp.ClientSession(connector=connector) as session:
        answer = await session.post("http://local/api/v1/requests", json={"model": "m", "metrics": {}})
        assert (await answer.json())["refused"]["without_metrics"] == 1
    await service.close()
    assert not (tmp_path / "exporter.sock").exists()


async def test_only_allowed_hosts_are_served(file, clock):
    options = Options(
        [parse_address("127.0.0.1:0")], allowed_hosts=AllowedHosts.parse(["exporter.example.com"])
    )
    service = Service(lambda: load(file, environ={}), options, clock)
    await service.start()
    async with aiohttp.ClientSession() as session:
        statuses = [
            (await session.get(service.urls[0], headers={"Host": host})).status
            for host in ("evil.example", "exporter.example.com", "127.0.0.1:7732")
        ]
    await service.close()
    assert statuses == [421, 200, 200]
