"""Advice about the requests of a model: plain sentences, the most useful first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from spec_decode_exporter.figures.estimate import Estimate
from spec_decode_exporter.requests.below_break_even import MIN_TOKENS
from spec_decode_exporter.requests.bucket_labels import bucket_text
from spec_decode_exporter.requests.ratio_estimate import MIN_REQUESTS
from spec_decode_exporter.requests.request_aggregate import RequestSums
from spec_decode_exporter.requests.request_findings import OTHER, UNKNOWN, Effect, GroupKey, Modes, Summary
from spec_decode_exporter.requests.request_speedup import effect, speedup_estimate

MAX_NAMED: Final = 3
"""Groups that one sentence names; the page and the metrics show all."""
MIN_MEASURABLE_SPEEDUP: Final = 1.03
"""One draft token is worth a try from this speed-up on; a smaller one is not measurable."""


class EvaluatedGroup(NamedTuple):
    """A group with a known speed-up."""

    key: GroupKey
    sums: RequestSums
    speedup: Estimate
    effect: Effect


def advice(
    summary: Summary,
    modes: Modes | None,
    groups: Mapping[GroupKey, RequestSums],
    *,
    hidden: float | None,
) -> list[str]:
    """Return the advice about a model's requests, all of which are in ``groups``.

    ``hidden``: share of the requests with long answers that are below break-even, if the mean hides them.
    """
    estimates = ((key, sums, speedup_estimate(sums.speedup)) for key, sums in groups.items())
    evaluated = [
        EvaluatedGroup(key, sums, speedup, effect(sums.speedup))
        for key, sums, speedup in estimates
        if speedup is not None
    ]
    losing = sorted(_with_effect(evaluated, Effect.LOSES), key=lambda group: group.speedup.value)
    gaining = sorted(_with_effect(evaluated, Effect.GAINS), key=lambda group: -group.speedup.value)
    return [
        *_on_modes(modes),
        *_on_losing(losing, gaining, summary.totals.requests),
        *_on_hidden(None if losing else hidden),
        *_on_gaining(gaining),
        *_on_pathological(summary),
        *_on_cost(summary, evaluated),
    ]


def _with_effect(evaluated: Sequence[EvaluatedGroup], wanted: Effect) -> list[EvaluatedGroup]:
    return [group for group in evaluated if group.effect is wanted]


def _on_modes(modes: Modes | None) -> Iterator[str]:
    if modes is None:
        return
    yield (
        f"Two populations: of {modes.requests} requests with answers of more than {MIN_TOKENS} tokens, "
        f"{_percent(modes.low_share)} have {_percent(modes.low_mean)} of their draft tokens accepted and "
        f"{_percent(1 - modes.low_share)} have {_percent(modes.high_mean)}; their mean of "
        f"{_percent(modes.mean)} describes neither."
    )


def _on_losing(
    losing: Sequence[EvaluatedGroup], gaining: Sequence[EvaluatedGroup], requests: int
) -> Iterator[str]:
    fewer = [group for group in losing if _one_token_speedup(group.sums) >= MIN_MEASURABLE_SPEEDUP]
    none = [group for group in losing if group not in fewer]
    if none:
        place = "on replicas without speculation" if gaining else "without speculation: no requests here gain"
        yield f"Serve {_named(none, requests)} {place}."
    if fewer:
        yield f"Serve {_named(fewer, requests)} with fewer draft tokens: one draft token may still pay."


def _on_hidden(hidden: float | None) -> Iterator[str]:
    if hidden is not None:
        yield (
            f"The requests with answers of more than {MIN_TOKENS} tokens gain on average, but "
            f"{_percent(hidden)} of them are slower with speculation, in no type or temperature alone. Send "
            "a request type, or a more specific one, to identify them."
        )


def _on_gaining(gaining: Sequence[EvaluatedGroup]) -> Iterator[str]:
    if gaining:
        named = ", ".join(
            f"{name(each.key)} ({each.speedup.value:.2f} times as fast)" for each in gaining[:3]
        )
        yield f"Keep speculation for {named}: they gain most."


def _on_pathological(summary: Summary) -> Iterator[str]:
    if summary.rejected:
        yield (
            f"{_number(summary.rejected)} had almost no draft tokens accepted: check for garbled output, or "
            "a language that the draft model does not know."
        )
    if summary.repetitive:
        yield (
            f"{_number(summary.repetitive)} had almost all draft tokens accepted: check for output that "
            "repeats itself."
        )


def _on_cost(summary: Summary, evaluated: Sequence[EvaluatedGroup]) -> Iterator[str]:
    if summary.totals.requests >= MIN_REQUESTS and not summary.evaluated:
        yield "The cost of drafting is unknown, so the effect on requests is unknown: configure `cost`."
    elif any(group.sums.speedup.typical_costs for group in evaluated):
        yield from _on_typical_cost(summary, evaluated)


def _on_typical_cost(summary: Summary, evaluated: Sequence[EvaluatedGroup]) -> Iterator[str]:
    slower = [group for group in _with_effect(evaluated, Effect.UNCLEAR) if group.speedup.value < 1]
    if slower:
        named = _named(slower, summary.totals.requests)
        yield (
            f"At the typical cost of drafting, speculation would slow down {named}. Measure the cost, or "
            "configure `cost`, before you act on this."
        )
    else:
        yield (
            "The cost of drafting is not measured, only typical: measure it, or configure `cost`, before you "
            "act on this."
        )


def _named(groups: Sequence[EvaluatedGroup], requests: int) -> str:
    """Return the names of the first groups, with their speed-up and share."""
    named = [
        f"{name(each.key)} ({each.speedup.value:.2f} times as fast with speculation, at most "
        f"{each.speedup.upper:.2f}; {_percent(each.sums.totals.requests / requests)} of the requests)"
        for each in groups[:MAX_NAMED]
    ]
    more = len(groups) - len(named)
    return ", ".join(named) + (f" and {more} more" if more else "")


def name(key: GroupKey) -> str:
    """Return a group's name for a sentence."""
    if key.request_type == key.temperature == OTHER:
        return "the other requests"
    kind = "requests of no stated type" if key.request_type == UNKNOWN else f"{key.request_type} requests"
    if key.temperature == UNKNOWN:
        return f"{kind} without a temperature"
    return f"{kind} at temperature {bucket_text(key.temperature)}"


def _one_token_speedup(sums: RequestSums) -> float:
    """Return the minimum speed-up of drafting one token, from the acceptance of longer drafts.

    Each draft ends with a rejection or at its last token. So at least A of the D + A verified tokens are
    right. With that share a, one draft token gives (S + a·D) / (S + c0·D + c·D), with S·c0 if every step pays
    the fixed cost.
    """
    speedup, totals = sums.speedup, sums.totals
    verified = totals.drafts + totals.accepted_tokens
    if not speedup.drafts or not verified or totals.draft_tokens <= totals.drafts:
        return 0.0
    tokens = speedup.steps + totals.accepted_tokens / verified * speedup.drafts
    return tokens / (speedup.steps + speedup.fixed_costs + speedup.costs)


def _number(requests: int) -> str:
    return "1 request" if requests == 1 else f"{requests} requests"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
