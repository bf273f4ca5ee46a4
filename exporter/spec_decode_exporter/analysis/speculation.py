"""Configuration of an engine's speculation, from sources other than its metrics."""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import ceil
from typing import Final

from spec_decode_exporter.config.batch_schedule import NO_SCHEDULE, BatchSchedule, batch_schedule
from spec_decode_exporter.config.comparison_settings import Architecture, SpeculativeSettings
from spec_decode_exporter.costs.learned import DraftingMethod
from spec_decode_exporter.costs.methods import DRAFT_MODEL, present_name
from spec_decode_exporter.costs.model_architecture import architecture_of, weight_bytes
from spec_decode_exporter.discovery.vllm_command_line import speculator_method
from spec_decode_exporter.scrape.server_info import ServedSpeculation

_IN_ONE_PASS: Final = re.compile(r"(?<![a-z])(?:p-?eagle|pard)(?![a-z])", re.IGNORECASE)
"""Names of draft models that vLLM serves with ``parallel_drafting`` alone."""
_NOTHING_SET, _NOTHING_SERVED = SpeculativeSettings(), ServedSpeculation()


@dataclass(frozen=True, slots=True)
class Speculation:
    """Method, draft model and K. Unknown values are empty or None."""

    method: str = ""  # method in vLLM's spelling: ``eagle3``, ``ngram``, …
    source: str = ""
    """Its source: ``configured``, ``label``, ``pod_arguments``, ``server_info`` or ``model_name``."""
    draft_model: str = ""
    tokens: int | None = None  # K, the maximum of draft tokens at a time
    schedule: BatchSchedule = NO_SCHEDULE
    architecture: Architecture | None = None  # of the served model; None if unknown
    drafts_in_parallel: bool = False  # True if one pass of the drafter drafts all tokens
    expected_positions: tuple[float, ...] = ()
    """Acceptance of each position given the ones before, by the drafter's training report."""
    rejection_method: str = ""  # vLLM's ``rejection_sample_method``
    is_adaptive: bool = False
    """True if the engine chooses how many drafts it verifies, and counts the others as rejected."""
    varies_tokens: bool = False
    """True if the engine changes K itself while it runs; it verifies all that it drafts."""
    has_served_tokens: bool = False  # True if the server reported K: its next process may have another
    draft_bytes: float = 0.0  # weights of the drafter on the GPUs of an engine; 0 if unknown

    @property
    def drafting_method(self) -> DraftingMethod:
        """Method and draft model, which decide the cost of drafting."""
        return DraftingMethod(self.method, self.draft_model, self.drafts_in_parallel)

    @property
    def chooses_tokens(self) -> bool:
        """True if the engine chooses how many tokens it drafts or verifies, so that K needs no tuning."""
        return self.is_adaptive or self.varies_tokens

    def paused_from(self, running_requests: float | None) -> int | None:
        """Return the first batch size of the range without drafts that a load is in; None if it has drafts.

        A mean is rounded up: polls also see the moments at which a request has ended and the next one has not
        begun, which no batch has.
        """
        if running_requests is None or self.schedule.at(ceil(running_requests)) != 0:
            return None
        ranges = self.schedule.ranges
        return next(first for first, last, _ in ranges if ceil(running_requests) <= last)


def resolve(
    settings: SpeculativeSettings | None,
    method_label: str,
    served: ServedSpeculation | None,
    pod_arguments: ServedSpeculation | None = None,
    model_name: str = "",
) -> Speculation:
    """Return the speculation, each field from its most certain source.

    Args:
        settings: Settings of the target in the configuration.
        method_label: Label ``method`` of the target, from discovery.
        served: Report of the server.
        pod_arguments: Command line of the server's pod.
        model_name: Name of the served model. That of a ``speculators`` checkpoint names its method.
    """
    configured = settings or _NOTHING_SET
    ordered, reported = pod_arguments or _NOTHING_SERVED, served or _NOTHING_SERVED
    methods = {
        "configured": configured.method,
        "label": method_label,
        "pod_arguments": ordered.method,
        "server_info": reported.method,
        "model_name": speculator_method(model_name),
    }
    source, method = next(((source, method) for source, method in methods.items() if method), ("", ""))
    draft_model = configured.draft_model or ordered.draft_model or reported.draft_model
    draft_model = draft_model or (model_name if source == "model_name" else "")
    in_parallel = ordered.drafts_in_parallel or reported.drafts_in_parallel
    named = weight_bytes(draft_model) if present_name(method) == DRAFT_MODEL else 0.0
    return Speculation(
        method=method,
        source=source,
        draft_model=draft_model,
        tokens=configured.tokens or ordered.tokens or reported.tokens,
        schedule=batch_schedule([*map(list, configured.schedule)]) or ordered.schedule or reported.schedule,
        architecture=configured.architecture or architecture_of(model_name),
        drafts_in_parallel=in_parallel or _IN_ONE_PASS.search(draft_model) is not None,
        expected_positions=configured.expected_positions,
        rejection_method=configured.rejection_method or ordered.rejection_method or reported.rejection_method,
        is_adaptive=configured.adaptive or ordered.is_adaptive or reported.is_adaptive,
        varies_tokens=reported.varies_tokens,
        has_served_tokens=bool(reported.tokens) and not (configured.tokens or ordered.tokens),
        draft_bytes=float(configured.draft_memory or named),
    )
