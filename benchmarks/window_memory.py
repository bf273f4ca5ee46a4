"""Windows of one engine: memory, and processor time of a poll, an evaluation and a page.

    python -m benchmarks.window_memory [--positions 8] [--longest 300] [--smoke]

The engine is polled every second, its histograms every tenth. Memory is what Python allocated for the engine
once its windows are full, by tracemalloc; times are CPU seconds, the best of five runs.
"""

from __future__ import annotations

import gc
import time
import tracemalloc
from collections.abc import Callable
from math import inf

from benchmarks.options import parsed, parser
from spec_decode_exporter.analysis.evaluation_inputs import Assumptions
from spec_decode_exporter.config.cost_settings import CostSettings
from spec_decode_exporter.config.schema import Metrics
from spec_decode_exporter.metrics.selection import selected_metrics
from spec_decode_exporter.monitor.engine_monitor import EngineMonitor
from spec_decode_exporter.monitor.snapshot import Snapshot
from spec_decode_exporter.scrape.page.engine_table import Counter, Gauge, Latency
from spec_decode_exporter.scrape.page.sample import Buckets, Sample
from tests.metrics.oracle import SnapshotCollector

WALL = 1.79e9
BOUNDS = (*(2.0**power for power in range(-10, 11)), inf)
LABELS = {"target": "localhost:8000", "model_name": "a model", "engine": "0"}
SHORT = 30.0
RUNS = 5


def sample(second: int, positions: int, *, histograms: bool) -> Sample:
    """Make the sample of a busy server: 420 steps and 400 drafts of ``positions`` tokens a second."""
    second += 100_000
    accepted = tuple((positions - place) * 40 * second for place in range(positions))
    counters = dict.fromkeys(Counter, second) | {
        Counter.DRAFTS: 400 * second,
        Counter.DRAFT_TOKENS: 400 * positions * second,
        Counter.ACCEPTED_TOKENS: sum(accepted),
        Counter.GENERATION_TOKENS: 400 * second + sum(accepted),
        Counter.DECODE_STEPS: 420 * second,
        Counter.DECODE_NANOSECONDS: 20 * 10**9 * second,
    }
    buckets = Buckets(BOUNDS, tuple(place * second for place in range(len(BOUNDS))))
    latencies, lengths = (dict.fromkeys(Latency, buckets), buckets) if histograms else (None, None)
    return Sample(tuple(counters.values()), accepted, (20.0,) * len(Gauge), WALL, latencies, lengths)


def polled(positions: int, longest: float, *, histograms: bool) -> EngineMonitor:
    """Return the monitor of an engine with full windows, which evaluates only when it is asked."""
    assumptions = Assumptions(cost=CostSettings(draft_cost_ratio=0.07))
    watch = EngineMonitor((SHORT, longest), assumptions, evaluated_every=inf)
    for second in range(2 * round(longest)):
        page = sample(second, positions, histograms=histograms and second % 10 == 0)
        watch.observe(page, float(second), WALL + second, 1.0, 10.0)
    return watch


def kilobytes(positions: int, longest: float, *, histograms: bool) -> float:
    """Return the memory of an engine with full windows, in units of 1000 bytes."""
    polled(positions, longest, histograms=histograms)  # whatever is made once and kept
    tracemalloc.start()
    gc.collect()
    before = tracemalloc.get_traced_memory()[0]
    watch = polled(positions, longest, histograms=histograms)
    gc.collect()  # the interpreter's own stock of free tuples is not the engine's
    used = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    del watch
    return used / 1000


def microseconds(work: Callable[[], object], times: int) -> float:
    """Return the CPU time of one of ``times`` calls, the best of some runs."""
    runs = []
    for _ in range(RUNS):
        start = time.process_time()
        for _ in range(times):
            work()
        runs.append((time.process_time() - start) / times * 1e6)
    return min(runs)


def cost_of_a_poll(positions: int, longest: float) -> float:
    """Return the microseconds of taking a sample with full windows, without an evaluation."""
    watch = polled(positions, longest, histograms=True)
    seconds = iter(range(2 * round(longest), 10**6))
    pages = iter(
        [sample(2 * round(longest) + n, positions, histograms=n % 10 == 0) for n in range(RUNS * 1000)]
    )

    def poll() -> None:
        second = next(seconds)
        watch.observe(next(pages), float(second), WALL + second, 1.0, 10.0)

    return microseconds(poll, 1000)


def cost_of_an_evaluation(positions: int, longest: float, *, is_whole: bool) -> float:
    """Return the microseconds of verdict and advice, or of the whole evaluation with its findings."""
    watch = polled(positions, longest, histograms=True)

    def evaluate() -> None:
        watch._evaluated_at = -inf  # noqa: SLF001  evaluate again
        if is_whole:
            watch.evaluate()
        else:
            watch._forget(watch._concluded())  # noqa: SLF001

    return microseconds(evaluate, 100)


def main() -> None:
    """Print the table."""
    arguments = parser(__doc__)
    arguments.add_argument("--positions", type=int, default=8)
    arguments.add_argument("--longest", type=float, default=300.0, help="the longest window in seconds")
    options = parsed(arguments, positions=1, longest=30.0)
    positions, longest = options.positions, options.longest

    watch = polled(positions, longest, histograms=True)
    now = watch.history.last_seen
    findings = watch.snapshot(now)
    selection = selected_metrics(Metrics(), (SHORT, longest))
    collector = SnapshotCollector(lambda: Snapshot([(LABELS, findings)]), lambda: selection)
    series = sum(len(family.samples) for family in collector.collect())
    windows = kilobytes(positions, longest, histograms=False)
    both = kilobytes(positions, longest, histograms=True)

    print(
        f"One engine, K = {positions}, polled every second, windows of {SHORT:.0f} s and {longest:.0f} s:\n"
    )
    print("| | figure |\n|---|---|")
    print(f"| memory of the windows, and of the learned state | {windows:.0f} kB |")
    print(f"| histograms besides | {both - windows:.0f} kB |")
    for name, is_whole in (("verdict and advice, every 5 s", False), ("an evaluation, at a page", True)):
        print(f"| {name} | {cost_of_an_evaluation(positions, longest, is_whole=is_whole):.0f} µs |")
    print(
        f"| taking a poll's sample, with the watch for drops | {cost_of_a_poll(positions, longest):.0f} µs |"
    )

    def snapshot() -> None:
        watch._snapshots.clear()  # noqa: SLF001  as after a poll, but with its evaluation
        watch._present_windows = None  # noqa: SLF001
        watch.snapshot(now)

    print(f"| a snapshot with all windows, once a poll | {microseconds(snapshot, 1000):.0f} µs |")
    collected = microseconds(lambda: list(collector.collect()), 200)
    print(f"| their {series} series, before they are written | {collected:.0f} µs |")


if __name__ == "__main__":
    main()
