"""Advice about the requests of a model: plain sentences, the most useful first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from spec_decode_exporter.requests.cells import MIN_REQUESTS, Effect, Sums
from spec_decode_exporter.requests.findings import MIN_TOKENS, OTHER, UNKNOWN, GroupKey
from spec_decode_exporter.requests.mixture import Modes

MAX_NAMED: Final = 3
"""Groups that one sentence names; the page and the metrics show all."""
MIN_MEASURABLE_SPEEDUP: Final = 1.03
"""One draft token is worth a try from this speed-up on; a smaller one is not measurable."""

Groups = Sequence[tuple[GroupKey, Sums]]


def advice(
    summary: Sums, modes: Modes | None, groups: Mapping[GroupKey, Sums], hidden: float | None
) -> list[str]:
    """Return the advice about a model's requests, all of which are in ``groups``.

    ``hidden``: share of the requests with long answers that are below break-even, if the mean hides them.
    """
    ordered = sorted(groups.items(), key=lambda group: _speedup(group[1]))
    losing, unclear, gaining = (
        [group for group in ordered if group[1].speedup_ratio and group[1].effect is effect]
        for effect in (Effect.LOSES, Effect.UNCLEAR, Effect.GAINS)
    )
    return [
        *_on_modes(modes),
        *_on_losing(losing, gaining, summary.requests),
        *_on_hidden(None if losing else hidden),
        *_on_gaining(gaining[::-1]),
        *_on_pathological(summary),
        *_on_cost(summary, [*losing, *unclear, *gaining], unclear),
    ]


def _on_modes(modes: Modes | None) -> Iterator[str]:
    if modes is None:
        return
    yield (
        f"Two populations: of {modes.requests} requests with answers of more than {MIN_TOKENS} tokens, "
        f"{_percent(modes.low_share)} have {_percent(modes.low_mean)} of their draft tokens accepted and "
        f"{_percent(1 - modes.low_share)} have {_percent(modes.high_mean)}; their mean of "
        f"{_percent(modes.mean)} describes neither."
    )


def _on_losing(losing: Groups, gaining: Groups, requests: int) -> Iterator[str]:
    fewer = [group for group in losing if group[1].one_token_speedup >= MIN_MEASURABLE_SPEEDUP]
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


def _on_gaining(gaining: Groups) -> Iterator[str]:
    if gaining:
        named = (f"{name(key)} ({_speedup(sums):.2f} times as fast)" for key, sums in gaining[:MAX_NAMED])
        yield f"Keep speculation for {', '.join(named)}: they gain most."


def _on_pathological(summary: Sums) -> Iterator[str]:
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


def _on_cost(summary: Sums, evaluated: Groups, unclear: Groups) -> Iterator[str]:
    slower = [group for group in unclear if _speedup(group[1]) < 1]
    if summary.drafts and summary.requests >= MIN_REQUESTS and not summary.evaluated:
        yield "The cost of drafting is unknown, so the effect on requests is unknown: configure `cost`."
    elif not any(sums.typical_costs for _, sums in evaluated):
        return
    elif slower:
        yield (
            "At the typical cost of drafting, speculation would slow down "
            f"{_named(slower, summary.requests)}. Measure the cost, or configure `cost`, before you act on "
            "this."
        )
    else:
        yield (
            "The cost of drafting is not measured, only typical: measure it, or configure `cost`, before you "
            "act on this."
        )


def _named(groups: Groups, requests: int) -> str:
    """Return the names of the first groups, with their speed-up and share."""
    named = [
        f"{name(key)} ({speedup.value:.2f} times as fast with speculation, at most {speedup.upper:.2f}; "
        f"{_percent(sums.requests / requests)} of the requests)"
        for key, sums in groups[:MAX_NAMED]
        if (speedup := sums.speedup_ratio)
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


def bucket_text(label: str) -> str:
    """Return the text of a bucket: ``0.3-0.7`` is "up to 0.7", ``>1`` "above 1"; other texts stay."""
    if label.startswith(">"):
        return f"above {label.removeprefix('>')}"
    lower, _, upper = label.rpartition("-")
    return f"up to {upper}" if lower else label


def _speedup(sums: Sums) -> float:
    return sums.speedup_ratio.value if sums.speedup_ratio else 0.0


def _number(requests: int) -> str:
    return "1 request" if requests == 1 else f"{requests} requests"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
