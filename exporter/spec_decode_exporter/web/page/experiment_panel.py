"""Section of the page about experiments: arms side by side, the winner, or the reason why there is none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Final

from spec_decode_exporter.core.isolation import Isolation
from spec_decode_exporter.experiments.arm import SpeedupBasis
from spec_decode_exporter.experiments.traffic import Traffic
from spec_decode_exporter.views.document import Estimated
from spec_decode_exporter.views.experiment_view import ArmView, ArmWindowView, ExperimentView
from spec_decode_exporter.web.page.markup import Markup, joined, name, scrollable, tag
from spec_decode_exporter.web.page.page_numbers import NOTHING, between, duration, number, plain, times, whole
from spec_decode_exporter.web.page.words import NOT_SHOWN

_BASES: Final[Mapping[SpeedupBasis, str]] = {
    SpeedupBasis.TIME_PER_OUTPUT_TOKEN: "time per output token",
    SpeedupBasis.END_TO_END: "end-to-end time",
    SpeedupBasis.THROUGHPUT_PER_REQUEST: "throughput per request",
}
_TRAFFIC: Final[Mapping[Traffic, str]] = {
    Traffic.LOAD: "load",
    Traffic.PROMPT_TOKENS: "length of prompts",
    Traffic.OUTPUT_TOKENS: "length of answers",
    Traffic.PREFIX_CACHE: "work on prompts that the prefix cache lacks",
    Traffic.ACCEPTANCE: "inverse acceptance length",
    Traffic.REQUEST_TYPES: "time by its mix of request types",
}
_HEADS: Final = ("Arm", "Engines", "Requests", "Length", "First token", *map(str.capitalize, _BASES.values()))


def experiments(views: Sequence[ExperimentView], errors: Isolation) -> Markup:
    """Return a table of arms for each experiment; empty without experiments."""
    return joined(
        errors.attempt("page", {"experiment": view.experiment}, partial(_experiment, view))
        or tag("p", name(view.experiment), ": ", NOT_SHOWN, class_="error")
        for view in views
    )


def _experiment(view: ExperimentView) -> Markup:
    heads = (
        tag("th", title, scope="col", class_="number" if place else None)
        for place, title in enumerate(_HEADS)
    )
    rows = (_arm(arm, view.baseline) for arm in view.arms)
    table = tag("table", tag("thead", tag("tr", *heads)), tag("tbody", *rows), class_="targets")
    scope = joined(("speed-up over ", name(view.baseline), f", {_longest(view.arms[0]).window}"))
    title = tag("h3", name(view.experiment), " ", tag("small", scope))
    return tag(
        "div",
        title,
        scrollable(table, f"Arms of {view.experiment}"),
        _outcome(view),
        data_key=view.experiment,
    )


def _longest(arm: ArmView) -> ArmWindowView:
    return arm.windows[-1]


def _arm(arm: ArmView, baseline: str) -> Markup:
    window = _longest(arm)
    role = [tag("small", "baseline")] if arm.arm == baseline else []
    won = [tag("span", "winner", class_="remark recommended")] if any(arm.winner.values()) else []
    values = (
        str(window.engines),
        number(window.requests, whole),
        number(window.acceptance_length_tokens, plain),
        number(window.time_to_first_token_seconds.mean, duration),
        *(_speedup(window.speedup_ratio.get(basis)) for basis in _BASES),
    )
    cells = (
        tag("td", value, class_="number", data_label=head)
        for head, value in zip(_HEADS[1:], values, strict=True)
    )
    return tag("tr", tag("th", name(arm.arm), " ", *role, *won, scope="row"), *cells, data_key=arm.arm)


def _speedup(speedup: Estimated | None) -> Markup:
    if speedup is None:
        return NOTHING
    return joined((number(speedup.value, times), " ", between(speedup.lower, speedup.upper, times)))


def _outcome(view: ExperimentView) -> Markup:
    """Return the winner by each basis, or the reasons why there is none."""
    wins = [
        joined((name(arm.arm), f" is the fastest by {text}. "))
        for basis, text in _BASES.items()
        for arm in view.arms
        if arm.winner.get(basis)
    ]
    if wins:
        return tag("p", tag("strong", "Winner: "), *wins, class_="note")
    return tag("p", tag("strong", "No winner: "), *_reasons(view), class_="note")


def _reasons(view: ExperimentView) -> Iterator[Markup]:
    """Yield a sentence about each arm, by its longest window."""
    for arm in view.arms:
        window = _longest(arm)
        if not window.engines:
            yield joined((name(arm.arm), " has no engine. "))
        elif arm.arm != view.baseline:
            yield joined((name(arm.arm), f" {_reason(window)}. "))


def _reason(window: ArmWindowView) -> str:
    speedups = window.speedup_ratio.values()
    explained = next((part for each in speedups if (part := each.reason) is not None), None)
    if explained is not None:
        return _explained(explained, window.traffic_ratio.get(explained))
    if not speedups:
        return "has no speed-up yet: too little data in it or in the baseline"
    bounded = [each for each in speedups if each.lower is not None and each.upper is not None]
    if not bounded:
        return "has no bounds yet: too few requests"
    if all(
        each.lower <= 1 <= each.upper for each in bounded if each.lower is not None and each.upper is not None
    ):
        return "is neither faster nor slower, statistically significant (95 %)"
    return "needs the same result for a whole longest window"


def _explained(part: Traffic, ratio: float | None) -> str:
    """Return the part of the traffic that may explain the speed-up, and the remedy."""
    amount = "has an unknown ratio to" if ratio is None else f"is {times(ratio)}"
    return (
        f"may owe its speed to its traffic: its {_TRAFFIC[part]} {amount} the baseline's; balance the arms "
        "by round robin"
    )
