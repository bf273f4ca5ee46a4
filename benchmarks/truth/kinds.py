"""Kinds of traffic that change within a window: bursts, uncached prompts, falling acceptance."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from math import exp, floor, log
from random import Random
from types import MappingProxyType
from typing import Final, NamedTuple

from benchmarks.truth.cells import Cell, fitting
from benchmarks.truth.server import Server
from benchmarks.truth.step_traffic import StepTraffic, Waves

BUSIEST: Final = 100
"""Most requests of a burst."""
SHORT, CHAT = (10, 80), (50, 500)
"""Shortest and longest answers, in tokens."""


class Changes(NamedTuple):
    """One traffic of a kind."""

    waves: Callable[[Random], Waves]
    """Arrivals of one process: each process has a phase of its own."""
    answers: tuple[int, int] = CHAT
    uncached: float | None = None
    """Uncached tokens of a prompt; None: those of the cell."""


def _near(random: Random, low: float, high: float) -> float:
    return exp(random.uniform(log(low), log(high)))


def _closed(load: Callable[[float], float]) -> Callable[[float, float, int], float]:
    """Return arrivals that keep a number of requests in the system."""
    return lambda _, now, present: max(0, round(load(now)) - present)


def _jobs(period: float, size: float, phase: float) -> Callable[[float, float, int], float]:
    """Return arrivals of a wave of requests at once, each period."""
    return lambda before, now, _: size * (floor(now / period + phase) - floor(before / period + phase))


def _on_off(random: Random) -> Changes:
    high, on, off = _near(random, 4, BUSIEST), random.uniform(0.5, 4), random.uniform(0.5, 4)
    low = high * random.choice((0, 0, 0.2))
    return Changes(lambda _: Waves(_closed(lambda now: high if now % (on + off) < on else low)), SHORT)


def _waves(random: Random) -> Changes:
    size, period = round(_near(random, 2, BUSIEST)), random.choice((2, 5, 10, 20))
    answers = random.choice((SHORT, CHAT))
    return Changes(lambda process: Waves(_jobs(period, size, process.random())), answers)


def _minutes(random: Random) -> Changes:
    size = round(_near(random, 8, BUSIEST))
    return Changes(lambda process: Waves(_jobs(60, size, process.random())))


def _clumps(random: Random) -> Changes:
    mean, gap = _near(random, 2, 30), random.uniform(1, 10)

    def waves(process: Random) -> Waves:
        due = process.expovariate(1 / gap)

        def arrivals(_before: float, now: float, _present: int) -> float:
            nonlocal due
            number = 0
            while due <= now:
                number += min(BUSIEST, 1 + int(process.expovariate(1 / mean)))
                due += process.expovariate(1 / gap)
            return number

        return Waves(arrivals)

    return Changes(waves, random.choice((SHORT, CHAT)))


def _alternating(random: Random) -> Changes:
    low, high = _near(random, 1, 16), _near(random, 16, BUSIEST)

    def waves(process: Random) -> Waves:
        phase = process.uniform(0, 120)
        return Waves(_closed(lambda now: high if (now + phase) % 120 < 60 else low))

    return Changes(waves)


def _prompts(random: Random) -> Changes:
    load, uncached = _near(random, 2, 64), _near(random, 500, 8000)
    return Changes(lambda _: Waves(_closed(lambda _: load)), uncached=uncached)


def _falling(seconds: tuple[float, float]) -> Callable[[Random], Changes]:
    def drawn(random: Random) -> Changes:
        load, fall = _near(random, 2, 64), random.uniform(0.2, 0.6)
        begin, length = random.uniform(30, 290), random.uniform(*seconds)

        def kept(now: float) -> float:
            return 1 - fall * min(1.0, max(0.0, (now - begin) / length))

        return Changes(lambda _: Waves(_closed(lambda _: load), kept))

    return drawn


KINDS: Final[Mapping[str, Callable[[Random], Changes]]] = MappingProxyType(
    {
        "on-off": _on_off,
        "waves": _waves,
        "minutes": _minutes,
        "clumps": _clumps,
        "alternating": _alternating,
        "prompts": _prompts,
        "falls": _falling((0.01, 0.02)),
        "falls-slowly": _falling((60, 250)),
    }
)
"""On and off within seconds, a wave of a job each 2 to 20 s, one each minute, clumps at random moments,
minutes with few and with many requests, uncached prompts of 500 to 8,000 tokens, acceptance that falls by 20
to 60 %."""


@dataclass(frozen=True)
class ChangingCell:
    """A server with traffic of a kind."""

    cell: Cell
    kind: str

    @cached_property
    def changes(self) -> Changes:
        """The traffic."""
        return KINDS[self.kind](Random(f"{self.kind} {self.cell.seed}"))

    @cached_property
    def server(self) -> Server:
        """The server, with contexts that leave memory for bursts."""
        its = self.cell.server
        return replace(its, context=fitting(its.target, its.drafter, its.gpu, BUSIEST, its.context)[1])

    def traffic(self, salt: int, *, drafts: bool = True, speculates: bool = True) -> StepTraffic:
        """Return new traffic; another ``salt`` draws other requests."""
        random, changes = Random(self.cell.seed * 1009 + salt), self.changes
        uncached = changes.uncached or self.cell.mix.computed_tokens
        prompt = max(uncached, self.server.context - sum(changes.answers) / 4)
        mix = replace(
            self.cell.mix,
            answer_tokens=changes.answers,
            prompt_tokens=prompt,
            hit_ratio=1 - uncached / prompt,
        )
        return StepTraffic(
            random, self.server, mix, changes.waves(random), drafts=drafts, speculates=speculates
        )
