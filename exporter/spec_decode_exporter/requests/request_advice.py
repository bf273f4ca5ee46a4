"""What to do about a mix of requests, in plain sentences; the most useful first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from spec_decode_exporter.figures.acceptance import acceptance_length
from spec_decode_exporter.figures.estimate import Estimate
from spec_decode_exporter.requests.request_findings import OTHER, UNKNOWN, Effect, GroupKey, Modes, Summary
from spec_decode_exporter.requests.request_speedup import LEAST_REQUESTS, effect, speedup_estimate
from spec_decode_exporter.requests.request_sums import PaySums, Sums

MOST_NAMED: Final = 3
"""Groups that one sentence names; the page and the metrics have them all."""
WORTH_TRYING: Final = 1.03
"""One draft token is worth trying from this speed-up on: nearer to 1 nobody could measure it."""


class EvaluatedGroup(NamedTuple):
    """A group of which the speed-up is known."""

    key: GroupKey
    sums: Sums
    speedup: Estimate


def advice(said: Summary, modes: Modes | None, groups: Mapping[GroupKey, Sums], *, hidden: bool) -> list[str]:
    """Return what to do about the requests of a model, of which ``groups`` are all."""
    estimates = ((key, sums, speedup_estimate(sums.pay)) for key, sums in groups.items())
    evaluated = [
        EvaluatedGroup(key, sums, speedup) for key, sums, speedup in estimates if speedup is not None
    ]
    losing = sorted(_of(evaluated, Effect.LOSES), key=lambda group: group.speedup.value)
    gaining = sorted(_of(evaluated, Effect.GAINS), key=lambda group: -group.speedup.value)
    return [
        *_on_modes(said, modes),
        *_on_losers(losing, gaining, said.totals.requests),
        *_on_hidden(said, hidden=hidden and not losing),
        *_on_gainers(gaining),
        *_on_pathological(said),
        *_on_cost(said, evaluated),
    ]


def _of(evaluated: Sequence[EvaluatedGroup], wanted: Effect) -> list[EvaluatedGroup]:
    return [group for group in evaluated if effect(group.sums.pay) is wanted]


def _on_modes(said: Summary, modes: Modes | None) -> Iterator[str]:
    if modes is None or said.mean_acceptance_ratio is None:
        return
    yield (
        f"Two populations: {_percent(modes.low_share)} of the requests have {_percent(modes.low_mean)} of "
        f"their draft tokens accepted and {_percent(1 - modes.low_share)} have {_percent(modes.high_mean)}; "
        f"the mean of {_percent(said.mean_acceptance_ratio)} describes neither."
    )


def _on_losers(
    losing: Sequence[EvaluatedGroup], gaining: Sequence[EvaluatedGroup], requests: int
) -> Iterator[str]:
    fewer = [group for group in losing if _one_token(group.sums) >= WORTH_TRYING]
    none = [group for group in losing if group not in fewer]
    if none:
        to = (
            "to replicas without speculation"
            if gaining
            else "without speculation, as nothing here gains by it"
        )
        yield f"Serve {_named(none, requests)} {to}."
    if fewer:
        named = _named(fewer, requests)
        yield f"Serve {named} where fewer tokens are drafted: one draft token may still pay."


def _on_hidden(said: Summary, *, hidden: bool) -> Iterator[str]:
    if hidden:
        share = said.below_break_even / said.evaluated
        yield (
            f"All together gain, and yet {_percent(share)} of the requests are slower with speculation, in "
            "no type or temperature alone. Send a request type, or a finer one, to see which."
        )


def _on_gainers(gaining: Sequence[EvaluatedGroup]) -> Iterator[str]:
    if gaining:
        named = ", ".join(
            f"{name(each.key)} ({each.speedup.value:.2f} times as fast)" for each in gaining[:3]
        )
        yield f"Most is gained by {named}: keep speculation for them."


def _on_pathological(said: Summary) -> Iterator[str]:
    if said.rejected:
        yield (
            f"{_number(said.rejected)} had almost nothing accepted of many drafts: look whether their output "
            "is garbled, or in a language that the drafter does not know."
        )
    if said.repetitive:
        yield (
            f"{_number(said.repetitive)} had almost everything accepted of many drafts: look whether their "
            "output repeats itself."
        )


def _on_cost(said: Summary, evaluated: Sequence[EvaluatedGroup]) -> Iterator[str]:
    if said.totals.requests >= LEAST_REQUESTS and not said.evaluated:
        yield "What drafting costs is not known here, so nobody can say who gains: configure `cost`."
    elif any(group.sums.pay.guessed for group in evaluated):
        yield from _on_guess(said, evaluated)


def _on_guess(said: Summary, evaluated: Sequence[EvaluatedGroup]) -> Iterator[str]:
    slower = [group for group in _of(evaluated, Effect.UNCLEAR) if group.speedup.upper < 1]
    if slower:
        named = _named(slower, said.totals.requests)
        yield (
            f"By a mere guess of what drafting costs, speculation slows down {named}: measure it, or "
            "configure `cost`, before you act on this."
        )
    else:
        yield "What drafting costs is only a guess: measure it, or configure `cost`, before you act on this."


def _named(groups: Sequence[EvaluatedGroup], requests: int) -> str:
    """Return the names of the first groups with what speculation does to them."""
    named = [
        f"{name(each.key)} ({each.speedup.value:.2f} times as fast with speculation, at most "
        f"{each.speedup.upper:.2f}; {_percent(each.sums.totals.requests / requests)} of the requests)"
        for each in groups[:MOST_NAMED]
    ]
    more = len(groups) - len(named)
    return ", ".join(named) + (f" and {more} more" if more else "")


def name(key: GroupKey) -> str:
    """Return a group's name as a sentence has it."""
    if key.request_type == key.temperature == OTHER:
        return "the other requests"
    kind = "requests of no stated type" if key.request_type == UNKNOWN else f"{key.request_type} requests"
    if key.temperature == UNKNOWN:
        return f"{kind} without a temperature"
    return f"{kind} at temperature {temperature(key.temperature)}"


def temperature(label: str) -> str:
    """Return a bucket of temperatures as people say it: ``to 0.3`` is up to 0.3."""
    return f"up {label}" if label.startswith("to ") else label


def _one_token(sums: Sums) -> float:
    """Return the least speed-up of drafting one token, by what was accepted of more.

    A draft of which j tokens are accepted ends with a rejection, or is at its end: of D + A tokens that were
    looked at, A at least were right. With that share a, one token gives (1 + a) / (1 + c0 + c).
    """
    pay, totals = sums.pay, sums.totals
    tried = totals.drafts + totals.accepted_tokens
    if not pay.drafts or not tried or totals.draft_tokens <= totals.drafts:
        return 0.0
    return acceptance_length(totals.accepted_tokens / tried) / (1 + _mean_cost(pay))


def _mean_cost(pay: PaySums) -> float:
    """Return c0 + c, by drafts."""
    return (pay.fixed_costs + pay.costs) / pay.drafts


def _number(requests: int) -> str:
    return "1 request" if requests == 1 else f"{requests} requests"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
