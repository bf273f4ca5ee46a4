"""Every benchmark still fits the code that it measures: its cheapest form runs. No figure is checked."""

from __future__ import annotations

import importlib
import os
import pkgutil
import re
import socket
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from unittest import mock

import pytest

import benchmarks
import benchmarks.__main__ as everything
from benchmarks import clients, poll_cpu, process, soak
from benchmarks.blocks import LONGEST, Blocked, LongestBlocks, stack_of
from benchmarks.counted import Counted
from benchmarks.page_server import PageServer, addresses, lateness_of
from spec_decode_exporter.config.load import load

CHECKOUT = Path(__file__).parents[2]
MODULES = [module.name for module in pkgutil.iter_modules(benchmarks.__path__) if module.name != "__main__"]
NUMPY = find_spec("numpy") is not None
WITH_NUMPY = {
    "coverage",
    "drops",
    "experiments",
    "modes",
    "references",
    "simulated_requests",
    "uneven_traffic",
    "arm_traffic",
    "silent_drafter",
    "weekly_traffic",
}
PARTS = {
    "blocks",
    "counted",
    "history_server",
    "inside_limits",
    "options",
    "page_server",
    "process",
    "simulated_requests",
    "table",
    "truth",
    "uneven_traffic",
}
"""Parts of other benchmarks, without options of their own."""
CHEAP = [
    "end_to_end",
    "evaluation",
    "inside",
    "page",
    "polls",
    "read_page",
    "schedule_day",
    "serve_metrics",
    "soak_day",
    "verdict_truth",
    "window_memory",
]
"""Benchmarks whose smoke run takes a second or two; ``make bench-smoke`` runs all of them."""


@pytest.fixture(name="loaded")
def fixture_loaded(monkeypatch):
    """Return a function that imports a benchmark; a mock replaces numpy if it is missing."""
    if not NUMPY:
        monkeypatch.setitem(sys.modules, "numpy", mock.MagicMock())
    yield lambda name: importlib.import_module(f"benchmarks.{name}")
    if not NUMPY:
        for name in WITH_NUMPY:
            sys.modules.pop(f"benchmarks.{name}", None)


@pytest.mark.parametrize("name", MODULES)
def test_every_benchmark_can_be_imported_and_documents_its_use(name, loaded, monkeypatch, capsys):
    module = loaded(name)
    if name in PARTS:
        return
    monkeypatch.setattr(sys, "argv", [f"benchmarks.{name}", "--help"])
    with pytest.raises(SystemExit) as ended:
        module.main()
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith("usage: ")


