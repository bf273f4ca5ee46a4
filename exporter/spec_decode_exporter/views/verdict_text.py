"""Write a state and a verdict as sentences, and what is likely before a verdict."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from spec_decode_exporter.analysis.end_to_end import EndToEndBasis
from spec_decode_exporter.analysis.evaluation import Basis, Evaluation
from spec_decode_exporter.analysis.missing_evidence import Evidence, ways_to_know
from spec_decode_exporter.analysis.verdict import PAYING, State, Verdict
from spec_decode_exporter.analysis.window_evaluation import WindowEvaluation
from spec_decode_exporter.core.number_formats import gigabytes, long_time, percent, plural, utc_clock
from spec_decode_exporter.costs.cost import CostRange, CostSource
from spec_decode_exporter.costs.methods import present_name, usual_length
from spec_decode_exporter.costs.published import PublishedShare
from spec_decode_exporter.figures.estimate import MIN_BOUND_REQUESTS, Estimate
from spec_decode_exporter.findings.finding import Finding
from spec_decode_exporter.monitor.decision import STAYED_SECONDS
from spec_decode_exporter.monitor.snapshot import EngineSnapshot
from spec_decode_exporter.views.words import LIKELY, STATES, VERDICTS

NO_VERDICT: Final = ("broken_one_server", "counts_no_drafts", "drafts_not_counted", "decodes_nothing")
"""Findings for which there is no verdict, however long one waits."""

BASES: Final[Mapping[EndToEndBasis, str]] = {
    EndToEndBasis.SAME_FIRST_TOKEN: "with the same first token",
    EndToEndBasis.BASELINE: "against the baseline",
}
"""Meanings of the speed-up of a request, by its basis."""

SOURCES: Final = {
    CostSource.EXPERIMENT: "by the experiment's step times",
    CostSource.MEASURED: "measured on this engine",
    CostSource.BASELINE: "by its step times without speculation",
    CostSource.CONFIGURED: "configured",
    CostSource.TYPICAL: "typical of the method",
}
"""Sources of a cost, within a sentence."""


def verdict_text(snapshot: EngineSnapshot) -> str:
    """Return the state, or else the verdict with its figure; with newer data, if they differ from it."""
    evaluation = snapshot.evaluation
    if text := no_verdict(snapshot.findings):
        return text
    if evaluation.state is not State.ACTIVE:
        return STATES[evaluation.state].meaning
    shown, newest = evaluation.verdict, evaluation.verdict_window.verdict
    if shown in {newest, Verdict.INSUFFICIENT}:
        return _text_of(shown, snapshot)
    is_doubt = shown in PAYING and newest is Verdict.UNCLEAR
    lasting = "a minute" if is_doubt else f"{STAYED_SECONDS / 60:.0f} minutes"
    if shown in PAYING and newest in PAYING:
        newer = _text_of(newest, snapshot).removeprefix("Speculation")
        return f"{statement(shown, evaluation)}. By newer data it{newer}"
    differ = f"Newer data differ, and become the verdict if they hold for {lasting}:"
    return f"{statement(shown, evaluation)}. {differ} {_text_of(newest, snapshot)}"


def no_verdict(findings: Iterable[Finding]) -> str:
    """Return why there can be no verdict, and the remedy; empty if there can be one."""
    return next((each.text for each in findings if each.name in NO_VERDICT), "")


def _text_of(verdict: Verdict, snapshot: EngineSnapshot) -> str:
    evaluation = snapshot.evaluation
    if verdict is Verdict.INSUFFICIENT:
        return _scheduled_off(evaluation) or f"{_drop(snapshot)}{_missing(evaluation)}"
    if verdict is Verdict.UNCLEAR:
        its = evaluation.verdict_window
        bounds, even = its.speedup_range and its.speedup_range.estimate, its.break_even_cost_ratio
        return likely_text(bounds, even, its.cost, its.published_share, is_likely=its.probably_pays)
    return f"{statement(verdict, evaluation)}: {_figure(evaluation.verdict_window)}{_basis(evaluation)}."


def know_text(its: WindowEvaluation) -> str:
    """Return the cheapest way to find out whether speculation pays, with its price."""
    way = ways_to_know(its)[0]
    text, paste = way.text[0].lower() + way.text[1:], f" In {way.place}: `{way.paste}`." * bool(way.paste)
    return f"To know it: {text}. It takes {way.takes}; {way.costs}.{paste}"


def likely_text(
    bounds: Estimate | None,
    even: float | None,
    cost: CostRange | None,
    share: PublishedShare | None,
    *,
    is_likely: bool,
) -> str:
    """Return what is likely, at how many published costs it pays, and the cost of a token at break-even."""
    parts = [f"{LIKELY[is_likely]}."]
    if share is not None:
        parts.append(published_text(share, is_of_kind=cost is not None))
    if bounds is not None and cost is not None:
        value, low, high = map(_about, bounds[:3])
        parts.append(f"Decoding is about {value} times as fast ({low} to {high} {range_text(cost)}).")
    if even is not None:
        parts.append(f"It pays if a draft token costs less than {max(even, 0.0):.2g} of a decode step")
    if cost is None and share is None:
        return f"{' '.join(parts)}; too few published what such drafters cost."
    return f"{' '.join(parts)}{_assumed(cost, even)}"


def published_text(share: PublishedShare, *, is_of_kind: bool) -> str:
    """Return at how many published costs the present acceptance would pay."""
    drafters = "such drafters" if is_of_kind else "drafters of all kinds"
    return f"At {share.paying} of {share.costs} published costs of {drafters} your acceptance would pay."


def range_text(cost: CostRange) -> str:
    """Return where the range of a speed-up comes from."""
    return "at published costs" if cost.is_typical else "by the range of its cost"


def likely_so_far(its: WindowEvaluation) -> str:
    """Return what is likely before a verdict, with a final space; empty with few drafts."""
    found = its.speedup_range
    if its.likely_share_ratio is None or found is None:
        return ""
    says = f"So far {LIKELY[its.probably_pays][0].lower()}{LIKELY[its.probably_pays][1:]}"
    if its.published_share is not None:
        return f"{says}. {published_text(its.published_share, is_of_kind=its.cost is not None)} "
    value, low, high = map(_about, found.by_known[:3])
    by = "few data and " if found.is_bounded else ""
    return f"{says}: about {value} times as fast ({low} to {high}, by {by}the range of its cost). "


def memory_text(its: WindowEvaluation) -> str:
    """Return the return on the drafter's memory, and the KV cache beside it; empty if both are unknown."""
    cache = its.known.assumed.kv_cache
    kind = "" if cache is None or cache.dtype in {"", "auto"} else f" ({cache.dtype})"
    left = f"Speculation leaves room for {cache.tokens:,} tokens of KV cache{kind}." if cache else ""
    return f"{_memory_return(its)} {left}".strip()


