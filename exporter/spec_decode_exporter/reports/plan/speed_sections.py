"""The sections of a plan about speed: what drafting costs, how many tokens to draft, and the return."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from spec_decode_exporter.core import number_formats as numbers
from spec_decode_exporter.reports.parts import Bar, Chart, Figure, Note, Part
from spec_decode_exporter.reports.plan import plan_text
from spec_decode_exporter.reports.plan.deployment_plan import DeploymentPlan, PlanOutcome
from spec_decode_exporter.reports.plan.draft_method import SEARCHES
from spec_decode_exporter.reports.plan.memory_sizes import gigabytes
from spec_decode_exporter.reports.plan.payoff import Payoff
from spec_decode_exporter.reports.plan.planned_cost import CostBasis

_BASES: Final[Mapping[CostBasis, str]] = {
    CostBasis.GIVEN: "It is as it was given.",
    CostBasis.MEASURED: "It is what the observation says.",
    CostBasis.ESTIMATED: "An estimate by the bytes that a step reads, weights and KV cache. Measure it: "
    "spec-decode-exporter observe.",
    CostBasis.ESTIMATED_BY_WEIGHTS: "An estimate by the weights alone. Measure it: "
    "spec-decode-exporter observe.",
}


_SHORTER: Final = 0.005
"""Tokens by which drafts are shorter than asked for where two digits show it."""


def cost(plan: DeploymentPlan) -> Iterator[Part]:
    """Yield what drafting costs, and what that rests on."""
    found, reading = plan.costs.at(plan.wanted.tokens), plan.costs.reading
    yield Figure(
        "a draft token",
        f"{found.draft_cost_ratio:.3f}",
        "",
        f"plain decode steps, at {plan_text.sequences(reading.batch)}",
    )
    yield Figure("a draft", f"{found.fixed_cost_ratio:.3f}", "", "besides, however many tokens it has")
    if plan.depth.break_even_token_acceptance is not None:
        yield Figure(
            "break-even", numbers.share(plan.depth.break_even_token_acceptance), "", "acceptance of a token"
        )
    if (
        plan.costs.basis in (CostBasis.ESTIMATED, CostBasis.ESTIMATED_BY_WEIGHTS)
        and plan.wanted.method in SEARCHES
    ):
        yield Note("What verifying and searching usually cost; nothing is drafted by a model.")
    else:
        yield Note(_BASES[plan.costs.basis])


def depths(plan: DeploymentPlan) -> Iterator[Part]:
    """Yield the table over the number of draft tokens, and what it assumes."""
    most = max(1.0, *(depth.speedup for depth in plan.depths))
    rows = [Bar("0", 1 / most, ("1.00", "", ""), _remark(plan, 0), marked=plan.best_tokens == 0)]
    rows += [
        Bar(
            str(depth.tokens),
            depth.speedup / most,
            (
                numbers.plain(depth.speedup),
                f"{plan.drafts.rate(depth.tokens):.3f}",
                _needed(depth.break_even_token_acceptance, depth.tokens),
            ),
            _remark(plan, depth.tokens),
            marked=depth.tokens == plan.best_tokens,
            guessed=plan.wanted.measured is not None and not depth.measured,
        )
        for depth in plan.depths
    ]
    yield Chart("draft tokens", ("speed-up", "rate", "needed"), tuple(rows))
    yield Note(_assumption(plan))
    yield Note(
        "Rate: the share of the draft tokens that is accepted then. Needed: the rate at which it pays."
    )
    seen = plan.wanted.measured
    if seen is not None and seen.draft_length < seen.tokens - _SHORTER:
        yield Note(
            f"Both are of as many tokens as are asked for. Drafts had {seen.draft_length:.2f} in the mean, "
            f"so that the counters show {seen.acceptance:.3f} at {seen.tokens}."
        )


def _needed(token_acceptance: float | None, tokens: int) -> str:
    return (
        numbers.ABSENT
        if token_acceptance is None
        else numbers.share(plan_text.accepted_at(token_acceptance, tokens))
    )


def _assumption(plan: DeploymentPlan) -> str:
    if plan.wanted.measured is not None:
        return (
            f"Accepted as in the observation, of {plan_text.tokens(plan.wanted.measured.tokens)} at a time."
        )
    known = f"If each token is accepted with {plan.wanted.acceptance:g}, given those before it (--acceptance)"
    if plan.wanted.method in SEARCHES:
        return (
            f"{known}, and every step finds a draft. A search finds one in a part of the steps only, often "
            "in half of them or fewer: what yours finds only a test shows."
        )
    return f"{known}. What yours accepts only a test shows."


def _remark(plan: DeploymentPlan, tokens: int) -> str:
    remarks = {
        "no speculation": tokens == 0,
        "planned": tokens == plan.wanted.tokens,
        "best": tokens == plan.best_tokens,
        "extrapolated": plan.wanted.measured is not None and tokens > plan.drafts.measured,
    }
    return ", ".join(remark for remark, holds in remarks.items() if holds)


def payoff(plan: DeploymentPlan) -> Iterator[Part]:
    """Yield what drafting gains for the memory that it takes; nothing where no throughput is known."""
    found = plan.payoff
    if found is None:
        return
    seen = f"as {'observed' if found.measured else 'estimated'}, with {plan_text.tokens(found.tokens)}"
    span = "" if found.lower is None or found.upper is None else f"{found.lower:.2f} to {found.upper:.2f}"
    yield Figure("speed-up", numbers.plain(found.speedup), span, seen)
    yield Figure("baseline", numbers.rate(found.baseline_tokens_per_second), "", "tokens a second without it")
    yield Figure("gained", plan_text.signed(found.gained_tokens_per_second), "", "tokens a second")
    yield Figure("memory", gigabytes(found.memory_bytes), "", "the draft's weights and its KV cache")
    yield from _return(found)
    yield Note("This is at full load: a server that is asked for less gains in latency, not in tokens.")
    yield from _fewer(plan)


def _return(found: Payoff) -> Iterator[Part]:
    each, bounds = found.tokens_per_second_per_gigabyte, found.bounds
    if each is None:
        yield Note("It takes no memory of the GPUs: whatever it gains is free of that.")
        return
    span = "" if bounds is None else f"{plan_text.signed(bounds[0])} to {plan_text.signed(bounds[1])}"
    yield Figure("return", plan_text.signed(each), span, "tokens a second gained for each GB")


def _fewer(plan: DeploymentPlan) -> Iterator[Note]:
    """Yield that the baseline may be of more sequences at a time than fit beside the draft."""
    most, alone = plan.drafting.sequences, plan.alone.sequences
    if plan.outcome is PlanOutcome.TIGHT and most is not None and alone is not None and alone > most:
        without = min(alone, plan.wanted.batch)
        yield Note(
            f"Both at {plan_text.sequences(most)} at a time. Without the draft {without:,} fit, "
            "which generate more than that baseline."
        )
