"""A day of changing load, served with every fixed number of draft tokens and with the recommended schedule.

    python -m benchmarks.schedule_day [--smoke] [--seconds 150] [--seed 1]

The simulator serves the same day again and again; a level of load lasts ``--seconds``. First the exporter's
own code watches a day without speculation and a day with four draft tokens. From these two it measures the
cost of drafting by load, and recommends a schedule. Then the day is served with each fixed number of draft
tokens, and with that schedule. Clients send their next request as soon as the last one is complete, so the
faster setting serves more. The time of a request is its mean at each level of load, and then over the levels:
a setting that completes fewer requests at a high load must not look faster for it. The exit status is 1 if a
fixed number serves more tokens or faster requests over the day.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from benchmarks.options import end, parsed, parser
from benchmarks.table import table
from spec_decode_exporter.analysis.evaluation_inputs import Assumptions
from spec_decode_exporter.analysis.speculation import Speculation
from spec_decode_exporter.analysis.speculation_setting import SpeculationSetting
from spec_decode_exporter.config.cost_settings import Architecture
from spec_decode_exporter.core.cooperative_yield import finish
from spec_decode_exporter.monitor.engine_monitor import EngineMonitor
from spec_decode_exporter.monitor.engine_snapshot import EngineSnapshot
from spec_decode_exporter.scrape.page.sample_reader import SampleReader
from spec_decode_exporter.simulator.python_page import python_page
from spec_decode_exporter.simulator.scenario import Load, Machine, Phase, Scenario, SimulatedSpeculation
from spec_decode_exporter.simulator.simulation import Simulation
from spec_decode_exporter.simulator.unix_time import UnixTime
from spec_decode_exporter.views.setting_text import setting_text
from spec_decode_exporter.views.speculative_config import ranges

LEVELS: Final = (2, 4, 8, 16, 32, 64, 128, 192, 160, 96, 48, 24, 12, 6)
"""Clients during each part of the day."""
SHOWN: Final = (2, 8, 32, 64, 96, 192)
"""Levels with a column of their own."""
FIXED: Final = (0, 1, 2, 3, 4, 5, 6)
WATCHED: Final = 4
"""Draft tokens of the day that the exporter watches."""
WINDOWS: Final = (30.0, 300.0)
WALL: Final = 1_790_000_000.0
START: Final = 1_000.0
Ranges = tuple[tuple[int, int, int], ...]


def scenario(tokens: int, seconds: float, schedule: Ranges = ()) -> Scenario:
    """Return the day for a server with these draft tokens."""
    first, *later = LEVELS
    phases = (Phase(at=seconds * place, load=Load(concurrency=level)) for place, level in enumerate(later, 1))
    return Scenario(
        speculation=SimulatedSpeculation(tokens=tokens, tokens_per_batch_size=schedule),
        machine=Machine(max_requests=256, kv_tokens=400_000, max_batched_tokens=16_384),
        load=Load(concurrency=first),
        phases=tuple(phases),
        repeat=seconds * len(LEVELS),
    )


class Watcher:
    """The exporter's monitor of one server, polled once a second of the simulation."""

    def __init__(self) -> None:
        speculation = Speculation("draft_model", "configured", "org/draft", architecture=Architecture.DENSE)
        self.monitor = EngineMonitor(WINDOWS, Assumptions(speculation))
        self._now = START

    def watch(self, simulation: Simulation, seconds: int, began: float) -> None:
        """Poll a server that started at ``began`` (Unix time) for ``seconds``."""
        reader, unix = SampleReader(), UnixTime(began, 0.0)
        for second in range(seconds):
            self._now += 1.0
            simulation.advance(1.0)
            page = finish(reader.read(python_page(simulation, unix), with_latencies=second % 10 == 0))
            (sample,) = page.samples.values()
            self.monitor.observe(sample, self._now, self._now - START + WALL, 1.0, 10.0)

    def snapshot(self) -> EngineSnapshot:
        """Return the snapshot of the last poll."""
        return self.monitor.snapshot(self._now)


def watched(seconds: float, seed: int) -> EngineSnapshot:
    """Return what the exporter knows after a day without speculation and a day with it."""
    watcher, day = Watcher(), int(seconds * len(LEVELS))
    watcher.watch(Simulation(scenario(0, seconds), seed), day, WALL)
    # The last minutes of the second day have few requests: the whole day is watched and a part of the next.
    watcher.watch(Simulation(scenario(WATCHED, seconds), seed + 1), day + int(3 * seconds), WALL + day)
    return watcher.snapshot()


@dataclass(frozen=True, slots=True)
class Day:
    """Result of a day."""

    name: str
    tokens_by_level: tuple[float, ...]
    """Generated tokens per second at each level of load."""
    requests_by_level: tuple[float, ...]
    """Mean time of a request at each level, in seconds."""

    @property
    def tokens(self) -> float:
        """Generated tokens per second over the day."""
        return sum(self.tokens_by_level) / len(self.tokens_by_level)

    @property
    def request_seconds(self) -> float:
        """Mean time of a request over the levels, in seconds."""
        return sum(self.requests_by_level) / len(self.requests_by_level)


def served(name: str, tokens: int, seconds: float, seed: int, schedule: Ranges = ()) -> Day:
    """Serve a day."""
    simulation = Simulation(scenario(tokens, seconds, schedule), seed)
    (engine,) = simulation.life.engines
    counts = engine.counts
    rates, times = [], []
    for _ in LEVELS:
        before = counts.generation_tokens, counts.end_to_end.total, counts.end_to_end.count
        simulation.advance(seconds)
        requests = max(counts.end_to_end.count - before[2], 1)
        rates.append((counts.generation_tokens - before[0]) / seconds)
        times.append((counts.end_to_end.total - before[1]) / requests)
    return Day(name, tuple(rates), tuple(times))


def days(setting: SpeculationSetting, schedule: Ranges, seconds: float, seed: int) -> Iterator[Day]:
    """Serve the day with each fixed number, and then with the schedule."""
    for tokens in FIXED:
        yield served(f"K = {tokens}", tokens, seconds, seed)
    yield served("recommended", setting.tokens or 0, seconds, seed, schedule)


def missed(results: Sequence[Day]) -> list[str]:
    """Return the goals that are missed: more tokens and faster requests than with every fixed number."""
    *fixed, recommended = results
    goals = [f"{day.name} serves more tokens" for day in fixed if day.tokens >= recommended.tokens]
    faster = (day for day in fixed if day.request_seconds <= recommended.request_seconds)
    return [*goals, *(f"{day.name} serves requests faster" for day in faster)]


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--seconds", type=float, default=150.0, help="time of each level of load")
    options.add_argument("--seed", type=int, default=1)
    arguments = parsed(options, seconds=4.0)
    snapshot = watched(arguments.seconds, arguments.seed)
    setting = snapshot.evaluation.setting
    schedule = tuple(ranges(setting))
    print(f"{setting_text(snapshot)}\n\nSchedule: {list(map(list, schedule))}\n")
    results = list(days(setting, schedule, arguments.seconds, arguments.seed + 2))
    table(
        ["draft tokens", *(f"{level} clients" for level in SHOWN), "tokens per second", "mean request, s"],
        (
            [
                day.name,
                *(f"{day.tokens_by_level[LEVELS.index(level)]:.0f}" for level in SHOWN),
                f"{day.tokens:.0f}",
                f"{day.request_seconds:.2f}",
            ]
            for day in results
        ),
    )
    end(arguments, missed(results) if schedule else ["no schedule is recommended"])


if __name__ == "__main__":
    main()
