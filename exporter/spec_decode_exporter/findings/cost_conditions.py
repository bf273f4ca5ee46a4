"""Conditions of findings about cost, depth and method. Each returns the finding's numbers, or None."""

from __future__ import annotations

from spec_decode_exporter.analysis.cost import Cost, is_near
from spec_decode_exporter.analysis.cost_curve import UNSTATED_LOAD
from spec_decode_exporter.analysis.cost_source import CostSource
from spec_decode_exporter.analysis.depth import depths, pays, present_depth
from spec_decode_exporter.findings.finding_context import FindingContext, Values
from spec_decode_exporter.analysis.recommendation import is_above, is_change
from spec_decode_exporter.analysis.speculation_state import State
from spec_decode_exporter.analysis.verdict import Verdict
from spec_decode_exporter.figures.decode_work import break_even_cost_ratio


def another_depth(context: FindingContext) -> Values | None:
    """Condition: another number of tokens is recommended, and is fast enough to be worth a change."""
    window, cost, depth = context.window, context.cost, context.depth
    present = None if cost is None else present_depth(window, cost)
    if depth is None or present is None:
        return None
    if not is_change(window, context.verdict, cost, depth, context.policy.depth.tolerance):
        return None
    return {
        "tokens": present.tokens,
        "recommended_tokens": depth.tokens,
        "speedup": depth.speedup,
        "present_speedup": present.speedup,
    }


def no_depth_pays(context: FindingContext) -> Values | None:
    """Condition: no number of draft tokens is faster than none, even at the lowest cost."""
    cost, window = context.cost, context.window
    if cost is None or context.depth is None or context.depth.tokens:
        return None
    if any(pays(window, cost.low, depth.tokens) for depth in depths(window, cost.low)):
        return None
    return {"draft_cost": cost.low.draft_cost_ratio, "fixed_cost": cost.low.fixed_cost_ratio}


def above_crossover(context: FindingContext) -> Values | None:
    """Condition: more requests run than speculation pays for."""
    running, crossover = context.running, context.crossover
    if running is None or crossover is None or not is_above(crossover, context.window):
        return None
    return {"running": running, "crossover": crossover}


def unclear_cost(context: FindingContext) -> Values | None:
    """Condition: whether speculation pays depends on a cost that is not known well enough."""
    cost, speedup, even = context.assumed_cost, context.speedup, context.break_even_cost
    if context.verdict is not Verdict.UNCLEAR or cost is None or speedup is None:
        return None
    value = break_even_cost_ratio(context.window, cost) if even is None else even.value
    if value is None:
        return None
    return {
        "lower": speedup.estimate.lower,
        "upper": speedup.estimate.upper,
        "break_even": max(value, 0.0),
        **_interval(cost),
    }


def unknown_cost(context: FindingContext) -> Values | None:
    """Condition: the cost is unknown, and the verdict is that at the cost of any drafter."""
    assumed = context.assumed_cost
    if context.cost is not None or assumed is None or context.state is State.DISABLED:
        return None
    return _interval(assumed)


def typical_cost(context: FindingContext) -> Values | None:
    """Condition: the cost is the method's typical one."""
    cost = context.cost
    if cost is None or cost.source is not CostSource.TYPICAL:
        return None
    return {**_interval(cost), "fixed_cost": cost.fixed_cost_ratio}


def cost_without_load(context: FindingContext) -> Values | None:
    """Condition: the configuration states a cost without its load."""
    settings, running = context.cost_settings, context.running
    if settings is None or settings.draft_cost_ratio is None or settings.running_requests is not None:
        return None
    if running is None or context.cost is None or is_near(UNSTATED_LOAD, running):
        return None
    return {"running": running, "assumed_load": UNSTATED_LOAD, **_interval(context.cost)}


def cost_out_of_range(context: FindingContext) -> Values | None:
    """Condition: the cost is known for another load than the present one."""
    cost, running = context.cost, context.running
    if cost is None or cost.running_requests is None or running is None or cost.speaks_for(running):
        return None
    if cost_without_load(context) is not None:
        return None
    return {"running": running, "known_at": cost.running_requests, **_interval(cost)}


def _interval(cost: Cost) -> Values:
    return {"lowest_cost": cost.low.draft_cost_ratio, "highest_cost": cost.high.draft_cost_ratio}


def faster_method(context: FindingContext) -> Values | None:
    """Condition: another arm of an experiment uses another method and is significantly faster (95 %)."""
    faster = context.faster
    if faster is None:
        return None
    return {
        "speedup": faster.speedup.value,
        "speedup_lower": faster.speedup.lower,
        "own_speedup": faster.own.value,
        "own_speedup_upper": faster.own.upper,
    }
