"""The report of a simulated fortnight against the simulator's truth, and against a live exporter.

    python -m benchmarks.fortnight [--days 14] [--smoke]

Load by day and by night; speculation with four tokens is enabled in the middle, acceptance drops for six
hours, and a restart leaves two tokens. A history has the counters every 15 s and every minute. Around the
moment at which speculation is enabled, a live engine monitor reads the page every second, too. Fewer days are
the same course in less time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

from benchmarks.options import end, parsed, parser
from benchmarks.table import table
from spec_decode_exporter.analysis.evaluation_inputs import Assumptions
from spec_decode_exporter.core.cooperative_yield import finish
from spec_decode_exporter.figures.estimate import Estimate
from spec_decode_exporter.history.history_changes import HistoryDrop, changes, drops
from spec_decode_exporter.history.history_reader import HistoryQuery, HistoryReader
from spec_decode_exporter.history.history_result import EngineHistoryResult
from spec_decode_exporter.history.history_summary import best_tokens, mean_speedup
from spec_decode_exporter.history.query_api import QueryApi
from spec_decode_exporter.history.slot_evaluation import SlotResult
from spec_decode_exporter.monitor.drops.slow_drop import INTERVAL_SECONDS
from spec_decode_exporter.monitor.engine_monitor import EngineMonitor
from spec_decode_exporter.scrape.page.sample_reader import SampleReader
from spec_decode_exporter.simulator.ground_truth import speedup
from spec_decode_exporter.simulator.python_page import python_page
from spec_decode_exporter.simulator.scenario import Scenario
from spec_decode_exporter.simulator.simulation import Simulation
from spec_decode_exporter.simulator.unix_time import UnixTime
from tests.fixtures.simulated_history import START, StoredHistory

DAY: Final = 86_400.0
DAYS: Final = 14
LOADS: Final = (8, 3)
"""Concurrent requests by day and by night."""
INTERVALS: Final = (15, 60)
ENABLED, DROPPED, RECOVERED, RESTARTED = 7.25, 9.25, 9.5, 11.25
"""Days of the events."""
NORMAL, LOW = 0.75, 0.4
"""Mean acceptance, and that of the drop."""
TOLERANCE: Final = 0.06
"""Relative error of a speed-up: a step with drafts shares the time for prompts."""
MIN_CONTAINED: Final = 0.9
"""Minimum share of the slots whose bounds contain the truth."""


class Check(NamedTuple):
    """A figure of the report beside the truth."""

    name: str
    reported: str
    truth: str
    holds: bool


class State(NamedTuple):
    """The simulated server at a moment."""

    tokens: int
    acceptance: float
    load: int


class Course:
    """The fortnight, in ``days`` days."""

    def __init__(self, days: float) -> None:
        """Scale the moments of all events."""
        self.day = DAY * days / DAYS
        edges: dict[float, dict[str, Any]] = {
            half * self.day / 2: {"load": {"concurrency": LOADS[half % 2]}} for half in range(1, 2 * DAYS)
        }
        edges[ENABLED * self.day] = {"restart": {"down": "20s", "tokens": 4}}
        edges[DROPPED * self.day] = {"acceptance": {"mean": LOW}}
        edges[RECOVERED * self.day] = {**edges[RECOVERED * self.day], "acceptance": {"mean": NORMAL}}
        edges[RESTARTED * self.day] = {"restart": {"down": "20s", "tokens": 2}}
        self.edges = sorted(edges)
        self.seconds = int(DAYS * self.day)
        phases = [{"at": f"{round(1000 * at)}ms", **edges[at]} for at in self.edges]
        self.scenario = Scenario.model_validate({**_server(State(0, NORMAL, LOADS[0])), "phases": phases})

    def at(self, moment: float) -> State:
        """Return the state at a moment since the begin."""
        day = moment / self.day
        tokens = 0 if day < ENABLED else 4 if day < RESTARTED else 2
        return State(tokens, LOW if DROPPED <= day < RECOVERED else NORMAL, LOADS[int(2 * day) % 2])

    def state(self, slot: SlotResult) -> State:
        """Return the state in the middle of a slot."""
        return self.at((slot.begin + slot.end) / 2 - START)

    def truth(self, slot: SlotResult) -> float | None:
        """Return the true speed-up of a slot; None if the state changes in it."""
        begin, until = slot.begin - START, slot.end - START
        if any(begin - 30 < edge < until for edge in self.edges):
            return None
        return _truth(self.state(slot))


def _server(state: State) -> Mapping[str, Any]:
    return {
        "speculation": {"tokens": state.tokens, "method": "draft_model"},
        "acceptance": {"mean": state.acceptance},
        "load": {"concurrency": state.load},
    }


@lru_cache
def _truth(state: State) -> float:
    return speedup(Scenario.model_validate(_server(state)), 300, 2700) if state.tokens else 1.0


class Live:
    """A live exporter's monitor of the engine, which reads its page every second."""

    def __init__(self, window: float) -> None:
        """Estimate over the last ``window`` seconds."""
        self._reader = SampleReader()
        self._monitor = EngineMonitor((30.0, window), Assumptions())
        self.speedups: dict[float, Estimate] = {}
        """By the Unix time of their end."""

    def poll(self, page: bytes, wall: float) -> None:
        """Read a page; estimate if a slot may end now."""
        reading = finish(self._reader.read(page, with_latencies=int(wall) % 10 == 0))
        for sample in reading.samples.values():
            self._monitor.observe(sample, wall, wall, 1.0, 10.0)
        if wall % INTERVALS[0] == START % INTERVALS[0]:
            estimate = self._monitor.snapshot(wall).evaluation.bounds[-1].speedup
            if estimate is not None:
                self.speedups[wall] = estimate


