"""A state, a verdict and a recommendation as one plain sentence each, made of numbers and our own words."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from spec_decode_exporter.analysis.recommendation import Action
from spec_decode_exporter.analysis.speculation_state import State
from spec_decode_exporter.analysis.statistics.ratio_bounds import MIN_BOUND_REQUESTS, passing_requests
from spec_decode_exporter.analysis.verdict import Verdict
from spec_decode_exporter.core.number_formats import plural
from spec_decode_exporter.figures.acceptance import acceptance_length_tokens
from spec_decode_exporter.figures.decode_work import estimated_speedup_ratio
from spec_decode_exporter.figures.estimate import Estimate
from spec_decode_exporter.monitor.engine_monitor import EngineSnapshot
from spec_decode_exporter.window.ledger import Window

STATES: Final = {
    State.DISABLED: "The engine does not speculate.",
    State.IDLE: "Nothing is running, so nothing is drafted.",
    State.STALLED: "It drafted before, and does not now though it should.",
    State.UNREACHABLE: "The engine was not seen for too long: nobody knows.",
}
"""Of an engine that does not draft now; the page says the same."""

_PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9_.+-]{1,64}")

_VERDICTS: Final = {
    Verdict.OPTIMAL: "Speculation pays very well",
    Verdict.HEALTHY: "Speculation pays",
    Verdict.MARGINAL: "Speculation pays a little",
    Verdict.POOR: "Speculation hardly pays, if at all",
    Verdict.HARMFUL: "Speculation makes decoding slower",
}


def verdict_text(findings: EngineSnapshot) -> str:
    """Return the state, or else the verdict with the figure it rests on."""
    evaluation = findings.evaluation
    if evaluation.state in STATES:
        return STATES[evaluation.state]
    if evaluation.verdict is Verdict.INSUFFICIENT:
        return "Too little was drafted, or too unevenly, to say whether speculation pays."
    return f"{_VERDICTS[evaluation.verdict]}: {_figure(findings)}."


def _figure(findings: EngineSnapshot) -> str:
    """Say the speed-up or, where the cost is unknown, the acceptance length."""
    window, evaluation = findings.windows[-1], findings.evaluation
    bounds = evaluation.bounds[-1]
    speedup = None if evaluation.cost is None else estimated_speedup_ratio(window, evaluation.cost)
    if speedup is not None:
        return f"{speedup:.2f} times as fast as without it{_between(bounds.speedup, window)}"
    length = acceptance_length_tokens(window)
    return (
        f"a draft gives {length:.2f} tokens{_between(bounds.acceptance_length, window)}, at an unknown cost"
    )


def _between(estimate: Estimate | None, window: Window) -> str:
    if estimate is not None:
        return f" ({estimate.lower:.2f} to {estimate.upper:.2f})"
    requests = passing_requests(window)
    if requests is not None and requests < MIN_BOUND_REQUESTS:
        return " (too few requests passed to say how sure that is)"
    return " (how sure that is cannot be said)"


_COLLECT: Final = {
    State.DISABLED: "Nothing to advise: it does not speculate.",
    State.IDLE: "Nothing to advise: nothing runs.",
    State.UNREACHABLE: "Nothing to advise: it is not seen.",
}
_UNKNOWN: Final = "No advice: too little is known of how it drafts now."


def recommendation_text(findings: EngineSnapshot) -> str:
    """Return what to do."""
    return _RECOMMENDATIONS[findings.evaluation.action](findings)


def _keep(findings: EngineSnapshot) -> str:
    if not findings.tokens:
        return "Keep it as it is."
    return f"Keep drafting {plural(findings.tokens, 'token')} at a time."


def _increase(findings: EngineSnapshot) -> str:
    return _change(findings, "more")


def _decrease(findings: EngineSnapshot) -> str:
    return _change(findings, "fewer")


def _change(findings: EngineSnapshot, direction: str) -> str:
    """Name the number of tokens, as far as it is known; none is not to speculate."""
    best, now = findings.evaluation.recommended, findings.tokens
    if best is None:
        return f"Try {direction} draft tokens than {now} (num_speculative_tokens)."
    if not best.tokens:
        return "Try without speculation: no number of draft tokens pays."
    return f"Try {plural(best.tokens, 'token')} instead of {now} (num_speculative_tokens)."


def _limit_batch(findings: EngineSnapshot) -> str:
    crossover = findings.evaluation.crossover
    load = "few" if crossover is None else f"fewer than {crossover:.0f}"
    return f"Speculate only while {load} requests run (num_speculative_tokens_per_batch_size)."


def _switch_method(findings: EngineSnapshot) -> str:
    """Name the method; what a server calls it is left out where it may be more than a name."""
    faster = findings.evaluation.faster
    if faster is None:  # it was one a moment ago: advice does not change at once
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
    Action.COLLECT: lambda findings: _COLLECT.get(findings.evaluation.state, _UNKNOWN),
}
