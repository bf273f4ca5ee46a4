"""Settings of speculation and its cost, and of comparisons: with a reference, a baseline or other servers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from itertools import combinations
from typing import Annotated, Self

from pydantic import AfterValidator, Field, PrivateAttr, ValidationInfo, WithJsonSchema, model_validator

from spec_decode_exporter.config.batch_schedule import MAX_POSITIONS, batch_schedule
from spec_decode_exporter.config.http_settings import HttpSettings
from spec_decode_exporter.config.mistakes import Mistake, MistakesError
from spec_decode_exporter.config.types import (
    ApiAddress,
    Duration,
    LocatedPath,
    NotEmpty,
    Printable,
    Quantity,
    Section,
    Share,
    Size,
    context_of,
    excludes,
    label_matchers,
    label_problem,
    matches,
    refuses,
)
from spec_decode_exporter.core.numbers import MAX_TEXT

ModelText = Annotated[str, Field(min_length=1, max_length=MAX_TEXT), Printable]


class Architecture(StrEnum):
    """Architecture of a target model."""

    DENSE = "dense"
    MIXTURE_OF_EXPERTS = "mixture_of_experts"


Load = Annotated[float, Field(gt=0)]  # a number of concurrent requests
Schedule = Annotated[
    tuple[tuple[int, ...], ...],
    AfterValidator(lambda ranges: batch_schedule([list(each) for each in ranges]).ranges),
]
"""Draft tokens by batch size, vLLM's ``num_speculative_tokens_per_batch_size``: checked as of a server, sorted."""


def _match_problem(label: str) -> str | None:
    problem = None if label in {"name", "model_name", "method"} else label_problem(label)
    return problem and f"{problem}; an arm is matched by name, model_name, method or a label of targets"