def _memory_return(its: WindowEvaluation) -> str:
    value, bounds = its.memory_return, its.memory_return_bounds
    if value is None:
        return ""
    between = ""
    if bounds is not None:
        is_sure = bounds.lower * bounds.upper > 0
        low, high = sorted(map(abs, bounds[1:3])) if is_sure else bounds[1:3]
        between = f" ({'' if is_sure else 'a gain of '}{low:,.0f} to {high:,.0f})"
    drafter = f"The drafter's {gigabytes(its.known.speculation.draft_bytes)}"
    does = "gain" if value >= 0 else "lose"
    gained = f"{drafter} {does} {abs(value):,.0f} tokens a second for each GB{between}."
    if not its.is_cache_tight:
        return gained
    usage = percent(its.window.mean.kv_cache_usage_ratio)
    return f"{gained} KV cache is scarce ({usage} in use): as cache they could serve more requests."


def usual_length_text(snapshot: EngineSnapshot) -> str:
    """Return the usual acceptance length of a method; empty if none is published."""
    speculation, tokens = snapshot.evaluation.known.speculation, snapshot.tokens
    usual = None if speculation.drafts_in_parallel else usual_length(speculation.method, tokens)
    if usual is None:
        return ""
    low, high, number = usual
    name = present_name(speculation.method)  # a trusted name: it is in the table
    what = f"{name} with {plural(tokens, 'token')}"
    count = plural(number, "published measurement")
    return f"{what} usually gives {low:.1f} to {high:.1f} tokens a draft ({count})."


def _about(speedup: float) -> str:
    """Write a speed-up with one decimal; near 1 with two, so that 0.98 differs from 1.02."""
    return f"{speedup:.2f}" if 0.95 < speedup < 1.05 else f"{speedup:.1f}"  # noqa: PLR2004


def _assumed(cost: CostRange | None, even: float | None) -> str:
    if cost is None:
        return "; what it costs is unknown."
    is_fixed = cost.high.step > 0 and cost.high.token < (even or 0.0)
    fixed = f"; a step that drafts costs up to {cost.high.step:.2g} more" * is_fixed
    return f"; it costs {cost.low.token:.2g} to {cost.high.token:.2g} here{fixed} ({SOURCES[cost.source]})."


def _drop(snapshot: EngineSnapshot) -> str:
    """Return the first sentence of the finding of a present drop; nothing without one."""
    texts = (each.text for each in snapshot.findings if each.name in {"sudden_drop", "drafting_drop"})
    return next((f"{text.partition('. ')[0]}. " for text in texts), "")


