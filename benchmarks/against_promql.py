"""The exporter against PromQL on raw counters: the same simulated traffic, the same scrapes every 15 s.

    python -m benchmarks.against_promql [--hours 6] [--smoke]

A simulated server lives through some hours. Every second its page is read as the exporter reads it; every
15 s both its own counters and the exporter's gauges go into a real Prometheus, as if they had been scraped
then. That Prometheus evaluates every expression below, 7 s after each scrape: rules and scrapes have phases
of their own. The exporter's alert is the shipped SpecDecodeSuddenDrop; the others are what operators write
on raw counters. Nothing is timed: what is printed is counted in simulated seconds.
"""

from __future__ import annotations

import json
import socket
import subprocess
import tempfile
import time
import urllib.parse
import urllib.request
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import yaml

from benchmarks.options import parsed, parser
from benchmarks.process import require, running
from benchmarks.table import print_table
from spec_decode_exporter.config.types import parse_duration
from spec_decode_exporter.drops.sums import DropKind
from spec_decode_exporter.monitor.engine_monitor import EngineMonitor
from spec_decode_exporter.monitor.engine_snapshot import EngineSnapshot
from spec_decode_exporter.scrape.engines import Counter
from spec_decode_exporter.scrape.sample import Sample, SampleReader
from spec_decode_exporter.simulator.scenario import Scenario
from spec_decode_exporter.simulator.simulation import Simulation
from spec_decode_exporter.simulator.vllm_page import metrics_page

SCRAPE = 15
EVALUATED = 7
"""Seconds after each scrape."""
WINDOWS = (30.0, 300.0)
WARM_UP = 1800
"""Seconds that count neither for nor against anybody: everything needs a past to compare with."""

CYCLE = 1800
DROP_BEGINS, DROP_ENDS = 900, 1500
DROPS = {
    "acceptance": {"mean": 0.75, "spread": 0.11, "decay": 0.95},
    "load": {"concurrency": 8},
    "phases": [
        {"at": f"{DROP_BEGINS}s", "acceptance": {"mean": 0.5}},
        {"at": f"{DROP_ENDS}s", "acceptance": {"mean": 0.75}},
    ],
    "repeat": f"{CYCLE}s",
}
"""Every half hour acceptance falls for ten minutes."""
QUIET = {
    "acceptance": {"mean": 0.75, "spread": 0.11, "decay": 0.95},
    "load": {"rate": 0.05},
    "phases": [{"at": "25m", "restart": {"down": "20s"}}],
    "repeat": "50m",
}
"""Three requests a minute, and a restart every fifty; acceptance never changes."""


@dataclass(frozen=True)
class Way:
    """A way to notice a drop: an expression, and for how many seconds it must be true."""

    name: str
    expression: str
    lasting: int


def _rate(seconds: str) -> str:
    accepted, drafted = (
        f"rate(vllm:spec_decode_num_{what}_tokens_total[{seconds}])" for what in ("accepted", "draft")
    )
    return f"({accepted} / {drafted})"


def _shipped(alert: str) -> Way:
    file = Path(__file__).parents[1] / "config" / "prometheus" / "alerts" / "alerts.yml"
    rules = [rule for group in yaml.safe_load(file.read_text())["groups"] for rule in group["rules"]]
    rule = next(rule for rule in rules if rule["alert"] == alert)
    return Way(f"exporter: {alert}", rule["expr"], round(parse_duration(rule.get("for", "0s"))))


WAYS = (
    _shipped("SpecDecodeSuddenDrop"),
    Way("raw, 1 min below 0.45, for 1 min", f"{_rate('1m')} < 0.45", 60),
    Way("raw, 5 min below 0.45, for 5 min", f"{_rate('5m')} < 0.45", 300),
    Way("raw, 5 min a fifth below the hour", f"{_rate('5m')} < 0.8 * {_rate('1h')}", 60),
)


@dataclass
class Recorded:
    """Scraped samples of one scenario by series."""

    series: dict[str, list[tuple[int, float]]] = field(default_factory=dict)

    def add(self, name: str, labels: str, second: int, value: float | None) -> None:
        """Add a scraped sample; what has no value is not on the page."""
        if value is not None:
            self.series.setdefault(f"{name}{{{labels}}}", []).append((second, value))


def record(scenario: Scenario, seconds: int) -> Recorded:
    """Let the exporter's own code watch a simulated server."""
    simulation, reader, watch = Simulation(scenario, seed=1), SampleReader(), EngineMonitor(WINDOWS)
    recorded = Recorded()
    for second in range(1, seconds + 1):
        simulation.advance(1.0)
        if simulation.serving:
            page = reader.read(metrics_page(simulation, start=0.0), with_latencies=False)
            (sample,) = page.samples.values()
            deque(watch.observe(sample, float(second), float(second), 1.0, 10.0), maxlen=0)
            deque(watch.evaluate(), maxlen=0)
        if second % SCRAPE == 0 and watch.snapshot is not None:
            _scrape(recorded, second, sample if simulation.serving else None, watch.snapshot)
    return recorded