def simulated(course: Course, live: Live, around: tuple[float, float]) -> Mapping[int, StoredHistory]:
    """Return the histories by interval; ``live`` reads the pages between two moments."""
    simulation, unix = Simulation(course.scenario, 3), UnixTime(START, 0.0)
    stored = {interval: StoredHistory() for interval in INTERVALS}  # type: ignore[no-untyped-call]
    for moment in range(course.seconds + 1):
        is_live = around[0] <= moment <= around[1]
        due = [interval for interval in INTERVALS if moment % interval == 0]
        if not (due or is_live):
            continue
        simulation.advance(moment - simulation.now)
        if not simulation.serving:
            continue
        page = python_page(simulation, unix)
        for interval in due:
            stored[interval].scrape(page, START + moment, job="vllm", instance="a:8000")  # type: ignore[no-untyped-call]
        if is_live:
            live.poll(page, START + moment)
    return stored


def report(stored: StoredHistory, query: HistoryQuery) -> EngineHistoryResult:
    """Return the report of the only engine."""
    reader = HistoryReader(QueryApi("http://prometheus:9090", stored), query, lambda _: Assumptions())
    (engine,) = asyncio.run(reader.read()).engines
    return engine


def checks(course: Course, engine: EngineHistoryResult) -> Iterator[Check]:
    """Yield the figures of a report beside the truth."""
    pairs = [(slot, truth) for slot in engine.slots if slot.speedup and (truth := course.truth(slot))]
    contained = sum(_contains(slot.speedup, truth) for slot, truth in pairs)
    holds = contained >= MIN_CONTAINED * max(1, len(pairs))
    yield Check("slots whose bounds contain the truth", f"{contained} of {len(pairs)}", "", holds)
    states = {(slot.begin, slot.end): course.state(slot) for slot, _ in pairs}
    for state in sorted(set(states.values())):
        slots = [slot for slot, _ in pairs if states[slot.begin, slot.end] == state]
        name = f"speed-up, {state.tokens} tokens, {state.acceptance} accepted, load {state.load}"
        yield from _speedup(name, slots, _truth(state))
    yield from _saved(pairs)
    yield from _events(course, engine)
    yield from _best(course, engine)


def _speedup(name: str, slots: Sequence[SlotResult], truth: float) -> Iterator[Check]:
    found = mean_speedup(slots)
    if found is not None:
        estimate = Estimate(found.value, found.lower, found.upper, 0.0)
        holds = _contains(estimate, truth) and abs(found.value / truth - 1) <= TOLERANCE
        yield Check(name, _bounds(estimate), f"{truth:.3f}", holds)


def _saved(pairs: Sequence[tuple[SlotResult, float]]) -> Iterator[Check]:
    found = mean_speedup(slot for slot, _ in pairs)
    if found is not None:
        truth = sum((truth - 1) * (slot.decode_seconds or 0.0) for slot, truth in pairs)
        value, lower, upper = found.saved_seconds
        text = f"{value / 3600:.1f} h ({lower / 3600:.1f} to {upper / 3600:.1f})"
        yield Check("time saved", text, f"{truth / 3600:.1f} h", lower <= truth <= upper)