def _scheduled_off(evaluation: Evaluation) -> str:
    """Write that the schedule has no drafts for the present load; nothing if it has, or if it drafts."""
    running = evaluation.longest.window.mean.running_requests
    if running is None or evaluation.longest.total.drafts:
        return ""
    first = evaluation.known.speculation.paused_from(running)
    text = "Its schedule drafts nothing from {} running requests, and {:.1f} run."
    return "" if first is None else text.format(first, running)


def _missing(evaluation: Evaluation) -> str:
    """Write the evidence that a verdict needs."""
    if not evaluation.missing:
        return "Too little was drafted, or too unevenly, to say whether speculation pays."
    since = "" if evaluation.since is None else f" since {utc_clock(evaluation.since)}"
    likely, first = likely_so_far(evaluation.verdict_window), evaluation.missing[0]
    early = f"{likely}Too early to {'be sure' if likely else 'say whether speculation pays'}{since}"
    if first.evidence is Evidence.HALF_WIDTH and first.seen <= first.needed:
        return "Nothing says whether speculation pays: the server does not show how many tokens it drafts."
    if first.evidence is Evidence.HALF_WIDTH:
        needed, seen = percent(first.needed), percent(first.seen)
        return f"{early}: the acceptance length is known to ±{seen}, and a verdict needs ±{needed}."
    if first.evidence is Evidence.LOWEST_SPEEDUP:
        speedup = f"the lower bound of the speed-up is {first.seen:.2f}"
        return f"{early}: {speedup}, and a verdict needs {first.needed:.2f}."
    needs = ", or ".join(_NEEDS[need.evidence][0].format(need.needed) for need in evaluation.missing)
    seen = " and ".join(_NEEDS[need.evidence][1].format(need.seen) for need in evaluation.missing)
    return f"{early}: a verdict needs {needs}; {seen} seen."


_NEEDS: Final = {
    Evidence.DRAFTS: ("{:,.0f} drafts", "{:,.0f}"),
    Evidence.REQUESTS: ("{:g} requests of equal length one after the other", "{:.1f}"),
    Evidence.SECONDS: ("{:.0f} s", "{:.0f} s"),
    Evidence.POLLS: ("{:.0f} polls", "{:.0f}"),
}
"""Texts of evidence that is needed, and that was seen."""


def _basis(evaluation: Evaluation) -> str:
    """Write the time that the verdict covers, if it is not the longest window."""
    covered = long_time(evaluation.verdict_window.window.seconds)
    if evaluation.since is not None:
        return f", since the change at {utc_clock(evaluation.since)} ({covered})"
    if evaluation.basis is Basis.SHORTER:
        return f", by the last {covered}, which contradict the longer window"
    return f" (early, from {covered})" if evaluation.is_early else ""


def statement(verdict: Verdict, evaluation: Evaluation) -> str:
    """Return a verdict on decoding in words, and whether requests are slower than a baseline, or may be."""
    request = evaluation.verdict_window.request
    if request is None or request.bounds is None:
        return VERDICTS[verdict].title
    if verdict is Verdict.POOR and request.is_slower:
        return "Speculation makes requests slower"
    is_unsure = verdict in PAYING and request.bounds.lower < 1
    return f"{VERDICTS[verdict].title}{' for decoding, and whole requests may be slower' * is_unsure}"


def _figure(its: WindowEvaluation) -> str:
    """Write the speed-up of a request and of decoding or, if the cost is unknown, the tokens of a step."""
    speedup, request = its.estimated_speedup_ratio, its.request
    if speedup is None:
        return f"a decode step gives {its.speedup_ceiling_ratio:.2f} tokens, at an unknown cost of drafting"
    if request is None:
        return f"{speedup:.2f} times as fast as without it{_between(its.speedup_bounds, its)}, decode only"
    if request.bounds is None:
        decoding = f"decoding is {speedup:.2f} times as fast{_between(its.speedup_bounds, its)}"
        return f"{decoding}, a request {request.value:.2f} times with the same first token"
    whole = f"a request is {request.value:.2f} times as fast as without it{_between(request.bounds, its)}"
    return f"{whole}; decoding {speedup:.2f} times"


def _between(bounds: Estimate | None, its: WindowEvaluation) -> str:
    if bounds is not None:
        return f" ({bounds.lower:.2f} to {bounds.upper:.2f})"
    requests = its.effective_requests
    if requests is not None and requests < MIN_BOUND_REQUESTS:
        return " (too few requests passed for bounds)"
    return " (its bounds are unknown)"
