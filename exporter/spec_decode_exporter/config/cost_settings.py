"""What an operator knows about speculation on a server: how it drafts, and what a draft token costs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Final, Self

from pydantic import AfterValidator, Field, model_validator

from spec_decode_exporter.config.errors import MistakesError
from spec_decode_exporter.config.http_settings import Section
from spec_decode_exporter.config.labels import printable
from spec_decode_exporter.config.values import Parameters, Quantity

MOST_TOKENS: Final = 128
"""As many draft positions as are watched."""

_WAYS: Final = {
    "draft_cost_ratio": "draft_cost_ratio",
    "draft_parameters": "draft_parameters",
    "target_parameters": "draft_parameters",
    "loads": "loads",
}
"""The keys that say the cost, each with the way of saying it that it belongs to."""

_PAIR: Final = {"draft_parameters": "target_parameters", "target_parameters": "draft_parameters"}

ModelText = Annotated[str, Field(min_length=1, max_length=256), AfterValidator(printable)]


class SpeculativeSettings(Section):
    """How a server speculates, where its metrics do not say."""

    method: ModelText | None = Field(
        default=None,
        description="The method, as vLLM calls it, such as `eagle3`, `mtp`, `draft_model`, `ngram`.",
    )
    tokens: Annotated[int, Field(ge=1, le=MOST_TOKENS)] | None = Field(
        default=None,
        description="How many tokens are drafted at a time, vLLM's `num_speculative_tokens`.",
    )
    draft_model: ModelText | None = Field(default=None, description="The name of the draft model.")


class LoadCost(Section):
    """What a draft token costs at one load."""

    running_requests: Annotated[float, Field(gt=0, allow_inf_nan=False)] = Field(
        description="The requests that ran at the same time."
    )
    draft_cost_ratio: Quantity = Field(
        description="What one more draft token cost then, in plain decode steps."
    )


def _by_load(loads: tuple[LoadCost, ...]) -> tuple[LoadCost, ...]:
    if len(loads) < 2:  # noqa: PLR2004  two points make a line
        raise ValueError("needs two loads or more; for one, write `draft_cost_ratio` and `running_requests`")
    known = [load.running_requests for load in loads]
    twice = ", ".join(f"{load:g}" for load in sorted(set(known)) if known.count(load) > 1)
    if twice:
        raise ValueError(f"says the cost at {twice} running requests more than once; keep one of each")
    return tuple(sorted(loads, key=lambda load: load.running_requests))


class CostSettings(Section):
    """What drafting costs.

    It is said in one of three ways: by `draft_cost_ratio`, by `draft_parameters` with `target_parameters`, or
    by `loads`.
    """

    draft_cost_ratio: Quantity | None = Field(
        default=None,
        description="What one more draft token costs, drafting and verifying, relative to a decode step "
        "without speculation.",
    )
    draft_parameters: Parameters | None = Field(
        default=None,
        description="The parameters of the draft model. Divided by `target_parameters` they are the cost of "
        "drafting where decoding is bound by memory.",
    )
    target_parameters: Parameters | None = Field(
        default=None, description="The parameters of the model that is served."
    )
    verify_cost_ratio: Quantity = Field(
        default=0.0,
        description="What verifying one more draft token costs besides, relative to a decode step. Only with "
        "`draft_parameters`; the other ways include it.",
    )
    loads: Annotated[tuple[LoadCost, ...], AfterValidator(_by_load)] = Field(
        default=(),
        description="The cost at several loads, in any order. With it, it can be said up to which "
        "load speculation pays.",
    )
    fixed_cost_ratio: Quantity = Field(
        default=0.0,
        description="What speculation costs a step however many tokens it drafts, relative to a decode step: "
        "a parallel drafter, an n-gram search, a lost overlap.",
    )
    running_requests: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = Field(
        default=None,
        description="The load at which the cost was measured. It then speaks only for loads between half and "
        "twice of that. Not with `loads`, which say it themselves.",
    )

    @property
    def ratio(self) -> float | None:
        """What one more draft token costs; None where that depends on the load."""
        if self.draft_parameters is not None and self.target_parameters is not None:
            return self.draft_parameters / self.target_parameters + self.verify_cost_ratio
        return self.draft_cost_ratio

    @model_validator(mode="after")
    def _in_one_way(self) -> Self:
        given = [key for key in _WAYS if getattr(self, key) not in (None, ())]
        if not given:
            raise ValueError(
                "does not say the cost; add `draft_cost_ratio`, `draft_parameters` with `target_parameters`, "
                "or `loads`"
            )
        mistakes = [*(list(_mixed(given)) or _alone(given)), *self._beside(given)]
        if mistakes:
            raise MistakesError(mistakes)
        return self

    def _beside(self, given: list[str]) -> Iterator[tuple[tuple[str], str]]:
        """Yield what is wrong with the keys that go with some of the ways only."""
        if self.verify_cost_ratio and not _PAIR.keys() & set(given):
            yield ("verify_cost_ratio",), f"is part of `{given[0]}` already; remove it"
        if self.running_requests is not None and "loads" in given:
            yield ("running_requests",), "cannot stand beside `loads`, which say it themselves; remove it"
        if given == list(_PAIR) and (self.draft_parameters or 0) > (self.target_parameters or 0):
            yield ("draft_parameters",), "is more than `target_parameters`; swap the two"


def _mixed(given: list[str]) -> Iterator[tuple[tuple[str], str]]:
    """Yield each key that says the cost in another way than the first one does."""
    first = given[0]
    for key in given:
        if _WAYS[key] != _WAYS[first]:
            yield (key,), f"is a second way to say the cost, beside `{first}`; remove one of the two"


def _alone(given: list[str]) -> Iterator[tuple[tuple[str], str]]:
    """Yield the number of parameters that has nothing to be compared with."""
    for key, other in _PAIR.items():
        if key in given and other not in given:
            yield (key,), f"says nothing alone: `{other}` is missing; add it"
