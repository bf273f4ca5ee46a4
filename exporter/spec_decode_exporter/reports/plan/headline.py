"""The first lines of a plan: whether it fits, and whether it pays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from spec_decode_exporter.reports.parts import Tone
from spec_decode_exporter.reports.plan import plan_text
from spec_decode_exporter.reports.plan.deployment_plan import DeploymentPlan, PlanOutcome
from spec_decode_exporter.reports.plan.memory_sizes import gigabytes
from spec_decode_exporter.reports.plan.remedy import remedy

WORDS: Final[Mapping[PlanOutcome, tuple[str, Tone]]] = {
    PlanOutcome.FITS: ("fits", Tone.GOOD),
    PlanOutcome.TIGHT: ("tight", Tone.FAIR),
    PlanOutcome.WEIGHTS_FIT: ("weights fit", Tone.FAIR),
    PlanOutcome.DOES_NOT_FIT: ("does not fit", Tone.BAD),
    PlanOutcome.REFUSED: ("refused", Tone.BAD),
}


def word(plan: DeploymentPlan) -> tuple[str, Tone]:
    """Return the outcome in a word; what fits and pays nowhere is only fair."""
    found, tone = WORDS[plan.outcome]
    return found, Tone.FAIR if tone is Tone.GOOD and not plan.best_tokens else tone


def verdict(plan: DeploymentPlan) -> str:
    """Return what there is room for, in a sentence."""
    return _VERDICTS.get(plan.outcome, _has_room)(plan)


def advice(plan: DeploymentPlan) -> str:
    """Return what would make it fit, or from which acceptance on it pays and with how many tokens."""
    if plan.outcome is PlanOutcome.DOES_NOT_FIT:
        return remedy(plan)
    return " ".join(sentence for sentence in (_pays(plan), _needed(plan), _best(plan)) if sentence)


def _has_room(plan: DeploymentPlan) -> str:
    room, wanted = plan.drafting, plan.wanted
    cache = f"{gigabytes(room.cache_bytes)} are left for the KV cache"
    if room.sequences is None:
        return f"{cache}. Whether a sequence of {wanted.context:,} tokens fits is not known."
    return f"{cache}: {plan_text.sequences(room.sequences)} of {wanted.context:,} tokens."


def _lacks_room(plan: DeploymentPlan) -> str:
    if plan.drafting.cache_bytes > 0:
        return f"Not one sequence of {plan.wanted.context:,} tokens fits beside the weights."
    return f"The weights and the overhead are {gigabytes(-plan.drafting.cache_bytes)} too large."


_VERDICTS: Final[Mapping[PlanOutcome, Callable[[DeploymentPlan], str]]] = {
    PlanOutcome.DOES_NOT_FIT: _lacks_room,
    PlanOutcome.REFUSED: lambda plan: plan.refusals[0],
}


def _pays(plan: DeploymentPlan) -> str:
    """Return that it does not, where at this acceptance it does not."""
    depth, wanted = plan.depth, plan.wanted
    if depth.break_even_token_acceptance is None:
        return f"With {plan_text.tokens(wanted.tokens)} it never pays."
    at = plan_text.acceptance(wanted)
    if not plan.best_tokens:
        slow = f"{depth.speedup:.2f} times as fast with {wanted.tokens}"
        return f"At {at} no number of tokens pays: {slow}."
    if depth.speedup < 1:
        return f"At {at}, {plan_text.tokens(wanted.tokens)} do not pay: {depth.speedup:.2f} times as fast."
    return ""


def _needed(plan: DeploymentPlan) -> str:
    least = plan.depth.break_even_token_acceptance
    if least is None:
        return ""
    rate = plan_text.accepted_at(least, plan.wanted.tokens)
    return f"It pays where more than {rate:.3f} of the draft tokens are accepted."


def _best(plan: DeploymentPlan) -> str:
    if plan.best_tokens in (0, plan.wanted.tokens):
        return ""
    return f"Best at {plan_text.tokens(plan.best_tokens)}."
