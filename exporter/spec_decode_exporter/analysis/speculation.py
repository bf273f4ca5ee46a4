"""How an engine speculates, as far as anybody says: its metrics do not."""

from __future__ import annotations

from dataclasses import dataclass

from spec_decode_exporter.config.cost_settings import SpeculativeSettings
from spec_decode_exporter.scrape.poll.batch_schedule import NO_SCHEDULE, BatchSchedule
from spec_decode_exporter.scrape.poll.server_info import ServedSpeculation

_NOTHING_SET = SpeculativeSettings()
_NOTHING_SERVED = ServedSpeculation()


@dataclass(frozen=True, slots=True)
class Speculation:
    """The method, its draft model and K. What is unknown is empty or None."""

    method: str = ""
    """As vLLM calls it: ``eagle3``, ``ngram``, …."""
    source: str = ""
    """Where the method is known from: ``configured``, ``label``, ``pod_arguments`` or ``server_info``."""
    draft_model: str = ""
    tokens: int | None = None
    """K, the most tokens that are drafted at a time."""
    schedule: BatchSchedule = NO_SCHEDULE

    def scheduled_off(self, running_requests: float | None) -> bool:
        """Return whether the server is told to draft nothing for a batch of so many requests."""
        return running_requests is not None and self.schedule.at(running_requests) == 0


def resolve(
    settings: SpeculativeSettings | None,
    method_label: str,
    served: ServedSpeculation | None,
    pod_arguments: ServedSpeculation | None = None,
) -> Speculation:
    """Return what is known, field by field from the surest that names it.

    Args:
        settings: What the configuration says of the target.
        method_label: What discovery says, as the target's label ``method``.
        served: What the server says of itself.
        pod_arguments: What the server's pod is told on its command line.
    """
    configured = settings or _NOTHING_SET
    ordered, told = pod_arguments or _NOTHING_SERVED, served or _NOTHING_SERVED
    methods = {
        "configured": configured.method,
        "label": method_label,
        "pod_arguments": ordered.method,
        "server_info": told.method,
    }
    source = next((source for source, method in methods.items() if method), "")
    return Speculation(
        method=methods.get(source) or "",
        source=source,
        draft_model=configured.draft_model or ordered.draft_model or told.draft_model,
        tokens=configured.tokens or ordered.tokens or told.tokens,
        schedule=ordered.schedule or told.schedule,
    )
