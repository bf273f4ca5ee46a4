"""Conditions of findings about cost, depth and method. Each returns the finding's numbers, or None."""

from __future__ import annotations

from spec_decode_exporter.analysis.cost_source import CostSource
from spec_decode_exporter.analysis.depth import present_depth
from spec_decode_exporter.analysis.finding_context import FindingContext, Values
from spec_decode_exporter.analysis.recommendation import is_above, is_change


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
    """Condition: no number of draft tokens is faster than no speculation."""
    cost = context.cost
    if cost is None or context.depth is None or context.depth.tokens:
        return None
    return {"draft_cost": cost.draft_cost_ratio, "fixed_cost": cost.fixed_cost_ratio}


def above_crossover(context: FindingContext) -> Values | None:
    """Condition: more requests run than speculation pays for."""
    running, crossover = context.running, context.crossover
    if running is None or crossover is None or not is_above(crossover, context.window):
        return None
    return {"running": running, "crossover": crossover}


def default_cost(context: FindingContext) -> Values | None:
    """Condition: the cost is the method's typical one."""
    cost = context.cost
    if cost is None or cost.source is not CostSource.TYPICAL:
        return None
    return {"draft_cost": cost.draft_cost_ratio, "fixed_cost": cost.fixed_cost_ratio}


def cost_out_of_range(context: FindingContext) -> Values | None:
    """Condition: the cost is known for another load than the present one."""
    cost, running = context.cost, context.running
    if cost is None or cost.running_requests is None or running is None or cost.speaks_for(running):
        return None
    return {"running": running, "known_at": cost.running_requests}


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
