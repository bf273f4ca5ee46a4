"""What the requests of a model show: kinds that differ, groups that gain or lose, each with its sentence."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Final, TypeVar

from spec_decode_exporter.core.tasks import yield_to_event_loop
from spec_decode_exporter.figures.student_t import welch
from spec_decode_exporter.requests.findings import (
    OTHER,
    UNKNOWN,
    Kind,
    Mixture,
    ModelFindings,
    PromptBucket,
    bucket_text,
)
from spec_decode_exporter.requests.summary import (
    MIN_REQUESTS,
    Effect,
    GroupKey,
    KeptRequest,
    RequestSummary,
    acceptance_length,
)

REMAINING: Final = 0.85
"""Share of an acceptance length below which another one is relevantly lower, as for a drop."""
MIN_SHARE: Final = 0.1
"""Share of the requests that a kind must have: any average hides a smaller one, and p10 and p90 show it."""
SLICE_REQUESTS: Final = 2000
"""Requests that are summarized before other tasks run: a few milliseconds."""
MAX_NAMED: Final = 3
"""Groups that one sentence names; the page and the metrics show all."""

KINDS: Final[Mapping[str, Callable[[KeptRequest], str]]] = {
    "request_type": lambda request: request.key.request_type,
    "temperature": lambda request: request.key.temperature,
    "prompt_tokens": lambda request: request.prompt_tokens,
}
"""Labels by which requests may be of different kinds; a value is empty if unknown."""

Key = TypeVar("Key", GroupKey, str, tuple[str, str])
Groups = Sequence[tuple[GroupKey, RequestSummary]]


def by(requests: Iterable[KeptRequest], key: Callable[[KeptRequest], Key]) -> dict[Key, list[KeptRequest]]:
    """Return the requests of each key, in the order of the keys."""
    kept: defaultdict[Key, list[KeptRequest]] = defaultdict(list)
    for request in requests:
        kept[key(request)].append(request)
    return dict(sorted(kept.items()))


async def summaries(
    requests: Iterable[KeptRequest], key: Callable[[KeptRequest], Key]
) -> dict[Key, RequestSummary]:
    """Return a summary of the requests of each key, in the order of the keys; yield to the event loop."""
    found: dict[Key, RequestSummary] = {}
    for name, kept in by(requests, key).items():
        found[name] = RequestSummary()
        for at in range(0, len(kept), SLICE_REQUESTS):
            found[name] = RequestSummary.over((found[name], RequestSummary(kept[at : at + SLICE_REQUESTS])))
            await yield_to_event_loop()
    return found


async def model_findings(model_name: str, groups: Mapping[GroupKey, RequestSummary]) -> ModelFindings:
    """Return the findings about the requests of a model, all of which are in ``groups``; yield as above."""
    summary = RequestSummary.over(groups.values())
    mixture = await mixture_of(summary.kept)
    for group in groups.values():
        _ = group.speedup_ratio  # which the advice reads
        await yield_to_event_loop()
    return ModelFindings(model_name, summary, mixture, advice(summary, mixture, groups))


def falls_with_prompt(buckets: Iterable[PromptBucket]) -> bool:
    """Return whether the acceptance length is significantly lower (95 %) with the longest prompts.

    Drafters are trained on contexts of a few thousand tokens: EAGLE-3 gave 2.30 tokens a step at 2,000 tokens
    and 1.08 at 20,000 (speculators, pull request 684). The shortest and the longest bucket with enough
    requests are compared: one comparison, and no choice among several. With L_s and L_l their acceptance
    lengths, the lower 95 % bound of 0.85·L_s - L_l must be above 0, with degrees of freedom by Welch and
    Satterthwaite: windows are evaluated again and again, so a difference of 0 must rarely pass.
    """
    compared = [length for _, summary in buckets if (length := summary.acceptance_length) is not None]
    if len(compared) < 2:  # noqa: PLR2004  a short and a long one
        return False
    short, long = compared[0], compared[-1]
    _, half = welch([REMAINING * short.standard_error, long.standard_error], [short.degrees, long.degrees])
    return REMAINING * short.value - long.value > half


async def mixture_of(requests: Sequence[KeptRequest]) -> Mixture | None:
    """Return the types, else temperatures, else prompt lengths that differ by their bounds; yield as above.

    Of each label the kinds with the least and the greatest acceptance length are compared, among those with a
    tenth of the requests and with enough for bounds: the upper bound of one must be below 0.85 of the lower
    bound of the other. Requests of another K than most have are left out: acceptance falls with K alone.
    """
    numbers = Counter(request.record.tokens for request in requests if request.record.drafts)
    await yield_to_event_loop()
    tokens = max(numbers, key=numbers.__getitem__, default=0)
    compared = [request for request in requests if request.record.drafts and request.record.tokens == tokens]
    for label, value in KINDS.items():
        kinds = list[Kind]()
        for name, kept in by(compared, value).items():
            await yield_to_event_loop()
            is_known = name not in {"", OTHER} and len(kept) >= MIN_SHARE * len(compared)
            if is_known and (length := acceptance_length(kept)) is not None:
                kinds.append(Kind(name, length))
        kinds.sort(key=attrgetter("length.value"))
        if kinds and kinds[0].length.upper < REMAINING * kinds[-1].length.lower:
            return Mixture(label, kinds[0], kinds[-1])
    return None


def advice(
    summary: RequestSummary, mixture: Mixture | None, groups: Mapping[GroupKey, RequestSummary]
) -> list[str]:
    """Return the advice about a model's requests, all of which are in ``groups``: the most useful first."""
    evaluated = sorted((group for group in groups.items() if group[1].speedup_ratio), key=_speedup)
    by_effect = {effect: [group for group in evaluated if group[1].effect is effect] for effect in Effect}
    losing, gaining = by_effect[Effect.LOSES], by_effect[Effect.GAINS]
    return [
        *_on_mixture(mixture),
        *_on_losing(losing, gaining, summary.requests),
        *_on_gaining(gaining[::-1]),
        *_on_pathological(summary),
        *_on_cost(summary, evaluated, by_effect[Effect.UNCLEAR]),
    ]


