"""Documents of a window: one field for each row of the figure table, with the description of the row."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field, InstanceOf, computed_field

from spec_decode_exporter.analysis.end_to_end import EndToEndBasis
from spec_decode_exporter.analysis.figure_table import FIGURES, Figure
from spec_decode_exporter.analysis.window_evaluation import WindowEvaluation
from spec_decode_exporter.figures.quantile import SPREAD_QUANTILES
from spec_decode_exporter.views.document import Estimated, View, at, estimated, fact
from spec_decode_exporter.window.poll import Counters


# fmt: off
class EndToEndView(Estimated):
    """Speed of whole requests relative to no speculation: time to first token and decoding."""

    lower: float | None = at("Null if its bounds are unknown.", "bounds.lower", default=None)
    upper: float | None = at("Null exactly if `lower` is null.", "bounds.upper", default=None)
    basis: EndToEndBasis = at("Time to first token without speculation: that of a baseline, or the same as with it.")


class CountsView(View):
    """Increases of the engine's counters. A counter that the engine does not have is null."""

    drafts: int | None = at("Drafts.")
    draft_tokens: int | None = at("Draft tokens.")
    accepted_tokens: int | None = at("Accepted draft tokens.")
    position_accepted_tokens: tuple[int, ...] = at("Accepted draft tokens at each of the K draft positions; empty if K is unknown or 0.")
    generation_tokens: int | None = at("Generated tokens.")
    first_tokens: int | None = at("First tokens of requests, which no decode step gives.")
    decode_steps: int | None = at("Decode steps, counted once for each running request.")
    decode_nanoseconds: int | None = at("Time that requests spent in decode steps.")
    first_token_nanoseconds: int | None = at("Time until the first tokens of requests, time in the queue included.")
    preemptions: int | None = at("Preemptions.")
    prefix_cache_queries: int | None = at("Prompt tokens looked up in the prefix cache.")
    prefix_cache_hits: int | None = at("Prompt tokens that the prefix cache held.")

# fmt: on


def counts(total: Counters[int] | Counters[int | None], positions: Sequence[int]) -> dict[str, Any]:
    """Return the fields of ``CountsView``."""
    known = total._asdict()
    named = {name: known[name] for name in CountsView.model_fields if name in known}
    return {**named, "position_accepted_tokens": tuple(positions)}


# fmt: off
class SpreadView(View):
    """Spread of the acceptance rate over the polls of a window. Over polls, not over requests."""

    p10: float = at("The 10th percentile, weighted by draft tokens.")
    p50: float = at("The median.")
    p90: float = at("The 90th percentile.")
    min: float = at("The lowest rate of a poll.")
    max: float = at("The highest rate of a poll.")
    stddev: float = at("The standard deviation.")

# fmt: on


class _Window(View):
    """A window: every number is computed from its `counts`, none is smoothed."""

    its: Annotated[InstanceOf[WindowEvaluation], Field(exclude=True)]

    @fact
    def window(self) -> str:
        """Name and length of the window, as in the label `window`: `30s`, `5m`."""
        return self.its.label

    @fact
    def seconds(self) -> float:
        """Time that the window covers."""
        return self.its.window.seconds

    @fact
    def polls(self) -> int:
        """Number of increments that the window sums."""
        return self.its.window.polls

    @fact
    def partial(self) -> bool:
        """Whether it covers too little for bounds, verdict and recommendation."""
        return self.its.is_partial

    @fact
    def counts(self) -> CountsView:
        """Increases of the engine's counters."""
        return CountsView(**counts(self.its.total, self.its.window.positions))

    @fact
    def end_to_end_speedup_ratio(self) -> EndToEndView | None:
        """Null without a speed-up, or without times to first token: decode only."""
        return None if self.its.request is None else EndToEndView.of(self.its.request)

    @fact
    def interval_acceptance_ratio(self) -> SpreadView | None:
        """Null without draft tokens."""
        rates = self.its.poll_rates
        if not rates:
            return None
        quantiles = {name: self.its.poll_rate_quantile(share) for name, share in SPREAD_QUANTILES}
        return SpreadView(**quantiles, min=rates[0][0], max=rates[-1][0], stddev=self.its.poll_rate_deviation)


def figure_field(figure: Figure, read: Callable[[Any], object], type_: object, note: str = "") -> Any:  # noqa: ANN401
    """Return the field of a figure, which ``read`` returns of the document."""
    return computed_field(return_type=type_, description=f"{figure.help}{note}")(cached_property(read))


def _figures() -> Iterator[tuple[str, Any]]:
    """Yield the fields of the figures, in the order of the table."""
    for figure in FIGURES:
        yield figure.key, figure_field(figure, *_reader(figure))


def _reader(figure: Figure) -> tuple[Callable[[Any], object], object]:
    each, bounds = figure.each, figure.bounds
    if each is not None:
        return lambda window: tuple(each(window.its)), tuple[float | None, ...]
    if bounds is not None:
        return lambda window: estimated(figure.of(window.its), bounds(window.its)), Estimated
    return lambda window: figure.of(window.its), float | None


if TYPE_CHECKING:
    # Fields that the package reads by name. A figure that only tables show needs none here.
    class WindowView(_Window):
        """A window: every number is computed from its `counts`, none is smoothed."""

        draft_acceptance_ratio: Estimated = at("")
        acceptance_length_tokens: Estimated = at("")
        estimated_speedup_ratio: Estimated = at("")
        speedup_ceiling_ratio: float | None = at("")
        break_even_acceptance_ratio: float | None = at("")
        position_acceptance_ratio: tuple[float | None, ...] = at("")
        position_conditional_acceptance_ratio: tuple[float | None, ...] = at("")
        accepted_length_ratio: tuple[float | None, ...] = at("")
        coverage_ratio: float | None = at("")
        effective_tokens_per_step: float | None = at("")
        generation_tokens_per_second: float | None = at("")
        time_per_output_token_seconds: float | None = at("")
        running_requests: float | None = at("")
        waiting_requests: float | None = at("")
        prefix_cache_hit_ratio: float | None = at("")
        time_to_first_token_seconds: float | None = at("")

else:
    WindowView = type(
        "WindowView", (_Window,), {**dict(_figures()), "__doc__": _Window.__doc__, "__module__": __name__}
    )