# fmt: off
Name = Annotated[str, matches(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", "is not a name: use up to 64 letters, digits, `_.-`")]
Lookback = Annotated[Duration, refuses(lambda seconds: None if 3600 <= seconds <= 90 * 86_400 else "must be 1h to 90d")]  # noqa: PLR2004  an older baseline is forgotten
MatchLabel = Annotated[str, refuses(_match_problem)]
MatchValue = Annotated[str, Field(min_length=1, max_length=MAX_TEXT), Printable]


class SpeculativeSettings(Section):
    """Speculation of a server, for servers whose metrics do not include it."""

    method: ModelText | None = Field(default=None, description="Method by its name in vLLM, such as `eagle3`, `mtp`, `draft_model`, `ngram`.")
    tokens: Annotated[int, Field(ge=1, le=MAX_POSITIONS)] | None = Field(default=None, description="Number of draft tokens, vLLM's `num_speculative_tokens`.")
    draft_model: ModelText | None = Field(default=None, description="Name of the draft model.")
    draft_memory: Size | None = Field(default=None, description="Memory of the drafter's weights on the GPUs of an engine, such as `2GiB`, to show the return on it; by default from the draft model's name.")
    schedule: Schedule = Field(default=(), description="Draft tokens by load, vLLM's `num_speculative_tokens_per_batch_size`: `[first, last, tokens]` for each range of running requests.")
    architecture: Annotated[Architecture, WithJsonSchema({"type": "string", "enum": [*map(str, Architecture)]})] | None = Field(default=None, description="Architecture of the served model, `dense` or `mixture_of_experts`: it decides how the cost changes with load. By default from the model's name.")
    expected_positions: Annotated[tuple[Share, ...], Field(max_length=MAX_POSITIONS)] = Field(default=(), description="Expected acceptance of each position, given that the tokens before it are accepted: `cond_acc_0`, `cond_acc_1`, … of a training report of speculators. Lower acceptance is the finding `below_expectation`.")
    rejection_method: ModelText | None = Field(default=None, description="Rejection sampling, vLLM's `rejection_sample_method`. `fly` is lossy (finding `lossy_rejection`).")
    adaptive: bool = Field(default=False, description="Server chooses how many drafts it verifies, vLLM's `enable_adaptive_verification`. Acceptance rates and advice on draft tokens are then absent.")


class LoadCost(Section):
    """The cost of a draft token at one load."""

    running_requests: Load = Field(description="Number of concurrent requests.")
    draft_cost_ratio: Quantity = Field(description="Cost of one more draft token at this load, relative to a decode step without speculation.")


def _by_load(loads: tuple[LoadCost, ...]) -> tuple[LoadCost, ...]:
    if len(loads) < 2:  # noqa: PLR2004  two points make a line
        raise ValueError("needs two loads or more; for one, use `draft_cost_ratio` and `running_requests`")
    if len({load.running_requests for load in loads}) < len(loads):
        raise ValueError("has several costs at one number of running requests; keep one of each")
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


class ReferenceSettings(Section):
    """The acceptance rate that a server is compared with, measured before a change such as quantization.

    Set either `acceptance_ratio` or `file`, which `observe --save` writes.
    """

    acceptance_ratio: Share | None = Field(default=None, description="Acceptance rate, accepted tokens over draft tokens, between 0 and 1.")
    tokens: Annotated[int, Field(ge=1, le=MAX_POSITIONS)] | None = Field(default=None, description="Number of draft tokens at which `acceptance_ratio` was measured. Engines with another number are not compared: the rate falls with it.")
    file: Annotated[LocatedPath | None, excludes("acceptance_ratio"), excludes("tokens")] = Field(default=None, description="A file that `observe --save` wrote, read with the configuration.")
    model_name: ModelText | None = Field(default=None, description="Model of the file; required if the file holds more than one.")
    _rates: dict[int | None, float] = PrivateAttr(default_factory=dict)
    """The acceptance rate by draft tokens; None is any number."""

    def at(self, tokens: int) -> float | None:
        """Return the rate for an engine that drafts ``tokens`` tokens, 0 if that number is unknown.

        Return None if the rate was measured at another number, or at several and ``tokens`` is 0.
        """
        if tokens and None not in self._rates:
            return self._rates.get(tokens)
        return next(iter(self._rates.values())) if len(self._rates) == 1 else None

    def mistakes(self) -> Iterator[Mistake]:
        """Yield a rate that is missing, and a model without its file."""
        if self.acceptance_ratio is None and self.file is None:
            yield (), "has no rate; add `acceptance_ratio`, or the `file` that `observe --save` wrote"
        if self.model_name is not None and self.file is None:
            yield ("model_name",), "selects a model of a `file`, but no `file` is set; remove it"

    @model_validator(mode="after")
    def _read(self, info: ValidationInfo) -> Self:
        context = context_of(info)
        if self.acceptance_ratio is not None:
            self._rates = {self.tokens: self.acceptance_ratio}
        elif self.file is not None and context is not None and context.read_rates is not None:
            try:
                self._rates = context.read_rates(self.file, self.model_name)
            except ValueError as error:
                raise MistakesError([(("file",), str(error))]) from None
        return self


class PrometheusSettings(HttpSettings):
    """A Prometheus with the counters of the servers, or VictoriaMetrics, Thanos or Mimir.

    The HTTP keys are for its queries.
    """

    url: ApiAddress = Field(description="Its URL, http or https, with the prefix of its proxy if there is one.")
    match: Annotated[str, AfterValidator(label_matchers)] = Field(default="", description='Label matchers of the series, such as `job="vllm"`; by default all. A server is matched to a target by `instance`, as `host:port` or `name`, else by equal common labels; a single server to a single target.')
    lookback: Lookback = Field(default=14 * 86_400.0, description="Time to search for a period without speculation, `1h` to `90d`.")


class BaselineSettings(Section):
    """The baseline: how fast a server is without speculation.

    The exporter learns it while a server runs without speculation. A history has that time, too.
    """

    prometheus: PrometheusSettings = Field(description="History, read at the start and once a day. The newest period without drafts counts, from the history or learned.")


class ArmSettings(Section):
    """The engines of one arm."""

    match: Annotated[Mapping[MatchLabel, MatchValue], NotEmpty] = Field(description="Labels that an engine of the arm must all have: `name` (of its target), `model_name`, `method` (`off` without speculation), or any label of its target. Two arms need a common label with different values.")


class ExperimentSettings(Section):
    """Arms that serve the same work in different ways, each compared with the baseline.

    See [experiments.md](../guide/experiments.md). One exporter must monitor all arms: experiments are
    rejected with `discovery.shard.count` above 1.
    """

    name: Name = Field(description="Value of the label `experiment`.")
    arms: Mapping[Name, ArmSettings] = Field(description="Arms by name, at least two.")
    baseline: Name = Field(description="Arm that the others are compared with.")

    def mistakes(self) -> Iterator[Mistake]:
        """Yield what makes the arms incomparable: one alone, no baseline, or an engine in two arms."""
        if len(self.arms) < 2:  # noqa: PLR2004  one arm has no counterpart
            yield ("arms",), "needs two arms or more, the baseline included"
        for (first, one), (second, other) in combinations(self.arms.items(), 2):
            common = one.match.keys() & other.match.keys()
            if all(one.match[label] == other.match[label] for label in common):
                yield ("arms", second, "match"), f"may match the engines of `{first}`; give both a label in common with different values"
        if self.baseline not in self.arms:
            known = ", ".join(self.arms) or "none"
            yield ("baseline",), f"is not one of the arms; there are {known}"
# fmt: on
