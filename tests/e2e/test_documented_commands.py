"""Every command line of README and docs/guide is run as it is written, with addresses of this machine and less time."""

import os
import re
import shutil
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
"""Exit statuses of a report: it pays, it is unclear, it does not."""


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


def dated(words, stored):
    """Return the words with the days of a stored history."""
    words, end = list(words), stored.start + MINUTES * 60
    for flag, moment in (("--since", stored.start), ("--until", end)):
        if flag in words and "-" in words[words.index(flag) + 1]:
            words[words.index(flag) + 1] = datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M")
    return words


STATUSES = {Way.RECOMMEND: {0, 3}, Way.CHECK: {0}}
"""Exit statuses of ways that are no report."""
LASTING = {Way.SERVICE, Way.SIMULATE}


def of_ways(has):
    chosen = [each for each in COMMANDS if has(each.way) and ENDLESS not in each.line]
    return pytest.mark.parametrize("command", chosen, ids=str)


@of_ways(lambda way: way not in LASTING)
def test_a_command_that_ends_ends_well_and_writes(command, demo, history, tmp_path):
    words, way = demo.addressed(command.words), command.way
    asked = bool(set(words) & {server.url for server in demo.servers})
    if way is Way.HISTORY:
        words = dated(words, history)
    elif way in {Way.SERVERS, Way.SIMULATION} or asked:
        words = shortened(words, "5s" if way is Way.RECOMMEND else "2s")
    found = demo.run(words, demo.folder_for(words, tmp_path))
    plain = {0} if way is Way.ALONE and " plan " not in command.line else MEASURED
    assert found.returncode in STATUSES.get(way, plain), found.stderr
    assert found.stdout
    if way in {Way.SERVERS, Way.SIMULATION, Way.REPLAY, Way.HISTORY}:
        assert "Llama-3.1-8B-Instruct" in found.stdout
    if way is Way.SERVERS:
        assert asked
        for flag in {"--save", "--record"} & set(words):
            assert (tmp_path / words[words.index(flag) + 1]).stat().st_size


@of_ways(LASTING.__contains__)
def test_a_program_that_lasts_runs_and_stops(command, demo, tmp_path, monkeypatch):
    e2e, address = demo.e2e, f"127.0.0.1:{demo.e2e.free_port()}"
    is_exporter = command.way is Way.SERVICE
    words = demo.addressed(command.words) if is_exporter else list(command.words)
    if is_exporter:
        words += ["--web.listen-address", address]
    else:
        words[words.index("--listen-address") + 1] = address
    if is_exporter and "--config.file" not in words:
        monkeypatch.setitem(os.environ, "SPEC_DECODE_EXPORTER_TARGET", demo.servers[0].url)
    process = e2e.Running("program", [e2e.PROGRAM, *words[1:]], demo.folder_for(words, tmp_path))
    try:
        process.wait_for(f"http://{address}/metrics")
        if is_exporter:
            e2e.eventually(lambda: re.search(r"_target_up{.*} 1", e2e.fetch(f"http://{address}/metrics")[2]))
    finally:
        assert process.stop()[0] == 0


def masked(text):
    """Return a report's lines without numbers and the spaces that depend on them."""
    return [
        re.sub(r"\s+", " ", re.sub(r"[\d.,]+", "#", line)).strip()
        for line in text.splitlines()
        if line.strip()
    ]


def test_the_report_in_the_readme_is_what_its_command_prints(e2e, start, tmp_path):
    """Its numbers differ by chance, and with them the word for what is likely."""
    readme = (DOCS.parent / "README.md").read_text(encoding="utf-8")
    (command,) = (
        line for line in readme.splitlines() if line.startswith("$ spec-decode-exporter observe localhost")
    )
    server = start(e2e.Simulator, "unknown-cost", name="readme")
    server.wait_for(server.url)
    words = command.removeprefix("$ ").partition(" #")[0].split()
    found = subprocess.run(
        [e2e.PROGRAM, *shortened([server.url if word == "localhost:8000" else word for word in words[1:]], "30s")],
        capture_output=True, encoding="utf-8", timeout=300, check=False, cwd=tmp_path,
    )  # fmt: skip
    (sample,) = blocks(readme, "text")
    report = found.stdout.replace(server.url.removesuffix("/metrics"), "http://localhost:8000")
    (printed, *parts) = (
        " ".join(masked(re.sub(r"probably pays|may pay or not", "is unclear", part)))
        for part in (report, *re.split(r"\n\n|…", sample))
    )
    assert [part for part in parts if part not in printed] == []
