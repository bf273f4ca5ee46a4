"""Settings of speculation on a server: method, draft tokens, and the cost of a draft token."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated

from pydantic import AfterValidator, Field, WithJsonSchema

from spec_decode_exporter.config.batch_schedule import MAX_DRAFT_TOKENS, batch_schedule
from spec_decode_exporter.config.mistakes import Mistake
from spec_decode_exporter.config.types import Printable, Quantity, Section, Share, Size, excludes

ModelText = Annotated[str, Field(min_length=1, max_length=256), Printable]


class Architecture(StrEnum):
    """Architecture of a target model."""

    DENSE = "dense"
    MIXTURE_OF_EXPERTS = "mixture_of_experts"


Load = Annotated[float, Field(gt=0)]
"""A number of concurrent requests."""
Schedule = Annotated[
    tuple[tuple[int, ...], ...],
    AfterValidator(lambda ranges: batch_schedule([list(each) for each in ranges]).ranges),
]
"""Draft tokens by batch size, vLLM's ``num_speculative_tokens_per_batch_size``: checked as of a server, sorted."""


# fmt: off
class SpeculativeSettings(Section):
    """Speculation of a server, for servers whose metrics do not include it."""

    method: ModelText | None = Field(default=None, description="Method by its name in vLLM, such as `eagle3`, `mtp`, `draft_model`, `ngram`.")
    tokens: Annotated[int, Field(ge=1, le=MAX_DRAFT_TOKENS)] | None = Field(default=None, description="Number of draft tokens, vLLM's `num_speculative_tokens`.")
    draft_model: ModelText | None = Field(default=None, description="Name of the draft model.")
    draft_memory: Size | None = Field(default=None, description="Memory of the drafter's weights on the GPUs of an engine, such as `2GiB`, to show the return on it; by default from the draft model's name.")
    schedule: Schedule = Field(default=(), description="Draft tokens by load, vLLM's `num_speculative_tokens_per_batch_size`: `[first, last, tokens]` for each range of running requests.")
    architecture: Annotated[Architecture, WithJsonSchema({"type": "string", "enum": [*map(str, Architecture)]})] | None = Field(default=None, description="Architecture of the served model, `dense` or `mixture_of_experts`: it decides how the cost changes with load. By default from the model's name.")
    expected_positions: Annotated[tuple[Share, ...], Field(max_length=MAX_DRAFT_TOKENS)] = Field(default=(), description="Expected acceptance of each position, given that the tokens before it are accepted: `cond_acc_0`, `cond_acc_1`, … of a training report of speculators. Lower acceptance is the finding `below_expectation`.")
    rejection_method: ModelText | None = Field(default=None, description="Rejection sampling, vLLM's `rejection_sample_method`. `fly` is lossy (finding `lossy_rejection`).")
    adaptive: bool = Field(default=False, description="Server chooses how many drafts it verifies, vLLM's `enable_adaptive_verification`. Acceptance rates and advice on draft tokens are then absent.")


class LoadCost(Section):
    """The cost of a draft token at one load."""

    running_requests: Load = Field(description="Number of concurrent requests.")
    draft_cost_ratio: Quantity = Field(description="Cost of one more draft token at this load, relative to a decode step without speculation.")


def _by_load(loads: tuple[LoadCost, ...]) -> tuple[LoadCost, ...]:
    if len(loads) < 2:  # noqa: PLR2004  two points make a line
        raise ValueError("needs two loads or more; for one, use `draft_cost_ratio` and `running_requests`")
    known = [load.running_requests for load in loads]
    repeated = ", ".join(f"{load:g}" for load in sorted(set(known)) if known.count(load) > 1)
    if repeated:
        raise ValueError(f"has several costs at {repeated} running requests; keep one of each")
    return tuple(sorted(loads, key=lambda load: load.running_requests))


class CostSettings(Section):
    """The cost of drafting.

    Set one of `draft_cost_ratio` and `loads`.
    """

    draft_cost_ratio: Quantity | None = Field(default=None, description="Cost of one more draft token, drafting and verification, relative to a decode step without speculation; without `fixed_cost_ratio` ([how to measure](../guide/cost.md#measure-the-cost-yourself)).")
    loads: Annotated[tuple[LoadCost, ...], AfterValidator(_by_load), excludes("draft_cost_ratio")] = Field(default=(), description="Cost at several loads, in any order. It gives the load up to which speculation pays.")
    fixed_cost_ratio: Quantity = Field(default=0.0, description="Cost per step that does not depend on the number of draft tokens, relative to a decode step: a parallel drafter, an n-gram search.")
    running_requests: Annotated[Load | None, excludes("loads")] = Field(default=None, description="Number of concurrent requests at which the cost was measured. The cost then applies from half to twice this load. Not with `loads`.")

    def mistakes(self) -> Iterator[Mistake]:
        """Yield a cost that is missing."""
        if self.draft_cost_ratio is None and not self.loads:
            yield (), "has no cost; add `draft_cost_ratio` or `loads`"
# fmt: on
