"""JSON models of a window: the fields of its figures come from the figure table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field, create_model

from spec_decode_exporter.analysis.end_to_end import EndToEndBasis
from spec_decode_exporter.figures.figure import Figure, GroupSum, ListFigure
from spec_decode_exporter.figures.table import shown


class View(BaseModel):
    """Base of all models: frozen, without unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Estimated(View):
    """A value with its 95 % bounds."""

    value: float | None = Field(description="Null if the window has no counts to compute it from.")
    lower: float | None = Field(description="Null if too few requests pass through the window for bounds.")
    upper: float | None = Field(description="Null exactly if `lower` is null.")


class EndToEndView(Estimated):
    """Speed of whole requests relative to no speculation: time to first token and decoding."""

    basis: EndToEndBasis = Field(
        description="Time to first token without speculation: that of a baseline, or the same as with it."
    )


class CountsView(View):
    """Increases of the engine's counters. A counter that the engine does not have is null."""

    drafts: int | None = Field(description="Drafts.")
    draft_tokens: int | None = Field(description="Draft tokens.")
    accepted_tokens: int | None = Field(description="Accepted draft tokens.")
    position_accepted_tokens: tuple[int, ...] = Field(
        description="Accepted draft tokens at each of the K draft positions; empty if K is unknown or 0."
    )
    generation_tokens: int | None = Field(description="Generated tokens.")
    first_tokens: int | None = Field(description="First tokens of requests, which no decode step gives.")
    decode_steps: int | None = Field(description="Decode steps, counted once for each running request.")
    decode_nanoseconds: int | None = Field(description="Time that requests spent in decode steps.")
    first_token_nanoseconds: int | None = Field(
        description="Time until the first tokens of requests, time in the queue included."
    )
    preemptions: int | None = Field(description="Preemptions.")
    prefix_cache_queries: int | None = Field(description="Prompt tokens looked up in the prefix cache.")
    prefix_cache_hits: int | None = Field(description="Prompt tokens that the prefix cache held.")


class SpreadView(View):
    """Spread of the acceptance rate over the polls of a window. Over polls, not over requests."""

    p10: float = Field(description="The 10th percentile, weighted by draft tokens.")
    p50: float = Field(description="The median.")
    p90: float = Field(description="The 90th percentile.")
    min: float = Field(description="The lowest rate of a poll.")
    max: float = Field(description="The highest rate of a poll.")
    stddev: float = Field(description="The standard deviation.")


class WindowHeadView(View):
    """Length and counts of a window."""

    window: str = Field(description="Name and length of the window, as in the label `window`: `30s`, `5m`.")
    seconds: float = Field(description="Time that the window covers.")
    polls: int = Field(description="Number of increments that the window sums.")
    partial: bool = Field(description="Whether it covers too little for bounds, verdict and recommendation.")
    counts: CountsView


class GroupWindowHeadView(View):
    """Size and counts of a group's window."""

    window: str = Field(description="Name and length of the window, as in the label `window`.")
    engines: int = Field(description="Number of its engines with this window: those polled recently.")
    counts: CountsView = Field(
        description="Sums over the engines that have the counter; those of positions only of equal K."
    )


def _type_of(figure: Figure) -> object:
    if isinstance(figure, ListFigure):
        return tuple[float | None, ...]
    return Estimated if figure.bounds is not None else float | None


def _window_fields() -> dict[str, Any]:
    """Return the fields of the figures, in the order of the table, and those computed beside it."""
    return {
        **{figure.key: (_type_of(figure), Field(description=figure.description)) for figure in shown()},
        "end_to_end_speedup_ratio": (
            EndToEndView | None,
            Field(description="Null without a speed-up, or without times to first token: decode only."),
        ),
        "interval_acceptance_ratio": (SpreadView | None, Field(description="Null without draft tokens.")),
    }


def _group_fields() -> dict[str, Any]:
    """Return the fields of a group's figures: ratios of sums first, then sums."""
    fields = {}
    for computation in GroupSum:
        for figure in shown():
            if figure.in_groups is computation:
                is_list = isinstance(figure, ListFigure)
                note = " Empty if K differs." if is_list else ""
                note = " Sum over the engines." if computation is GroupSum.SUM else note
                type_ = tuple[float | None, ...] if is_list else float | None
                fields[figure.key] = (type_, Field(description=f"{figure.description}{note}"))
    return fields


if TYPE_CHECKING:
    # Fields that the package reads by name. A figure that only tables show needs none here.
    class WindowView(WindowHeadView):
        """A window: every number is computed from its `counts`, none is smoothed."""

        draft_acceptance_ratio: Estimated
        acceptance_length_tokens: Estimated
        estimated_speedup_ratio: Estimated
        speedup_ceiling_ratio: float | None
        break_even_acceptance_ratio: float | None
        position_acceptance_ratio: tuple[float | None, ...]
        position_conditional_acceptance_ratio: tuple[float | None, ...]
        accepted_length_ratio: tuple[float | None, ...]
        coverage_ratio: float | None
        effective_tokens_per_step: float | None
        draft_tokens_per_second: float | None
        accepted_tokens_per_second: float | None
        rejected_tokens_per_second: float | None
        generation_tokens_per_second: float | None
        time_per_output_token_seconds: float | None
        running_requests: float | None
        waiting_requests: float | None
        prefix_cache_hit_ratio: float | None
        time_to_first_token_seconds: float | None
        end_to_end_speedup_ratio: EndToEndView | None
        interval_acceptance_ratio: SpreadView | None

    class GroupWindowView(GroupWindowHeadView):
        """A window of a group of engines. Ratios are ratios of sums, of engines with both counters."""

else:
    WindowView = create_model(
        "WindowView",
        __base__=WindowHeadView,
        __doc__="A window: every number is computed from its `counts`, none is smoothed.",
        __module__=__name__,
        **_window_fields(),
    )
    GroupWindowView = create_model(
        "GroupWindowView",
        __base__=GroupWindowHeadView,
        __doc__="A window of a group of engines. Ratios are ratios of sums, of engines with both counters.",
        __module__=__name__,
        **_group_fields(),
    )
