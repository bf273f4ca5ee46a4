"""Settings of speculation on a server: method, draft tokens, and the cost of a draft token."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated

from pydantic import AfterValidator, Field, WithJsonSchema

from spec_decode_exporter.config.batch_schedule import MAX_DRAFT_TOKENS, batch_schedule
from spec_decode_exporter.config.labels import Printable
from spec_decode_exporter.config.mistakes import Mistake
from spec_decode_exporter.config.types import Quantity, Section, Share, Size

ModelText = Annotated[str, Field(min_length=1, max_length=256), Printable]


class Architecture(StrEnum):
    """Architecture of a target model."""

    DENSE = "dense"
    MIXTURE_OF_EXPERTS = "mixture_of_experts"


Ranges = tuple[tuple[int, ...], ...]
Load = Annotated[float, Field(gt=0, allow_inf_nan=False)]
"""A number of concurrent requests."""


def _schedule(ranges: Ranges) -> Ranges:
    """Check the ranges as those of a server are, and sort them."""
    return batch_schedule([list(each) for each in ranges]).ranges


# fmt: off
class SpeculativeSettings(Section):
    """Speculation of a server, for servers whose metrics do not include it."""

    method: ModelText | None = Field(default=None, description="The method by its name in vLLM, such as `eagle3`, `mtp`, `draft_model`, `ngram`.")
    tokens: Annotated[int, Field(ge=1, le=MAX_DRAFT_TOKENS)] | None = Field(default=None, description="The number of draft tokens, vLLM's `num_speculative_tokens`.")
    draft_model: ModelText | None = Field(default=None, description="The name of the draft model.")
    draft_memory: Size | None = Field(default=None, description="The memory of the drafter's weights on the GPUs of an engine, such as `2GiB`, to show the return on it; by default from the draft model's name.")
    schedule: Annotated[Ranges, AfterValidator(_schedule)] = Field(default=(), description="The draft tokens by load, vLLM's `num_speculative_tokens_per_batch_size`: `[first, last, tokens]` for each range of running requests.")
    architecture: Annotated[Architecture, WithJsonSchema({"type": "string", "enum": [*map(str, Architecture)]})] | None = Field(default=None, description="The architecture of the served model, `dense` or `mixture_of_experts`: it decides how the cost changes with load. By default from the model's name.")
    expected_positions: Annotated[tuple[Share, ...], Field(max_length=MAX_DRAFT_TOKENS)] = Field(default=(), description="The expected acceptance of each position, given that the tokens before it are accepted: `cond_acc_0`, `cond_acc_1`, … of a training report of speculators. Lower acceptance is the finding `below_expectation`.")
    rejection_method: ModelText | None = Field(default=None, description="The rejection sampling, vLLM's `rejection_sample_method`. `fly` is lossy (finding `lossy_rejection`).")
    adaptive: bool = Field(default=False, description="The server chooses how many drafts it verifies, vLLM's `enable_adaptive_verification`. Acceptance rates and advice on draft tokens are then absent.")


class LoadCost(Section):
    """The cost of a draft token at one load."""

    running_requests: Load = Field(description="The number of concurrent requests.")
    draft_cost_ratio: Quantity = Field(description="The cost of one more draft token at this load, relative to a decode step without speculation.")


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

    draft_cost_ratio: Quantity | None = Field(default=None, description="The cost of one more draft token, drafting and verification, relative to a decode step without speculation; without `fixed_cost_ratio` ([how to measure](../guide/cost.md#measure-the-cost-yourself)).")
    loads: Annotated[tuple[LoadCost, ...], AfterValidator(_by_load)] = Field(default=(), description="The cost at several loads, in any order. It gives the load up to which speculation pays.")
    fixed_cost_ratio: Quantity = Field(default=0.0, description="The cost per step that does not depend on the number of draft tokens, relative to a decode step: a parallel drafter, an n-gram search.")
    running_requests: Load | None = Field(default=None, description="The number of concurrent requests at which the cost was measured. The cost then applies from half to twice this load. Not with `loads`.")

    def mistakes(self) -> Iterator[Mistake]:
        """Yield what states the cost twice or not at all, and a load beside those of `loads`."""
        if self.draft_cost_ratio is None and not self.loads:
            yield (), "has no cost; add `draft_cost_ratio` or `loads`"
        if self.draft_cost_ratio is not None and self.loads:
            yield ("loads",), "is a second way to state the cost, beside `draft_cost_ratio`; remove one of the two"
        if self.running_requests is not None and self.loads:
            yield ("running_requests",), "cannot be set beside `loads`, which have their own; remove it"
# fmt: on
