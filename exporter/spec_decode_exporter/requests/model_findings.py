"""What the requests of a model show: kinds that differ, groups that gain or lose, each with its sentence."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Final, NamedTuple, TypeVar

from spec_decode_exporter.core.numbers import MAX_NAMED
from spec_decode_exporter.core.tasks import yield_to_event_loop
from spec_decode_exporter.figures.estimate import Estimate
from spec_decode_exporter.requests.summary import (
    MIN_REQUESTS,
    OTHER,
    UNKNOWN,
    Effect,
    GroupKey,
    KeptRequest,
    RequestSummary,
    acceptance_length,
    bucket_text,
)

REMAINING: Final = 0.85
"""Share of an acceptance length below which another one is relevantly lower, as for a drop."""
MIN_SHARE: Final = 0.1
"""Share of the requests that a kind must have: any average hides a smaller one, and p10 and p90 show it."""
SLICE_REQUESTS: Final = 2000  # requests that are summarized before other tasks run: a few milliseconds

KINDS: Final[Mapping[str, Callable[[KeptRequest], str]]] = {
    "request_type": lambda request: request.key.request_type,
    "temperature": lambda request: request.key.temperature,
    "prompt_tokens": lambda request: request.prompt_tokens,
}
"""Labels by which requests may be of different kinds; a value is empty if unknown."""

Key = TypeVar("Key", GroupKey, str, tuple[str, str])
Groups = Sequence[tuple[GroupKey, RequestSummary]]


class Kind(NamedTuple):
    """Requests with one value of a label, and what a draft gives them."""

    value: str  # request type, or label of the bucket of temperatures or prompt lengths
    length: Estimate  # acceptance length in tokens


class Mixture(NamedTuple):
    """Two kinds of a model's requests whose acceptance lengths differ beyond their bounds."""

    label: str  # label by which they differ: ``request_type``, ``temperature`` or ``prompt_tokens``
    low: Kind
    high: Kind


class ModelFindings(NamedTuple):
    """All requests of one model in one window."""

    model_name: str
    summary: RequestSummary
    mixture: Mixture | None  # None unless the workload is mixed
    advice: Sequence[str]
    """Plain sentences, the most useful first; untrusted names in them are not yet escaped."""

    @property
    def mixed(self) -> bool:
        """True if an average over the model's requests hides that two kinds of them differ."""
        return self.mixture is not None


class PromptBucket(NamedTuple):
    """Requests of one model with about the same length of the prompt, in the longest window."""

    prompt_tokens: str  # the bucket's label: ``0-1000``, ``1000-4000``, …, ``>64000``
    summary: RequestSummary


class PromptFindings(NamedTuple):
    """Requests of one model by the length of the prompt, in the longest window."""

    model_name: str
    buckets: Sequence[PromptBucket]  # ascending; without empty ones

    @property
    def falls(self) -> bool:
        """True if the acceptance length of the longest prompts is relevantly and significantly (95 %) lower.

        Drafters are trained on contexts of a few thousand tokens: EAGLE-3 gave 2.30 tokens a step at 2,000
        tokens and 1.08 at 20,000 (speculators, pull request 684). The shortest and the longest bucket with
        enough requests are compared: one comparison, and no choice among several.
        """
        lengths = [length for _, summary in self.buckets if (length := summary.acceptance_length) is not None]
        return bool(lengths) and _is_relevantly_lower(lengths[-1], lengths[0])


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
    groups = {key: summary for key, summary in groups.items() if key.model_name == model_name}
    summary = RequestSummary.over(groups.values())
    mixture = await mixture_of(summary.kept)
    for group in groups.values():
        _ = group.speedup_ratio  # which the advice reads
        await yield_to_event_loop()
    return ModelFindings(model_name, summary, mixture, [*advice(summary, mixture, groups)])


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
        if kinds and _is_relevantly_lower(kinds[0].length, kinds[-1].length):
            return Mixture(label, kinds[0], kinds[-1])
    return None


def _is_relevantly_lower(low: Estimate, high: Estimate) -> bool:
    return low.upper < REMAINING * high.lower


def advice(
    summary: RequestSummary, mixture: Mixture | None, groups: Mapping[GroupKey, RequestSummary]
) -> Iterator[str]:
    """Yield the advice about a model's requests, all of which are in ``groups``: the most useful first."""
    evaluated = sorted((group for group in groups.items() if group[1].speedup_ratio), key=_speedup)
    losing, gaining, unclear = (
        [group for group in evaluated if group[1].effect is effect]
        for effect in (Effect.LOSES, Effect.GAINS, Effect.UNCLEAR)
    )
    if mixture is not None:
        low, high = mixture.low, mixture.high
        few, many = (kind_name(mixture.label, kind.value) for kind in (low, high))
        gives = f"gives {low.length.value:.2f} tokens a draft to {few}, and {high.length.value:.2f} to {many}"
        yield f"Their average hides that speculation {gives}."
    if losing:
        place = "on replicas without speculation" if gaining else "without speculation"
        yield f"Serve {_named(losing, summary.requests)} {place}, or with fewer draft tokens."
    if gaining:
        best = (
            f"{name(group[0])} ({_speedup(group):.2f} times as fast)"
            for group in gaining[: -MAX_NAMED - 1 : -1]
        )
        yield f"Keep speculation for {', '.join(best)}: they gain most."
    for number, share, cause in (
        (summary.rejected, "no", "for garbled output, or a language that the draft model does not know"),
        (summary.repetitive, "all", "for output that repeats itself"),
    ):
        if number:
            requests = "1 request" if number == 1 else f"{number} requests"
            yield f"{requests} had almost {share} draft tokens accepted: check {cause}."
    slower = [group for group in unclear if _speedup(group) < 1]
    if summary.drafts and summary.requests >= MIN_REQUESTS and not summary.evaluated:
        yield "The effect on requests is unknown, because the cost of drafting is: configure or measure it."
    elif any(group.typical_costs for _, group in evaluated):
        begin = "The cost of drafting is not measured, only typical."
        if slower:
            named = _named(slower, summary.requests)
            begin = f"At the typical cost of drafting, speculation would slow down {named}."
        yield f"{begin} Measure or configure the cost before you act on this."


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
    kind = kind_name("request_type", key.request_type)
    return kind if key.temperature == UNKNOWN else f"{kind} at temperature {bucket_text(key.temperature)}"


def kind_name(label: str, value: str) -> str:
    """Return the name of the requests with one value of a label, for a sentence."""
    unknown = {"request_type": "untyped requests", "temperature": "requests without a temperature"}
    texts = {
        "request_type": f"{value} requests",
        "temperature": f"requests at temperature {bucket_text(value)}",
        "prompt_tokens": f"requests with prompts of {bucket_text(value)} tokens",
    }
    return (unknown if value == UNKNOWN else texts)[label]
