"""Write a state, a verdict and a recommendation as one plain sentence each."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from spec_decode_exporter.analysis.cost_source import CostSource
from spec_decode_exporter.analysis.end_to_end import EndToEndBasis
from spec_decode_exporter.analysis.evaluation import Evaluation
from spec_decode_exporter.analysis.recommendation import Action
from spec_decode_exporter.analysis.speculation_state import State
from spec_decode_exporter.analysis.statistics.ratio_bounds import MIN_BOUND_REQUESTS, effective_requests
from spec_decode_exporter.analysis.verdict import Verdict
from spec_decode_exporter.core.number_formats import plural
from spec_decode_exporter.figures.estimate import Estimate
from spec_decode_exporter.monitor.engine_monitor import EngineSnapshot
from spec_decode_exporter.window.ledger import Window

STATES: Final = {
    State.DISABLED: "The engine does not speculate.",
    State.IDLE: "Nothing is running, so nothing is drafted.",
    State.STALLED: "It drafted before, and does not now though it should.",
    State.UNREACHABLE: "The engine was absent for too long: its state is unknown.",
}
"""Sentences about an engine that does not draft now; the page uses them too."""

BASES: Final[Mapping[EndToEndBasis, str]] = {
    EndToEndBasis.SAME_FIRST_TOKEN: "with the same first token",
    EndToEndBasis.BASELINE: "against the baseline",
}
"""Meanings of the speed-up of a request, by its basis."""

_PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9_.+-]{1,64}")

_VERDICTS: Final = {
    Verdict.OPTIMAL: "Speculation pays very well",
    Verdict.HEALTHY: "Speculation pays",
    Verdict.MARGINAL: "Speculation pays a little",
    Verdict.POOR: "Speculation hardly pays, if at all",
    Verdict.HARMFUL: "Speculation makes decoding slower",
}

_SOURCES: Final = {
    CostSource.EXPERIMENT: "by the experiment's step times",
    CostSource.MEASURED: "measured on this engine",
    CostSource.BASELINE: "by its step times without speculation",
    CostSource.IMPORTED: "imported",
    CostSource.CONFIGURED: "configured",
    CostSource.SIZES: "by the sizes of the models",
    CostSource.TYPICAL: "typical of the method",
}


_SLOWER_REQUESTS: Final = "Speculation makes requests slower"
"""Statement for ``poor`` if whole requests are significantly slower (95 %) than a baseline."""


def verdict_text(snapshot: EngineSnapshot) -> str:
    """Return the state, or else the verdict with its figure."""
    evaluation = snapshot.evaluation
    if evaluation.state in STATES:
        return STATES[evaluation.state]
    if evaluation.verdict is Verdict.INSUFFICIENT:
        return "Too little was drafted, or too unevenly, to say whether speculation pays."
    if evaluation.verdict is Verdict.UNCLEAR:
        return _unclear(snapshot)
    return f"{_statement(evaluation)}: {_figure(snapshot)}."


def _statement(evaluation: Evaluation) -> str:
    request = evaluation.request
    if evaluation.verdict is Verdict.POOR and request is not None and request.is_slower:
        return _SLOWER_REQUESTS
    return _VERDICTS[evaluation.verdict]


def _unclear(snapshot: EngineSnapshot) -> str:
    """Write the bounds of the speed-up, and the cost below which speculation pays."""
    speedup, even = snapshot.evaluation.speedup, snapshot.figures[-1].value("break_even_cost_ratio")
    parts = ["Whether speculation pays depends on its cost:"]
    if speedup is not None:
        bounds = speedup.estimate
        parts.append(f"{bounds.lower:.2f} to {bounds.upper:.2f} times as fast.")
    if even is not None:
        parts.append(f"It pays if a draft token costs less than {max(even, 0.0):.2g} of a decode step")
    return f"{' '.join(parts)}{_assumed(snapshot)}"


def _assumed(snapshot: EngineSnapshot) -> str:
    cost = snapshot.evaluation.cost
    if cost is None:
        return "; what it costs is unknown."
    span = f"{cost.low.draft_cost_ratio:.2g} to {cost.high.draft_cost_ratio:.2g}"
    return f"; it costs {span} here ({_SOURCES[cost.source]})."


def _figure(snapshot: EngineSnapshot) -> str:
    """Write the speed-up of a request and of decoding or, if the cost is unknown, the tokens of a step."""
    figures = snapshot.figures[-1]
    speedup, tokens = (figures.value(key) for key in ("estimated_speedup_ratio", "speedup_ceiling_ratio"))
    request = snapshot.evaluation.request
    if speedup is not None and request is not None:
        span = _between(request.bounds, figures.window)
        whole = f"a request is {request.value:.2f} times as fast as without it{span}"
        return f"{whole}; decoding {speedup:.2f} times"
    if speedup is not None:
        span = _between(figures.estimate("estimated_speedup_ratio"), figures.window)
        return f"{speedup:.2f} times as fast as without it{span}, decode only"
    return f"a decode step gives {tokens:.2f} tokens, at an unknown cost of drafting"


def _between(estimate: Estimate | None, window: Window) -> str:
    if estimate is not None:
        return f" ({estimate.lower:.2f} to {estimate.upper:.2f})"
    requests = effective_requests(window)
    if requests is not None and requests < MIN_BOUND_REQUESTS:
        return " (too few requests passed for bounds)"
    return " (its bounds are unknown)"


_COLLECT: Final = {
    State.DISABLED: "Nothing to advise: it does not speculate.",
    State.IDLE: "Nothing to advise: nothing runs.",
    State.UNREACHABLE: "Nothing to advise: it is absent.",
}
_UNKNOWN: Final = "No advice: too little is known of its present drafts."


def recommendation_text(snapshot: EngineSnapshot) -> str:
    """Return the recommended action in one sentence."""
    return _RECOMMENDATIONS[snapshot.evaluation.action](snapshot)


def _keep(snapshot: EngineSnapshot) -> str:
    if not snapshot.tokens:
        return "Keep it as it is."
    return f"Keep drafting {plural(snapshot.tokens, 'token')} at a time."


def _increase(snapshot: EngineSnapshot) -> str:
    return _change(snapshot, "more")


def _decrease(snapshot: EngineSnapshot) -> str:
    return _change(snapshot, "fewer")


def _change(snapshot: EngineSnapshot, direction: str) -> str:
    """Name the recommended number of tokens, if it is known; 0 is no speculation."""
    best, now = snapshot.evaluation.recommended, snapshot.tokens
    if best is None:
        return f"Try {direction} draft tokens than {now} (num_speculative_tokens)."
    if not best.tokens:
        return "Try without speculation: no number of draft tokens pays."
    return f"Try {plural(best.tokens, 'token')} instead of {now} (num_speculative_tokens)."


def _limit_batch(snapshot: EngineSnapshot) -> str:
    crossover = snapshot.evaluation.crossover
    load = "few" if crossover is None else f"fewer than {crossover:.0f}"
    return f"Speculate only while {load} requests run (num_speculative_tokens_per_batch_size)."


def _switch_method(snapshot: EngineSnapshot) -> str:
    """Name the faster method; omit the server's name of it if it is not a plain name."""
    faster = snapshot.evaluation.faster
    if faster is None:  # there was one a moment ago: advice changes only after a whole window
        return "Draft by the faster method of the other engine that serves this model."
    arm = f"arm `{faster.arm}` of experiment `{faster.experiment}`"
    if _PLAIN_NAME.fullmatch(faster.method):
        return f"Draft by {faster.method}, as {arm} does."
    return f"Draft by the method of {arm}."


_RECOMMENDATIONS: Final[Mapping[Action, Callable[[EngineSnapshot], str]]] = {
    Action.KEEP: _keep,
    Action.INCREASE: _increase,
    Action.DECREASE: _decrease,
    Action.DISABLE: lambda _: "Switch speculation off: no number of draft tokens is known to pay.",
    Action.LIMIT_BATCH: _limit_batch,
    Action.SWITCH_METHOD: _switch_method,
    Action.MEASURE_COST: lambda _: (
        "Measure the cost of drafting first: the findings list how, cheapest first."
    ),
    Action.COLLECT: lambda snapshot: _COLLECT.get(snapshot.evaluation.state, _UNKNOWN),
}
