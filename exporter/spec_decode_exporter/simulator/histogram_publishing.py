"""When the observations of the inter-token latency reach the histogram: the two front ends differ."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from spec_decode_exporter.simulator.histogram import SimulatedHistogram
    from spec_decode_exporter.simulator.simulated_request import SimulatedRequest

PUBLISH_SECONDS: Final = 10.0
"""How long the Rust front end keeps the observations of a stream that goes on."""


class Publisher(Protocol):
    """Takes the time since a request's last token, once a decode step."""

    def observe(self, request: SimulatedRequest, moment: float) -> None:
        """Take in the step of ``request`` that ended at ``moment``."""
        ...

    def finish(self, request: SimulatedRequest) -> None:
        """Take in that ``request`` is complete."""
        ...


class AtOnce:
    """The Python front end."""

    def __init__(self, histogram: SimulatedHistogram) -> None:
        self._histogram = histogram

    def observe(self, request: SimulatedRequest, moment: float) -> None:
        """Count the step at once."""
        self._histogram.observe(moment - request.last_token_at)

    def finish(self, request: SimulatedRequest) -> None:
        """Nothing is kept back."""


@dataclass(slots=True)
class _Kept:
    since: float
    latencies: list[float] = field(default_factory=list)


class Late:
    """The Rust front end: a stream's observations are kept and published now and then, and when it ends."""

    def __init__(self, histogram: SimulatedHistogram) -> None:
        self._histogram = histogram
        self._kept: dict[SimulatedRequest, _Kept] = {}

    def observe(self, request: SimulatedRequest, moment: float) -> None:
        """Keep the step, and publish all that are kept if the oldest is old enough."""
        kept = self._kept.setdefault(request, _Kept(request.last_token_at))
        kept.latencies.append(moment - request.last_token_at)
        if moment - kept.since >= PUBLISH_SECONDS:
            self.finish(request)

    def finish(self, request: SimulatedRequest) -> None:
        """Publish what is kept of ``request``."""
        kept = self._kept.pop(request, None)
        for latency in kept.latencies if kept else ():
            self._histogram.observe(latency)
