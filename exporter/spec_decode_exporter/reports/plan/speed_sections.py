"""Sections of a plan about speed: cost of drafting, number of draft tokens, and return on memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from spec_decode_exporter.core import number_formats as numbers
from spec_decode_exporter.core.number_formats import gigabytes, plural
from spec_decode_exporter.reports.parts import Bar, Chart, Figure, Note, Part
from spec_decode_exporter.reports.plan.deployment_plan import DeploymentPlan, Payoff, PlanOutcome
from spec_decode_exporter.reports.plan.draft_method import SEARCHES
from spec_decode_exporter.reports.plan.planned_cost import CostBasis
from spec_decode_exporter.reports.plan.planned_depths import acceptance_rate

_BASES: Final[Mapping[CostBasis, str]] = {
    CostBasis.GIVEN: "It is as it was given.",
    CostBasis.MEASURED: "It is the cost in the observation.",
    CostBasis.ESTIMATED: "An estimate by the bytes that a step reads, weights and KV cache. Measure it: "
    "spec-decode-exporter observe.",
    CostBasis.ESTIMATED_BY_WEIGHTS: "An estimate by the weights alone. Measure it: "
    "spec-decode-exporter observe.",
}


_SHORTER: Final = 0.005
"""Smallest visible difference of a mean draft length, in tokens."""


def cost(plan: DeploymentPlan) -> Iterator[Part]:
    """Yield the cost of drafting, and its origin."""
    expected, reading = plan.costs.at(plan.wanted.tokens), plan.costs.reading
    yield Figure(
        "a draft token",
        f"{expected.token:.3f}",
        "",
        f"plain decode steps, at {plural(reading.batch, 'sequence')}",
    )
    yield Figure("a draft", f"{expected.step:.3f}", "", "besides, however many tokens it has")
    needed = plan.depth.break_even_token_acceptance
    if needed is not None:
        rate = _needed(needed, plan.depth.tokens)
        yield Figure("break-even", numbers.share(needed), "", "acceptance of a token, given those before it")
        yield Figure("as a rate", rate, "", f"of {plural(plan.depth.tokens, 'draft token')} accepted")
    if (
        plan.costs.basis in (CostBasis.ESTIMATED, CostBasis.ESTIMATED_BY_WEIGHTS)
        and plan.wanted.method in SEARCHES
    ):
        yield Note("The typical cost of searching and verifying; no model drafts.")
    else:
        yield Note(_BASES[plan.costs.basis])


def depths(plan: DeploymentPlan) -> Iterator[Part]:
    """Yield the chart by number of draft tokens, and its assumptions."""
    largest = max(1.0, *(depth.speedup for depth in plan.depths))
    rows = [Bar("0", 1 / largest, ("1.00", "", ""), _remark(plan, 0), marked=plan.best_tokens == 0)]
    rows += [
        Bar(
            str(depth.tokens),
            depth.speedup / largest,
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
        "Rate: the share of all draft tokens that is accepted then. Needed: the rate at break-even. A "
        "rejected token rejects those after it, so that a rate is below the acceptance of a token."
    )
    observed = plan.wanted.measured
    if observed is not None and observed.draft_length < observed.tokens - _SHORTER:
        yield Note(
            f"Both are of full drafts. Drafts had {observed.draft_length:.2f} tokens in the mean, "
            f"so that the counters show {observed.acceptance:.3f} at {observed.tokens}."
        )


def _needed(token_acceptance: float | None, tokens: int) -> str:
    return (
        numbers.ABSENT
        if token_acceptance is None
        else numbers.share(acceptance_rate(token_acceptance, tokens))
    )


def _assumption(plan: DeploymentPlan) -> str:
    if plan.wanted.measured is not None:
        return f"Accepted as in the observation, of {plural(plan.wanted.measured.tokens, 'token')} at a time."
    known = f"If each token is accepted with {plan.wanted.acceptance:g}, given those before it (--acceptance)"
    if plan.wanted.method in SEARCHES:
        return (
            f"{known}, and every step finds a draft. A search finds one in a part of the steps only, often "
            "in half of them or fewer: test it with your requests."
        )
    return f"{known}. Test it with your requests."


def _remark(plan: DeploymentPlan, tokens: int) -> str:
    remarks = {
        "no speculation": tokens == 0,
        "planned": tokens == plan.wanted.tokens,
        "best": tokens == plan.best_tokens,
        "extrapolated": plan.wanted.measured is not None and tokens > plan.drafts.measured,
    }
    return ", ".join(remark for remark, holds in remarks.items() if holds)


def payoff(plan: DeploymentPlan) -> Iterator[Part]:
    """Yield the return on the memory of drafting; nothing without a known throughput."""
    result = plan.payoff
    if result is None:
        return
    basis = f"as {'observed' if result.measured else 'estimated'}, with {plural(result.tokens, 'token')}"
    span = "" if result.lower is None or result.upper is None else f"{result.lower:.2f} to {result.upper:.2f}"
    yield Figure("speed-up", numbers.plain(result.speedup), span, basis)
    yield Figure(
        "baseline", numbers.rate(result.baseline_tokens_per_second), "", "tokens a second without it"
    )
    yield Figure("gained", numbers.rate(result.gained_tokens_per_second), "", "tokens a second")
    yield Figure("memory", gigabytes(result.memory_bytes), "", "the draft's weights and its KV cache")
    yield from _return(result)
    yield Note("This is at full load: a server that is asked for less gains in latency, not in tokens.")
    yield from _fewer(plan)


def _return(result: Payoff) -> Iterator[Part]:
    each, bounds = result.tokens_per_second_per_gigabyte, result.bounds
    if each is None:
        yield Note("It takes no memory of the GPUs: whatever it gains is free of that.")
        return
    span = "" if bounds is None else f"{numbers.rate(bounds[0])} to {numbers.rate(bounds[1])}"
    yield Figure("return", numbers.rate(each), span, "tokens a second gained for each GB")


def _fewer(plan: DeploymentPlan) -> Iterator[Note]:
    """Yield a note if more sequences fit without the draft than the baseline assumes."""
    drafting, alone = plan.drafting.sequences, plan.alone.sequences
    if plan.outcome is PlanOutcome.TIGHT and drafting is not None and alone is not None and alone > drafting:
        without = min(alone, plan.wanted.batch)
        yield Note(
            f"Both at {plural(drafting, 'sequence')} at a time. Without the draft {without:,} fit, "
            "which generate more than that baseline."
        )
