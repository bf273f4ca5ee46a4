"""Simulated server without clock or I/O: seeded, advanced by its caller."""

from __future__ import annotations

import math
from collections.abc import Callable

from spec_decode_exporter.simulator.scenario import Restart, Scenario, changes
from spec_decode_exporter.simulator.simulated_engine import SimulatedEngine
from spec_decode_exporter.simulator.simulated_request import Answer, SimulatedRequest


class Simulation:
    """A server in ``scenario``; the same seed gives the same numbers.

    Time passes only in ``advance``. ``answered`` is called with the record of each complete request.
    """

    def __init__(
        self, scenario: Scenario, seed: int = 0, answered: Callable[[Answer], None] | None = None
    ) -> None:
        self.scenario = scenario
        self.now = 0.0  # seconds since the scenario's start, as all times here
        self.speculation = scenario.speculation  # settings of the present process
        self.process_began = 0.0
        self.began = 0.0  # creation of the present counters, and opening of the port
        self.engines: tuple[SimulatedEngine, ...] = ()
        """Engines of the present process; none while the server is down."""
        self.restarts = 0
        self._seed = seed
        self._answered = answered
        self._changes = changes(scenario)
        _, self._conditions, _ = next(self._changes)
        self._next = next(self._changes, None)
        self._come_up()

    @property
    def serving(self) -> bool:
        """False while the server is down."""
        return bool(self.engines)

    def advance(self, seconds: float) -> None:
        """Simulate ``seconds``."""
        target = self.now + seconds
        while True:
            up_at = math.inf if self.serving else self.began
            change_at = self._next[0] if self._next else math.inf
            self.now = min(target, up_at, change_at)
            for engine in self.engines:
                engine.advance(self.now)
            if up_at <= self.now:
                self._come_up()
            elif self._next and change_at <= self.now:
                _, conditions, restart = self._next
                self._change(conditions, restart)
            else:
                return

    def _change(self, conditions: Scenario, restart: Restart | None) -> None:
        """Use other conditions; a restart loses counters and running requests."""
        self._next = next(self._changes, None)
        self._conditions = conditions
        if restart is not None:
            new = restart.model_dump(include={"tokens", "tokens_per_batch_size"}, exclude_none=True)
            self.speculation = self.speculation.model_copy(update=new)
            self.process_began, self.began = self.now, self.now + restart.down
            self.engines = ()
            self.restarts += 1
        for engine in self.engines:
            engine.change(conditions, self.now)

    def _come_up(self) -> None:
        self.engines = tuple(
            SimulatedEngine(
                self.scenario,
                index,
                speculation=self.speculation,
                conditions=self._conditions,
                seed=f"{self._seed}/{self.restarts}/{index}",
                began=self.now,
                answered=self._answer,
            )
            for index in range(self.scenario.engines)
        )

    def _answer(self, request: SimulatedRequest) -> None:
        if self._answered is not None:
            self._answered(request.answer(self.scenario.model_name))