@pytest.mark.parametrize("name", CHEAP)
def test_its_smoke_run_ends_without_an_internal_error(name):
    environment = {key: value for key, value in os.environ.items() if not key.startswith("VLLM_")}
    done = subprocess.run(
        [sys.executable, "-m", f"benchmarks.{name}", "--smoke"],
        cwd=CHECKOUT,
        env=environment,
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    assert done.stdout


def test_requests_are_late_by_the_beat_of_most_of_them():
    on_time = [100.99, 102.01, 102.99]
    assert lateness_of([*on_time, 104.6, 105.0]) == pytest.approx([0.0, 0.02, 0.0, 0.61, 0.01])


def test_a_request_after_a_beat_without_one_is_as_late():
    assert lateness_of([10.5, 11.5, 13.52, 14.5, 15.5]) == pytest.approx([0.0, 0.0, 1.02, 0.0, 0.0])


async def test_the_compared_clients_fetch_pages(monkeypatch):
    monkeypatch.chdir(CHECKOUT)
    with PageServer() as server:
        (url,) = poll_cpu.urls(server.port, 1, "filtered")
        for client in clients.CLIENTS.values():
            async with client() as get:
                await get(url)
        assert sum(server.served().values()) == len(clients.CLIENTS)
        assert len(server.lateness()) == 1


def test_the_longest_blocks_of_an_event_loop_are_kept_with_their_most_frequent_stack():
    moment = [0.0]
    blocks = LongestBlocks(lambda: moment[0], lambda: moment[0] / 2)
    blocks.sample("while it waits")
    for milliseconds in range(1, 21):
        blocks.begin()
        for stack in ("a", "b", "b", "b"):
            blocks.sample(f"{stack}{milliseconds}")
        moment[0] += milliseconds / 1000
        blocks.end()
        moment[0] += 1.0  # it waits
        blocks.end()
    longest = blocks.taken()
    assert len(longest) == LONGEST
    assert (longest[0].seconds, longest[0].cpu) == (pytest.approx(0.02), pytest.approx(0.01))
    assert longest[0][2:] == (4, "b20", 0.75)
    assert longest[-1].seconds == pytest.approx(0.011)
    assert blocks.taken() == []


def test_a_stack_names_the_functions_of_the_exporter():
    assert stack_of(None) == "event loop"
    assert stack_of(sys._getframe()) == "event loop"


def test_the_exporter_under_observation_reports_its_blocks(monkeypatch, tmp_path):
    monkeypatch.chdir(CHECKOUT)
    (tmp_path / "exporter.yml").write_text("targets: []\n")
    arguments = ("run", f"--config.file={tmp_path}/exporter.yml", "--web.listen-address=127.0.0.1:0")
    with Blocked(*arguments) as blocked:
        longest = blocked.longest()
    assert longest
    assert longest == sorted(longest, reverse=True)


def test_the_measured_exporter_reports_its_tasks(monkeypatch, tmp_path):
    monkeypatch.chdir(CHECKOUT)
    (tmp_path / "exporter.yml").write_text("targets: []\n")
    arguments = ("run", f"--config.file={tmp_path}/exporter.yml", "--web.listen-address=127.0.0.1:0")
    with Counted(*arguments, log=tmp_path / "log") as counted:
        assert sum(counted.tasks().values()) > 0


@pytest.mark.parametrize("page", ["whole", "filtered"])
def test_the_exporter_accepts_the_configuration_of_the_cost_benchmark(page):
    with poll_cpu.exporter(1, 3, page) as command:
        (path,) = [word.partition("=")[2] for word in command if word.startswith("--config.file=")]
        assert len(load(Path(path), environ={}).targets) == 3


def test_the_exporter_accepts_the_configuration_of_the_soak(monkeypatch, tmp_path):
    monkeypatch.setattr(soak, "Counted", mock.Mock())
    monkeypatch.setattr(soak, "TargetList", mock.Mock(return_value=mock.Mock(url="http://127.0.0.1:1/")))
    soak.Soak(soak.COMING_AND_GOING + 3, mock.Mock(port=1), tmp_path)
    assert len(load(tmp_path / "exporter.yml", environ={}).targets) == 3


def test_a_program_that_never_listens_is_not_waited_for_without_end():
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        with pytest.raises(ConnectionRefusedError):
            process.wait_until_ready(unused.getsockname()[1], seconds=0.01)
        unused.listen()
        process.wait_until_ready(unused.getsockname()[1])


def test_a_missing_program_is_named():
    with pytest.raises(SystemExit, match="not installed: no-such-program"):
        process.require("no-such-program")


class TestAllOfThem:
    LACKS = ("not installed: x", "ModuleNotFoundError: No module named 'numpy'")

    @pytest.fixture(name="run")
    def fixture_run(self, monkeypatch):
        """Return a function that runs them; the first ones end with these statuses and errors."""

        def run(*ends, arguments=()):
            runs = mock.Mock(side_effect=[*ends, *[(0, "")] * len(MODULES)])
            monkeypatch.setattr(everything, "run", runs)
            monkeypatch.setattr(sys, "argv", ["benchmarks", *arguments])
            return everything.main(), [call.args[0] for call in runs.call_args_list]

        return run

    def test_they_go_on_if_one_fails(self, run, capsys):
        status, names = run((0, "a warning"), (2, "missed: memory"), *((1, lack) for lack in self.LACKS))
        assert status == 1
        assert names == everything.names(smoke=False)
        output = capsys.readouterr().out
        assert f"3 of {len(names)} benchmarks failed" in output
        assert "missed: memory" in output

    def test_a_smoke_run_has_the_long_ones_too_and_says_what_is_missing(self, run, capsys):
        status, names = run(*((1, lack) for lack in self.LACKS), arguments=["--smoke"])
        assert status == 0
        assert set(names) == set(everything.names(smoke=False)) | everything.LONG
        assert capsys.readouterr().out.count("SKIPPED ") == 2

    def test_a_crash_fails_a_smoke_run(self, run):
        assert run((1, "ZeroDivisionError: division by zero"), arguments=["--smoke"])[0] == 1

    def test_one_runs_by_its_name(self, run):
        assert run(arguments=["read_page"]) == (0, ["read_page"])

    def test_a_failing_benchmark_shows_its_last_error(self, monkeypatch, capsys):
        monkeypatch.chdir(CHECKOUT)
        status, reason = everything.run("no_such_benchmark", smoke=True)
        assert status == 1
        assert "no_such_benchmark" in reason
        assert reason in capsys.readouterr().err

    def test_each_one_has_an_option_for_a_smoke_run(self):
        without = {"__init__", "__main__", "clients", *PARTS}
        assert set(everything.names(smoke=True)) == {*MODULES} - without

    @pytest.mark.parametrize("folder", ["docs", "."])
    def test_each_one_that_a_document_quotes_is_among_them(self, folder):
        texts = [
            file.read_text()
            for file in Path(CHECKOUT, folder).glob("**/*.md" if folder == "docs" else "*.md")
        ]
        quoted = set(re.findall(r"-m benchmarks\.(\w+)", "".join(texts)))
        assert quoted
        assert quoted <= set(everything.names(smoke=True))


def test_addresses_of_targets_are_loopback_and_all_different():
    found = addresses(1000)
    assert len(set(found)) == 1000
    assert all(address.startswith("127.") for address in found)


class TestWithNumpy:
    """The smallest piece of each benchmark that draws requests."""

    @pytest.fixture(name="random")
    def fixture_random(self):
        numpy = pytest.importorskip("numpy", reason="numpy is not installed: pip install --group bench")
        return numpy.random.default_rng(1)

    def test_bounds_are_estimated(self, random, loaded):
        coverage = loaded("coverage")
        mix, load = coverage.MIXES[0], coverage.Load(coverage.TOKENS[0], "closed", 1)
        truth = coverage.truth(random, mix, load.tokens)
        outcomes = list(coverage.outcomes(random, mix, load, truth, 1))
        assert [outcome.length for outcome in outcomes] == list(coverage.LENGTHS)

    def test_the_requests_of_a_window_are_those_that_were_drawn(self, random, loaded):
        simulated = loaded("simulated_requests")
        load = simulated.Load((50, 500), "closed", 4)
        totals = simulated.trace(random, simulated.MIXES[0], load, 300)
        window = simulated.window(totals, 270, 30, 300)
        increments = window.increments
        assert len(increments) == 30
        assert increments.seconds() == [1.0] * 30
        running = increments.gauge(simulated.MEAN_GAUGES[0])
        assert any(running)
        assert all(0 <= each <= 4 for each in running)
        whole = simulated.window(totals, 0, 300)
        assert window.answers == whole.answers
        assert whole.answers.requests == whole[simulated.Counter.FINISHED_REQUESTS]
        assert 50_000 < whole.answers.millitokens / whole.answers.requests < 500_000

    @pytest.mark.parametrize("kind", range(7))
    def test_uneven_traffic_has_the_load_that_was_asked_for(self, random, loaded, kind):
        uneven = loaded("uneven_traffic")
        assert len(uneven.KINDS) == 7
        totals = uneven.KINDS[kind].trace(random, 8, 3000)
        simulated = loaded("simulated_requests")
        window = simulated.window(totals, 0, 3000)
        assert 5 < window.gauges[0] < 11

    def test_the_number_of_draft_tokens_follows_the_waves_of_load(self, random, loaded):
        uneven, simulated = loaded("uneven_traffic"), loaded("simulated_requests")
        kind = next(kind for kind in uneven.KINDS if kind.waves)
        increments = simulated.window(kind.trace(random, 16, 900), 0, 900).increments
        counter = simulated.Counter
        pairs = zip(increments.counter(counter.DRAFT_TOKENS), increments.counter(counter.DRAFTS), strict=True)
        lengths = {tokens / drafts for tokens, drafts in pairs if drafts}
        assert lengths == {1.0, 3.0}

    def test_experiments_are_compared(self, random, loaded):
        experiments = loaded("experiments")
        assert experiments.row(random, experiments.LOADS[0], 1, 1.0, 1)

    def test_references_are_compared(self, random, loaded):
        references = loaded("references")
        assert references.row(random, references.MIXES[0], references.LOADS[0], 0.0, 1)

    def test_drops_are_found(self, random, loaded):
        drops = loaded("drops")
        assert drops.fall(random, drops.Cell(drops.SPREADS[0], drops.PLACES[0], drops.RATES[0])) is not None

    def test_drops_are_searched_in_changing_traffic(self, random, loaded):
        weekly = loaded("weekly_traffic")
        for traffic in weekly.TRAFFIC.values():
            polled = weekly.served(random, traffic(random, 60))
            assert weekly.detected(polled, with_types=True) == []
        assert polled.drafts.sum() == pytest.approx(3600 * weekly.DRAFTS_PER_SECOND, rel=0.2)

    def test_modes_are_searched(self, random, loaded):
        modes = loaded("modes")
        assert modes.two(random, 0.0, modes.LENGTHS[-1], 200)
        assert (
            modes.losers(random, modes.COSTS[0], modes.np.full(40, 0.5), 300, modes.accepted_tokens) is False
        )
