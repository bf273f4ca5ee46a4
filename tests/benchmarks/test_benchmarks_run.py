"""Every benchmark still fits the code that it measures: its cheapest form runs. No figure is checked."""

from __future__ import annotations

import importlib
import os
import pkgutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from unittest import mock

import pytest

import benchmarks
import benchmarks.__main__ as everything
from benchmarks import clients, poll_cpu, process, soak
from benchmarks.counted import Counted
from benchmarks.page_server import PageServer, addresses
from spec_decode_exporter.config.load import load

CHECKOUT = Path(__file__).parents[2]
MODULES = [module.name for module in pkgutil.iter_modules(benchmarks.__path__) if module.name != "__main__"]
NUMPY = find_spec("numpy") is not None
WITH_NUMPY = {"coverage", "drops", "experiments", "modes", "references", "weekly_traffic"}
PARTS = {"counted", "inside_limits", "page_server", "process"}
"""Parts of other benchmarks, without options of their own."""
CHEAPEST = {
    "arm_traffic": ["--windows=1"],
    "inside": ["--smoke"],
    "page": ["--engines=1", "--minutes=1", "--rounds=1"],
    "read_page": ["--rounds=1"],
    "serve_metrics": ["--targets=1", "--scrapes=1"],
    "soak_day": ["--hours=1", "--targets=1", "--interval=10"],
    "window_memory": ["--positions=1", "--longest=30"],
}
"""Arguments of the benchmarks whose cheapest form takes a second or two."""


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


@pytest.mark.parametrize("name", CHEAPEST)
def test_its_cheapest_form_runs_without_an_internal_error(name):
    environment = {key: value for key, value in os.environ.items() if not key.startswith("VLLM_")}
    done = subprocess.run(
        [sys.executable, "-m", f"benchmarks.{name}", *CHEAPEST[name]],
        cwd=CHECKOUT,
        env=environment,
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    assert done.stdout


async def test_the_compared_clients_fetch_pages(monkeypatch):
    monkeypatch.chdir(CHECKOUT)
    with PageServer() as server:
        (url,) = poll_cpu.urls(server.port, 1, "filtered")
        for client in clients.CLIENTS.values():
            async with client() as get:
                await get(url)
        assert sum(server.served().values()) == len(clients.CLIENTS)
        assert len(server.lateness()) == 1


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


def test_a_missing_program_is_named():
    with pytest.raises(SystemExit, match="not installed: no-such-program"):
        process.require("no-such-program")


def test_all_benchmarks_run_if_one_fails(monkeypatch, capsys):
    ends = [SystemExit(0), SystemExit(2), SystemExit("not installed: x"), ModuleNotFoundError("numpy")]
    run = mock.Mock(side_effect=[*ends, *({} for _ in everything.names())])
    monkeypatch.setattr(everything.runpy, "run_module", run)
    assert everything.main() == 1
    assert run.call_count == len(everything.names())
    assert "3 benchmarks failed" in capsys.readouterr().out


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

    def test_the_running_requests_of_a_window_are_those_that_were_drawn(self, random, loaded):
        coverage = loaded("coverage")
        totals = coverage.trace(random, coverage.MIXES[0], coverage.Load((50, 500), "closed", 4), 30)
        increments = coverage.window(totals, 0, 30).increments
        assert len(increments) == 30
        assert increments.seconds() == [1.0] * 30
        assert all(0 <= running <= 4 for running in increments.gauge(coverage.MEAN_GAUGES[0]))
        assert any(increments.gauge(coverage.MEAN_GAUGES[0]))

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
