"""Simulated server without clock or I/O: seeded, advanced by its caller."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import TYPE_CHECKING

from spec_decode_exporter.simulator.histogram import token_bounds
from spec_decode_exporter.simulator.request_mix import RequestMix
from spec_decode_exporter.simulator.response_metrics import Answer, answer
from spec_decode_exporter.simulator.simulated_engine import EngineSetup, SimulatedEngine
from spec_decode_exporter.simulator.timeline import changes

if TYPE_CHECKING:
    from collections.abc import Callable

    from spec_decode_exporter.simulator.scenario import Restart, Scenario
    from spec_decode_exporter.simulator.simulated_request import SimulatedRequest
    from spec_decode_exporter.simulator.timeline import ConditionChange, Conditions


@dataclass(frozen=True, slots=True)
class Life:
    """One process of the server, up to its restart. Times are seconds of the simulation."""

    number: int
    tokens: int
    process_began: float
    began: float
    """Creation of the counters, and opening of the port."""
    engines: tuple[SimulatedEngine, ...]


class Simulation:
    """A server in ``scenario``; the same seed gives the same numbers.

    Time passes only in ``advance``.
    """

    def __init__(
        self, scenario: Scenario, seed: int = 0, answered: Callable[[Answer], None] | None = None
    ) -> None:
        """Start the server; ``answered`` is called with the record of each complete request."""
        self.scenario = scenario
        self.now = 0.0
        """Seconds since the scenario's start."""
        self._seed = seed
        self._answered = answered
        self._changes = changes(scenario)
        first = next(self._changes)
        self._conditions: Conditions = first.conditions
        self._next: ConditionChange | None = next(self._changes, None)
        self._up_at = math.inf
        self.serving = True
        """False while the server is down."""
        self.life = self._start(0, scenario.speculation.tokens, process_began=0.0)

    def advance(self, seconds: float) -> None:
        """Simulate ``seconds``."""
        target = self.now + seconds
        while (moment := min(self._change_at, self._up_at)) <= target:
            self._run_to(moment)
            if self._up_at <= moment:
                self._come_up()
            elif self._next is not None:
                self._change(self._next)
        self._run_to(target)

    @property
    def _change_at(self) -> float:
        return math.inf if self._next is None else self._next.at

    def _run_to(self, moment: float) -> None:
        self.now = moment
        if self.serving:
            for engine in self.life.engines:
                engine.advance(moment)

    def _change(self, change: ConditionChange) -> None:
        self._next = next(self._changes, None)
        self._conditions = change.conditions
        if change.restart is not None:
            self._go_down(change.restart)
        elif self.serving:
            for engine in self.life.engines:
                engine.change(change.conditions, self.now)

    def _go_down(self, restart: Restart) -> None:
        """Stop the server: counters and running requests are lost."""
        tokens = self.life.tokens if restart.tokens is None else restart.tokens
        self.serving = False
        self._up_at = self.now + restart.down
        self.life = Life(self.life.number + 1, tokens, self.now, self._up_at, ())

    def _come_up(self) -> None:
        self.serving = True
        self._up_at = math.inf
        self.life = self._start(self.life.number, self.life.tokens, self.life.process_began)

    def _start(self, number: int, tokens: int, process_began: float) -> Life:
        scenario = self.scenario
        max_length = scenario.machine.max_model_len
        rust = scenario.front_end == "rust"
        engines = tuple(
            SimulatedEngine(
                EngineSetup(
                    index,
                    scenario.engines,
                    scenario.machine,
                    scenario.speculation,
                    tokens,
                    RUST_TOKEN_BOUNDS if rust else token_bounds(max_length),
                    partial(self._answer, tokens),
                ),
                self._conditions,
                # A string seed gives the same numbers in every process; the hash of a tuple does not.
                Random(f"{self._seed}/{number}/{index}"),  # noqa: S311
                RequestMix(self._conditions, Random(f"{self._seed}/{number}/{index}/kinds")),  # noqa: S311
                self.now,
            )
            for index in range(scenario.engines)
        )
        return Life(number, tokens, process_began, self.now, engines)

    def _answer(self, tokens: int, request: SimulatedRequest, moment: float) -> None:
        if self._answered is not None:
            self._answered(answer(self.scenario.model_name, tokens, request, moment))


RUST_TOKEN_BOUNDS = (*token_bounds(131_072), 131_072.0)
"""Bounds of the Rust front end, which does not depend on the longest request."""
