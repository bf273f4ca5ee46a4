"""Every command line of README and docs/guide is run as it is written, with addresses of this machine and less time."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
from datetime import UTC, datetime
from itertools import pairwise

import pytest

from spec_decode_exporter.simulator.scenario import load_scenario
from tests.contract.docs.documented_commands import DOCS, Way, documented
from tests.contract.docs.documents import blocks
from tests.fakes.simulated_history import StoredHistory

COMMANDS = [command for command in documented() if command.way is not Way.PARSED]
MINUTES = 20
ADDRESS = re.compile(r"(http://)?[\w.-]+:\d+|\$SERVER")
ENDLESS = "--for 0"
MEASURED = {0, 3, 4}
"""Exit statuses of a report: it pays, nobody knows, it does not."""


class Demo:
    """Servers, an exporter and files that the documents speak of."""

    def __init__(self, e2e, start, folder):
        self.e2e, self.start, self.folder = e2e, start, folder
        self.servers = [
            start(e2e.Simulator, "steady", "--speed", 20, name=f"server-{number}") for number in (1, 2)
        ]
        self.exporter_port = e2e.free_port()
        listen = ("--web.listen-address", f"127.0.0.1:{self.exporter_port}")
        words = [e2e.PROGRAM, "run", "--simulate", "steady", *listen]
        exporter = start(lambda folder: e2e.Running("exporter", words, folder))
        for server in self.servers:
            server.wait_for(server.url)
        exporter.wait_for(f"http://127.0.0.1:{self.exporter_port}/-/ready")
        self._write_files()

    def _write_files(self):
        target = self.servers[0].url
        (self.folder / "exporter.yml").write_text(f"targets:\n  - url: {target}\n")
        (self.folder / "plain.yml").write_text("speculation: {tokens: 0}\n")
        snapshot = self.e2e.fetch(f"http://127.0.0.1:{self.exporter_port}/api/v1/snapshot")[2]
        (self.folder / "snapshot.json").write_text(snapshot)
        for words in (("--save", "before.json"), ("--record", "incident.gz"), ("--format", "json")):
            found = self.run(["spec-decode-exporter", "observe", target, "--for", "2s", *words], self.folder)
            assert found.returncode in MEASURED, found.stderr
        (self.folder / "seen.json").write_text(found.stdout)

    def addressed(self, words):
        """Return a command's words with addresses of this machine."""
        servers = iter((*self.servers, *self.servers))
        return [self._address(word, servers) for word in words]

    def _address(self, word, servers):
        if not ADDRESS.fullmatch(word):
            return word
        if word.endswith(":7732"):
            return f"127.0.0.1:{self.exporter_port}"
        return self.prometheus if word.endswith(":9090") else next(servers).url

    def folder_for(self, words, tmp_path):
        """Return a folder with the files that a command reads, without those that it writes."""
        written = {after for word, after in pairwise(words) if word in {"--save", "--record"}}
        for file in self.folder.iterdir():
            if file.name not in written:
                shutil.copy(file, tmp_path)
        return tmp_path

    def run(self, words, folder, **options):
        words = [self.e2e.PROGRAM, *words[1:]]
        return subprocess.run(
            words, capture_output=True, encoding="utf-8", timeout=300, check=False, cwd=folder, **options
        )


@pytest.fixture(scope="module")
def demo(e2e, start, tmp_path_factory):
    return Demo(e2e, start, tmp_path_factory.mktemp("demo"))


@pytest.fixture(scope="module")
def history(demo, e2e, start, prometheus_tools):
    """Start a Prometheus with the counters of a server."""
    stored = StoredHistory(start=time.time() // 60 * 60 - (MINUTES + 1) * 60)
    stored.simulate(load_scenario("steady"), MINUTES * 60, 15, job="vllm", instance="vllm:8000")
    demo.prometheus = start(e2e.PrometheusWithHistory, stored).url
    return stored


def shortened(words, seconds="2s"):
    """Return the words of a measurement that takes seconds."""
    if "--for" in words:
        place = words.index("--for")
        return [*words[:place], "--for", seconds, *words[place + 2 :]]
    return [*words, "--for", seconds]


def of_way(*ways):
    return pytest.mark.parametrize(
        "command", [each for each in COMMANDS if each.way in ways and ENDLESS not in each.line], ids=str
    )


@of_way(Way.SERVERS)
def test_servers_are_observed(command, demo, history, tmp_path):
    words = demo.addressed(command.words)
    assert set(words) & {server.url for server in demo.servers}
    found = demo.run(shortened(words), demo.folder_for(words, tmp_path))
    assert found.returncode in MEASURED, found.stderr
    assert "Llama-3.1-8B-Instruct" in found.stdout
    for flag in ("--save", "--record"):
        if flag in words:
            assert (tmp_path / words[words.index(flag) + 1]).stat().st_size


def test_an_observation_without_end_is_interrupted(demo, tmp_path):
    assert any(ENDLESS in command.line for command in COMMANDS)
    words = [demo.e2e.PROGRAM, "observe", "--for", "0", "--every", "1s", demo.servers[0].url]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, cwd=tmp_path) as process:
        assert process.stdout.readline().startswith("**")
        process.send_signal(signal.SIGINT)
        assert "Acceptance" in process.stdout.read()
    assert process.returncode in MEASURED


