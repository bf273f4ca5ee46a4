"""Fixtures and helpers of all tests."""

from __future__ import annotations

import asyncio
import heapq
import inspect
import time
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from types import SimpleNamespace

import hypothesis
import pytest
import structlog

from spec_decode_exporter.scrape.engines import Counter, Gauge
from spec_decode_exporter.scrape.sample import Sample
from tests.fakes.simulated import Network
from tests.paths import CHECKOUT

pytest_plugins = ["tests.fakes.engines"]

# How long an example takes depends on what else the machine does; pytest's own timeout ends what hangs.
hypothesis.settings.register_profile("exporter", deadline=None)
hypothesis.settings.load_profile("exporter")


SLOW = (
    "tests/contract/rules/test_promtool.py",
    "tests/contract/test_pins.py",
    "tests/robustness/fuzz",
    "tests/robustness/test_inputs.py",
    "tests/service",
    "tests/unit/benchmarks",
    "tests/unit/experiments/test_experiment_tracker.py",
    "tests/unit/history/test_baseline_reader.py",
    "tests/unit/history/test_history_baselines.py",
    "tests/unit/history/test_history_reader.py",
    "tests/unit/metrics/test_page.py",
    "tests/unit/monitor/test_deep_pair_trace.py",
    "tests/unit/reports/test_comparison.py",
    "tests/unit/reports/test_observation.py",
    "tests/unit/reports/test_observation_report.py",
    "tests/unit/simulator/test_ground_truth.py",
    "tests/unit/simulator/test_simulation.py",
)
"""Files and directories of which each takes seconds of CPU time: whole simulations and worst-case inputs."""


def pytest_collection_modifyitems(items):
    """Mark the slow tests and run them first: workers that end early take from those that have more left."""
    missing = [name for name in SLOW if not (CHECKOUT / name).exists()]
    if missing:
        raise pytest.UsageError(f"SLOW in tests/conftest.py names what does not exist: {', '.join(missing)}")
    for item in items:
        if item.nodeid.startswith(SLOW):
            item.add_marker(pytest.mark.slow)
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


@dataclass(eq=False)
class FakeClock:
    """A clock that only moves by hand: sleepers wake, in order, while ``advance`` passes their moments."""

    now: float = 1_000.0
    offset: float = 1_789_999_000.0  # from ``now`` to Unix time
    used: float = 0.0
    _order: count[int] = field(default_factory=count)
    _sleepers: list[tuple[float, int, asyncio.Future[None]]] = field(default_factory=list)

    def monotonic(self) -> float:
        return self.now

    def wall(self) -> float:
        return self.now + self.offset

    def processor(self) -> float:
        return self.used

    @property
    def asleep(self) -> int:
        """Return the number of sleepers."""
        return sum(not future.done() for _, _, future in self._sleepers)

    async def sleep_until(self, moment: float) -> None:
        if moment <= self.now:
            await asyncio.sleep(0)
            return
        future = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (moment, next(self._order), future))
        await future

    async def advance(self, seconds: float, turns: int = 20) -> None:
        """Let ``seconds`` pass. Between two sleepers everything else gets ``turns`` of the event loop."""
        end = self.now + seconds
        await settle(turns)
        while self._sleepers and self._sleepers[0][0] <= end:
            moment, _, future = heapq.heappop(self._sleepers)
            self.now = max(self.now, moment)
            if not future.done():
                future.set_result(None)
            await settle(turns)
        self.now = end
        await settle(turns)


async def settle(turns: int = 20) -> None:
    """Run the event loop for some iterations, without time or network."""
    for _ in range(turns):
        await asyncio.sleep(0)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


async def until(condition, seconds: float = 60.0) -> None:
    """Run the event loop, with its real sockets and threads, until the condition is true.

    The limit is in real seconds: a busy machine runs many turns before a thread gets its turn.
    """
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise AssertionError("the condition never became true")
        await asyncio.sleep(0)


@pytest.fixture(name="until")
def until_fixture():
    return until


def make_sample(
    drafts=None, draft_tokens=None, accepted=None, *, positions=(), created=None, latencies=None, **more
) -> Sample:
    """Make a sample; ``more`` are counters and gauges by their names in lower case."""
    speculation = {"drafts": drafts, "draft_tokens": draft_tokens, "accepted_tokens": accepted}
    counters = tuple(more.pop(one.name.lower(), speculation.get(one.name.lower())) for one in Counter)
    gauges = tuple(more.pop(one.name.lower(), None) for one in Gauge)
    answer_lengths = more.pop("answer_lengths", None)
    assert not more, more
    return Sample(counters, tuple(positions), gauges, created, latencies, answer_lengths)


@pytest.fixture(scope="session", name="make_sample")
def make_sample_fixture():
    return make_sample


@pytest.fixture(autouse=True)
def _log_by_default():
    """Log as structlog does by default, though a command before configured it for the whole process."""
    log_by_default()
    yield
    log_by_default()  # for fixtures of a module, which are made before


def log_by_default():
    """But print exceptions plainly: the default formatter takes a second for each."""
    structlog.reset_defaults()
    *processors, _ = structlog.get_config()["processors"]
    renderer = structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
    structlog.configure(processors=[*processors, renderer])


def what_is_left() -> list[str]:
    """Name the tasks, transports and sockets that the event loop still has, besides the task that asks."""
    loop = asyncio.get_running_loop()
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    # asyncio's event loop has no public list of transports. Its own pipe does not count.
    transports = [one for one in loop._transports.values() if not one.is_closing()]
    known = {loop._ssock.fileno(), *loop._transports}
    sockets = [f"socket {number}" for number in loop._selector.get_map() if number not in known]
    return [*map(repr, tasks), *map(repr, transports), *sockets]


@pytest.fixture
async def _left_behind():
    yield
    # Ending tasks, threads, and the other ends of connections, need some iterations of the event loop.
    with suppress(AssertionError):
        await until(lambda: not what_is_left(), 10.0)
    left = what_is_left()
    assert not left, f"the test leaves behind: {'; '.join(left)}"


@pytest.fixture(autouse=True)
def _nothing_is_left_behind(request):
    """Fail a test that leaves tasks, transports or sockets behind, when all that it uses is torn down."""
    if inspect.iscoroutinefunction(request.function):
        request.getfixturevalue("_left_behind")


async def _at_once(function, *arguments, **options):
    return function(*arguments, **options)


PAGES_AT_ONCE = SimpleNamespace(run=_at_once)
"""In the place of the thread that reads large pages: a thread does not follow a clock that is moved by hand."""


@pytest.fixture
def network(monkeypatch) -> Network:
    """Replace the HTTP client by simulated servers, by ``host:port``."""
    network = Network()
    monkeypatch.setattr("spec_decode_exporter.monitor.target_monitor.Client", lambda *_, **__: network)
    monkeypatch.setattr("spec_decode_exporter.scrape.poller.PAGES", PAGES_AT_ONCE)
    return network