def _scrape(recorded: Recorded, second: int, sample: Sample | None, findings: EngineSnapshot) -> None:
    counters = {
        "vllm:spec_decode_num_accepted_tokens_total": Counter.ACCEPTED_TOKENS,
        "vllm:spec_decode_num_draft_tokens_total": Counter.DRAFT_TOKENS,
    }
    for name, counter in counters.items():
        recorded.add(name, "", second, None if sample is None else sample[counter])
    if findings.drops.baseline_acceptance_length_tokens is not None:
        dropped = findings.drops.dropped.get(DropKind.SUDDEN)
        recorded.add("spec_decode_acceptance_dropped", 'kind="sudden"', second, dropped)


@contextmanager
def prometheus(recorded: Recorded, begin: int) -> Iterator[Callable[[str], dict[int, float]]]:
    """Run a real Prometheus that holds what was recorded; yield a function that evaluates an expression."""
    with tempfile.TemporaryDirectory() as directory:
        page, config = Path(directory, "recorded.om"), Path(directory, "prometheus.yml")
        page.write_text(_open_metrics(recorded, begin))
        config.write_text("{}\n")
        data = f"{directory}/data"
        subprocess.run(
            ["promtool", "tsdb", "create-blocks-from", "openmetrics", "--quiet", str(page), data], check=True
        )
        with socket.create_server(("127.0.0.1", 0)) as free:
            address = f"127.0.0.1:{free.getsockname()[1]}"
        with running(
            "prometheus",
            f"--config.file={config}",
            f"--storage.tsdb.path={data}",
            "--storage.tsdb.retention.time=10y",
            f"--web.listen-address={address}",
            "--log.level=error",
        ):
            _wait_for(f"http://{address}/-/ready")
            end = begin + max(second for samples in recorded.series.values() for second, _ in samples)
            yield lambda expression: _evaluated(address, expression, begin, end)


def _open_metrics(recorded: Recorded, begin: int) -> str:
    lines: dict[str, list[str]] = {}
    for name, samples in recorded.series.items():
        family = name.partition("{")[0].removesuffix("_total")
        kind = "counter" if "_total" in name else "gauge"
        written = lines.setdefault(family, [f"# TYPE {family} {kind}"])
        written += [f"{name.replace('{}', '')} {value:.17g} {begin + second}" for second, value in samples]
    return "\n".join([*(line for written in lines.values() for line in written), "# EOF", ""])


def _wait_for(url: str) -> None:
    for _ in range(300):
        try:
            with urllib.request.urlopen(url, timeout=1):
                return
        except OSError:
            time.sleep(0.1)
    raise RuntimeError("Prometheus did not become ready")


def _evaluated(address: str, expression: str, begin: int, end: int) -> dict[int, float]:
    query = urllib.parse.urlencode(
        {"query": expression, "start": begin + SCRAPE + EVALUATED, "end": end, "step": SCRAPE}
    )
    with urllib.request.urlopen(f"http://{address}/api/v1/query_range?{query}", timeout=60) as answer:
        result = json.load(answer)["data"]["result"]
    return {round(float(at)) - begin: float(value) for series in result for at, value in series["values"]}


def alarms(true_at: dict[int, float], lasting: int) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    since: int | None = None
    last = 0
    for second in sorted(true_at):
        if since is None or second - last > SCRAPE:
            since = second
        last = second
        if second - since >= lasting:
            if found and found[-1][0] == since + lasting:
                found.pop()
            found.append((since + lasting, second))
    return found


def delays(fired: list[tuple[int, int]], seconds: int) -> tuple[list[int], int, int]:
    """Return the delay of each drop that was noticed, how many drops there were, and the false alarms."""
    drops = range(DROP_BEGINS, seconds, CYCLE)
    begun = [drop for drop in drops if drop >= WARM_UP and drop + DROP_ENDS - DROP_BEGINS <= seconds]
    noticed, right = [], set()
    for drop in begun:
        ends = drop + DROP_ENDS - DROP_BEGINS
        inside = [one for one in fired if drop <= one[0] <= ends]
        right |= set(inside)
        noticed += [inside[0][0] - drop] if inside else []
    return noticed, len(begun), sum(one[0] >= WARM_UP and one not in right for one in fired)


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--hours", type=float, default=6.0, help="how long each scenario is")
    seconds = round(parsed(options, hours=0.6).hours * 3600)
    require("prometheus", "promtool")
    # Blocks of two hours, in the past.
    begin = (int(time.time()) - 2 * seconds) // 7200 * 7200
    rows: dict[str, list[str]] = {way.name: [] for way in WAYS}
    for name, plan in (("drops", DROPS), ("quiet", QUIET)):
        recorded = record(Scenario.model_validate(plan), seconds)
        with prometheus(recorded, begin) as evaluated:
            for way in WAYS:
                fired = alarms(evaluated(way.expression), way.lasting)
                rows[way.name] += _row(name, fired, seconds)
    print(
        f"{seconds / 3600:g} h of drops, and {seconds / 3600:g} h of three requests a minute with restarts.\n"
    )
    heads = ("alert", "drops noticed", "median delay", "false alarms", "while quiet")
    print_table(heads, ([name, *cells] for name, cells in rows.items()))


def _row(name: str, fired: list[tuple[int, int]], seconds: int) -> list[str]:
    if name == "quiet":
        return [str(sum(one[0] >= WARM_UP for one in fired))]
    noticed, drops, false = delays(fired, seconds)
    return [f"{len(noticed)} of {drops}", f"{median(noticed):.0f} s" if noticed else "", str(false)]


if __name__ == "__main__":
    main()