def _events(course: Course, engine: EngineHistoryResult) -> Iterator[Check]:
    late = 2 * engine.interval + 30
    names = {each.name: each.time - START for each in changes(engine.slots)}
    truth = {"speculation enabled with 4 draft tokens": ENABLED, "2 draft tokens instead of 4": RESTARTED}
    for name, day in truth.items():
        found, exact = names.pop(name, -1.0), day * course.day
        yield Check(name, f"{found:.0f} s", f"{exact:.0f} s", abs(found - exact) <= late)
    yield Check("other changes", ", ".join(names) or "none", "none", not names)
    yield from _drops(course, drops(engine.events), late)
    plain, exact = sum(period.seconds for period in engine.plain_periods), ENABLED * course.day
    yield Check("baseline", f"{plain:.0f} s", f"{exact:.0f} s", abs(plain / exact - 1) < 0.02)


def _drops(course: Course, found: Iterable[HistoryDrop], late: float) -> Iterator[Check]:
    """Yield the sudden drop, and the others: a slow one is dated to intervals of ten minutes."""
    begin, until = DROPPED * course.day, RECOVERED * course.day
    known = [(each, each.begin - START) for each in found]
    sudden = [(each, at) for each, at in known if each.kind == "sudden" and abs(at - begin) <= late]
    text = ", ".join(f"{at:.0f} s, {each.depth:.2f}" for each, at in sudden) or "none"
    depth = 1 - _length(4, LOW) / _length(4, NORMAL)
    holds = len(sudden) == 1 and abs(sudden[0][0].depth - depth) <= 0.08
    yield Check("sudden drop", text, f"{begin:.0f} s, {depth:.2f}", holds)
    early = {"slow": INTERVAL_SECONDS + late}
    others = [
        (each, at) for each, at in known if not begin - early.get(each.kind, late) <= at <= until + late
    ]
    text = ", ".join(f"{each.kind} at {at:.0f} s, {each.depth:.2f}" for each, at in others) or "none"
    yield Check("drops at other times", text, "none", not others)


@lru_cache
def _length(tokens: int, mean: float) -> float:
    """Return the tokens of a draft, the bonus token included, by the simulator's own counts."""
    simulation = Simulation(Scenario.model_validate(_server(State(tokens, mean, LOADS[0]))), 5)
    simulation.advance(1800)
    counts = simulation.life.engines[0].counts
    return 1 + counts.accepted_tokens / counts.drafts


def _best(course: Course, engine: EngineHistoryResult) -> Iterator[Check]:
    for load in LOADS:
        states = {tokens: State(tokens, NORMAL, load) for tokens in (1, 2, 3, 4)}
        slots = [
            slot
            for slot in engine.slots
            if slot.tokens == 4 and course.truth(slot) and course.state(slot) == states[4]
        ]
        best = best_tokens(slots)
        if best is not None:
            truth = {tokens: _truth(state) for tokens, state in states.items()}
            named = ", ".join(f"{tokens}: {value:.2f}" for tokens, value in truth.items())
            holds = best.best > 4 or truth.get(best.best, 1.0) >= 0.95 * max(truth.values())
            yield Check(f"best tokens at load {load}", str(best.best), named, holds)


def agreement(engine: EngineHistoryResult, live: Live) -> Iterator[Check]:
    """Yield the slots of a report beside the live estimate of the same time."""
    for slot in engine.slots:
        own = live.speedups.get(slot.end)
        if slot.speedup is None or own is None or slot.seconds < 600:
            continue
        holds = slot.speedup.lower <= own.upper and own.lower <= slot.speedup.upper
        holds &= _contains(slot.speedup, own.value)
        yield Check("a slot, and live at 1 s", _bounds(slot.speedup), _bounds(own), holds)


def _contains(estimate: Estimate | None, value: float) -> bool:
    return estimate is not None and estimate.lower <= value <= estimate.upper


def _bounds(each: Estimate) -> str:
    return f"{each.value:.3f} ({each.lower:.3f} to {each.upper:.3f})"


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--days", type=float, default=float(DAYS))
    options = parsed(arguments, days=0.05)
    course = Course(options.days)
    query = HistoryQuery(START - 60, START + course.seconds + 1)
    live = Live(query.slot_seconds)
    enabled = ENABLED * course.day
    around = enabled - min(1800.0, course.day / 4), enabled + min(4 * query.slot_seconds, course.day)
    stored = simulated(course, live, around)
    rows, missed = [], []
    for interval in INTERVALS:
        engine = report(stored[interval], query)
        found = [*checks(course, engine), *(agreement(engine, live) if interval == INTERVALS[0] else ())]
        rows += [[f"{interval} s", *each[:3], "yes" if each.holds else "NO"] for each in found]
        missed += [f"{each.name} at {interval} s" for each in found if not each.holds]
    table(["scrapes", "figure", "report", "truth", "holds"], rows)
    end(options, missed)


if __name__ == "__main__":
    main()