def _on_mixture(mixture: Mixture | None) -> Iterator[str]:
    if mixture is not None:
        low, high = (
            f"{kind_name(mixture.label, kind.value)} {kind.length.value:.2f} tokens a draft"
            for kind in (mixture.low, mixture.high)
        )
        yield f"Their average hides that speculation gives {low}, and {high}."


def _on_losing(losing: Groups, gaining: Groups, requests: int) -> Iterator[str]:
    if losing:
        place = "on replicas without speculation" if gaining else "without speculation"
        yield f"Serve {_named(losing, requests)} {place}, or with fewer draft tokens."


def _on_gaining(gaining: Groups) -> Iterator[str]:
    if gaining:
        named = (f"{name(group[0])} ({_speedup(group):.2f} times as fast)" for group in gaining[:MAX_NAMED])
        yield f"Keep speculation for {', '.join(named)}: they gain most."


def _on_pathological(summary: RequestSummary) -> Iterator[str]:
    for number, share, cause in (
        (summary.rejected, "no", "for garbled output, or a language that the draft model does not know"),
        (summary.repetitive, "all", "for output that repeats itself"),
    ):
        if number:
            requests = "1 request" if number == 1 else f"{number} requests"
            yield f"{requests} had almost {share} draft tokens accepted: check {cause}."


def _on_cost(summary: RequestSummary, evaluated: Groups, unclear: Groups) -> Iterator[str]:
    slower = [group for group in unclear if _speedup(group) < 1]
    if summary.drafts and summary.requests >= MIN_REQUESTS and not summary.evaluated:
        yield "The cost of drafting is unknown, so the effect on requests is unknown: configure `cost`."
    elif not any(group.typical_costs for _, group in evaluated):
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
        f"{100 * group.requests / requests:.0f} % of the requests)"
        for key, group in groups[:MAX_NAMED]
        if (speedup := group.speedup_ratio)
    ]
    more = len(groups) - len(named)
    return ", ".join(named) + (f" and {more} more" if more else "")


def _speedup(group: tuple[GroupKey, RequestSummary]) -> float:
    speedup = group[1].speedup_ratio
    return speedup.value if speedup else 0.0


def name(key: GroupKey) -> str:
    """Return a group's name for a sentence."""
    if key.request_type == key.temperature == OTHER:
        return "the other requests"
    kinds = kind_name("request_type", key.request_type), kind_name("temperature", key.temperature)
    return kinds[0] + kinds[1].removeprefix("requests")


def kind_name(label: str, value: str) -> str:
    """Return the name of the requests with one value of a label, for a sentence."""
    if value == UNKNOWN:
        return {
            "request_type": "requests of no stated type",
            "temperature": "requests without a temperature",
        }[label]
    texts = {
        "request_type": f"{value} requests",
        "temperature": f"requests at temperature {bucket_text(value)}",
        "prompt_tokens": f"requests with prompts of {bucket_text(value)} tokens",
    }
    return texts[label]