@of_way(Way.SIMULATION, Way.REPLAY)
def test_simulations_and_recordings_are_observed(command, demo, tmp_path):
    words = command.words if command.way is Way.REPLAY else shortened(command.words)
    found = demo.run(words, demo.folder_for(words, tmp_path))
    assert found.returncode in MEASURED, found.stderr
    assert "Llama-3.1-8B-Instruct" in found.stdout


@of_way(Way.HISTORY)
def test_histories_are_reported(command, demo, history, tmp_path):
    words = demo.addressed(command.words)
    for flag, moment in (("--since", history.start), ("--until", history.start + MINUTES * 60)):
        if flag in words and "-" in words[words.index(flag) + 1]:
            words[words.index(flag) + 1] = datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M")
    found = demo.run(words, tmp_path)
    assert found.returncode in MEASURED, found.stderr
    assert "Llama-3.1-8B-Instruct" in found.stdout


@of_way(Way.RECOMMEND)
def test_settings_are_recommended(command, demo, tmp_path):
    words = demo.addressed(command.words)
    if set(words) & {server.url for server in demo.servers}:
        words = shortened(words, "5s")
    found = demo.run(words, demo.folder_for(words, tmp_path))
    assert found.returncode in {0, 3}, found.stderr
    assert found.stdout


@of_way(Way.CHECK, Way.ALONE)
def test_commands_without_servers_end_well(command, demo, tmp_path):
    found = demo.run(command.words, demo.folder_for(command.words, tmp_path))
    assert found.returncode in (MEASURED if " plan " in command.line else {0}), found.stderr
    assert found.stdout


@of_way(Way.SERVICE)
def test_the_exporter_runs_and_stops(command, demo, tmp_path, monkeypatch):
    words, e2e = demo.addressed(command.words), demo.e2e
    url = f"127.0.0.1:{e2e.free_port()}"
    if "--config.file" not in words:
        monkeypatch.setitem(os.environ, "SPEC_DECODE_EXPORTER_TARGET", demo.servers[0].url)
    folder = demo.folder_for(words, tmp_path)
    process = e2e.Running("service", [e2e.PROGRAM, *words[1:], "--web.listen-address", url], folder)
    try:
        process.wait_for(f"http://{url}/-/ready")
        e2e.eventually(lambda: re.search(r"_target_up{.*} 1", e2e.fetch(f"http://{url}/metrics")[2]))
    finally:
        assert process.stop()[0] == 0


@of_way(Way.SIMULATE)
def test_the_simulator_runs_and_stops(command, demo, tmp_path):
    words, e2e = list(command.words), demo.e2e
    address = f"127.0.0.1:{e2e.free_port()}"
    place = words.index("--listen-address") + 1
    words[place] = address
    process = e2e.Running("simulator", [e2e.PROGRAM, *words[1:]], demo.folder_for(words, tmp_path))
    try:
        process.wait_for(f"http://{address}/metrics")
    finally:
        assert process.stop()[0] == 0


def test_every_way_is_tested():
    tested = {
        Way.SERVERS,
        Way.SIMULATION,
        Way.REPLAY,
        Way.HISTORY,
        Way.RECOMMEND,
        Way.CHECK,
        Way.ALONE,
        Way.SERVICE,
        Way.SIMULATE,
    }
    assert tested == {*Way} - {Way.PARSED}
    assert {command.way for command in COMMANDS} <= tested


def masked(text):
    """Return a report's lines without numbers and the spaces that depend on them."""
    return [
        re.sub(r"\s+", " ", re.sub(r"[\d.,]+", "#", line)).strip()
        for line in text.splitlines()
        if line.strip()
    ]


def test_the_report_in_the_readme_is_what_its_command_prints(e2e, start, tmp_path):
    """Its numbers differ by chance."""
    readme = (DOCS.parent / "README.md").read_text(encoding="utf-8")
    (command,) = (
        line for line in readme.splitlines() if line.startswith("$ spec-decode-exporter observe localhost")
    )
    server = start(e2e.Simulator, "steady", name="readme")
    server.wait_for(server.url)
    words = command.removeprefix("$ ").partition(" #")[0].split()
    found = subprocess.run(
        [e2e.PROGRAM, *shortened([server.url if word == "localhost:8000" else word for word in words[1:]], "30s")],
        capture_output=True, encoding="utf-8", timeout=300, check=False, cwd=tmp_path,
    )  # fmt: skip
    (sample,) = blocks(readme, "text")
    printed = " ".join(masked(found.stdout))
    verdict, figures = sample.split("\n\n", 1)
    assert " ".join(masked(verdict)) in printed
    assert " ".join(masked(figures)) in printed
