"""Publication of the inter-token latency: at once (vLLM until 0.33), or delayed (newer Rust front ends)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from spec_decode_exporter.simulator.histogram import SimulatedHistogram
    from spec_decode_exporter.simulator.simulated_request import SimulatedRequest

PUBLISH_SECONDS: Final = 10.0
"""A delayed publisher keeps observations of a running stream for this time."""


class Publisher(Protocol):
    """Observes the time since a request's last token at each decode step."""

    def observe(self, request: SimulatedRequest, moment: float) -> None:
        """Observe the step of ``request`` that ended at ``moment``."""
        ...

    def finish(self, request: SimulatedRequest) -> None:
        """Note the end of ``request``."""
        ...


class ImmediatePublisher:
    """Publishes each step at once, as recorded of vLLM 0.32 and 0.33."""

    def __init__(self, histogram: SimulatedHistogram) -> None:
        self._histogram = histogram

    def observe(self, request: SimulatedRequest, moment: float) -> None:
        """Publish the step."""
        self._histogram.observe(moment - request.last_token_at)

    def finish(self, request: SimulatedRequest) -> None:
        """Do nothing: everything is published."""


@dataclass(slots=True)
class _KeptSteps:
    since: float
    latencies: list[float] = field(default_factory=list)


class DelayedPublisher:
    """Publishes a stream's steps every ``PUBLISH_SECONDS`` and at its end."""

    def __init__(self, histogram: SimulatedHistogram) -> None:
        self._histogram = histogram
        self._kept: dict[SimulatedRequest, _KeptSteps] = {}

    def observe(self, request: SimulatedRequest, moment: float) -> None:
        """Keep the step; publish all kept steps if the oldest is older than ``PUBLISH_SECONDS``."""
        kept = self._kept.setdefault(request, _KeptSteps(request.last_token_at))
        kept.latencies.append(moment - request.last_token_at)
        if moment - kept.since >= PUBLISH_SECONDS:
            self.finish(request)

    def finish(self, request: SimulatedRequest) -> None:
        """Publish the kept steps of ``request``."""
        kept = self._kept.pop(request, None)
        for latency in kept.latencies if kept else ():
            self._histogram.observe(latency)
