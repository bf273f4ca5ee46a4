"""The exporter against PromQL on raw counters: the same simulated traffic, the same scrapes every 15 s.

    python -m benchmarks.against_promql [--hours 6] [--smoke]

A simulated server lives through some hours. Every second its page is read as the exporter reads it; every
15 s both its own counters and the exporter's gauges go into a real Prometheus, as if they had been scraped
then. That Prometheus evaluates every expression below, 7 s after each scrape: rules and scrapes have phases
of their own. The exporter's alert is the shipped SpecDecodeSuddenDrop; the others are what operators write
on raw counters. Nothing is timed: what is printed is counted in simulated seconds.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from statistics import median

from benchmarks.backfilled import prometheus, shipped
from benchmarks.options import parsed, parser
from benchmarks.process import require
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
    rule = shipped(alert)
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
    rows: dict[str, list[str]] = {way.name: [] for way in WAYS}
    for name, plan in (("drops", DROPS), ("quiet", QUIET)):
        recorded = record(Scenario.model_validate(plan), seconds)
        with prometheus(recorded.series, 2 * seconds) as started:
            for way in WAYS:
                [true_at] = started.evaluated(way.expression, SCRAPE + EVALUATED, SCRAPE).values() or [{}]
                fired = alarms(true_at, way.lasting)
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
