"""Store of requests: labels of bounded cardinality, the newest requests, and windows of them.

Time is a parameter: monotonic seconds. Memory is bounded: at most ``requests.keep`` requests of 700
bytes each, and one sum for each label. Names of an unlimited number are never kept.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Hashable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf
from typing import Final, NamedTuple

from msgspec.structs import replace as with_fields

from spec_decode_exporter.config.schema import RequestSettings
from spec_decode_exporter.config.types import format_duration
from spec_decode_exporter.core.isolation import Isolation
from spec_decode_exporter.costs.cost import CostRange
from spec_decode_exporter.experiments.pace import ArmTypes, TypeTimes, added_types
from spec_decode_exporter.requests.model_findings import (
    ModelFindings,
    PromptBucket,
    PromptFindings,
    by,
    model_findings,
    summaries,
)
from spec_decode_exporter.requests.record import Refusal, RequestRecord, RequestSource
from spec_decode_exporter.requests.summary import (
    OTHER,
    UNKNOWN,
    GroupKey,
    KeptRequest,
    RequestSummary,
    RequestTotals,
    RequestWork,
    bucket_labels,
)

EVALUATION_SECONDS: Final = 5.0  # interval after which the windows are evaluated again
MAX_EAGER_REQUESTS: Final = 1000
"""With at most this many requests, each new one causes an evaluation; with more, only time does."""

FOLDED: Final = ("model_name", "request_type", "user", "group")
"""Labels with slots; a group is a combination of model, type and temperature."""


class GroupFindings(NamedTuple):
    """One group in one window."""

    key: GroupKey
    summary: RequestSummary


class WindowFindings(NamedTuple):
    """One window."""

    seconds: float
    partial: bool
    """The exporter is younger than the window, took no requests in a part of it, or kept only the newest."""
    groups: Sequence[GroupFindings] = ()
    models: Sequence[ModelFindings] = ()
    covered_seconds: float = 0.0  # time whose requests are complete: shorter than a partial window


class UserFindings(NamedTuple):
    """Requests of one user, as a hash, in the longest window."""

    user: str
    model_name: str
    summary: RequestSummary


@dataclass(frozen=True, slots=True)
class RequestFindings:
    """All findings about requests at one moment."""

    enabled: bool = False
    windows: Mapping[str, WindowFindings] = field(default_factory=dict)  # by the ``window`` label
    since_start: Mapping[GroupKey, RequestTotals] = field(default_factory=dict)
    users: Sequence[UserFindings] = ()
    prompts: Sequence[PromptFindings] = ()  # models whose senders report prompt tokens, in the longest window
    sources: Mapping[RequestSource, int] = field(default_factory=dict)
    """Requests counted since the start, by source."""
    refused: Mapping[Refusal, int] = field(default_factory=dict)
    folded: Mapping[str, int] = field(default_factory=dict)
    """Requests counted as ``other`` since the start, by the labels of ``FOLDED``."""

    @property
    def taken(self) -> int:
        """Requests counted since the start."""
        return sum(self.sources.values())


class Slots:
    """Slots of a label: the first names have one, the others share ``other``.

    At the end of a period, as long as the longest window, names without a request in it lose their slots. So
    unused names do not remain, and a slot that becomes free is most likely that of a frequent name.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held: Counter[Hashable] = Counter()
        self.folded = 0  # requests whose name had no slot

    def admit(self, name: Hashable) -> bool:
        """Count a request; return whether its name has a slot."""
        has_slot = name in self._held or len(self._held) < self._limit
        if has_slot:
            self._held[name] += 1
        else:
            self.folded += 1
        return has_slot

    def label(self, name: str) -> str:
        """Count a request; return the label of its name."""
        if not name:
            return UNKNOWN
        return name if name in {OTHER, UNKNOWN} or self.admit(name) else OTHER

    def end_period(self) -> AbstractSet[Hashable]:
        """Return the names that lose their slots: no request of a window is of them."""
        lost = {name for name, requests in self._held.items() if not requests}
        self._held = Counter(dict.fromkeys(self._held.keys() - lost, 0))
        return lost


class RequestStore:
    """Requests by group, by prompt length and by user: the newest ones, and sums since the start."""

    def __init__(self, settings: RequestSettings, errors: Isolation | None = None) -> None:
        self._settings, self._errors = settings, errors or Isolation()
        users = settings.users.max if settings.users else 0
        limits = (settings.models, settings.types, users, settings.groups)
        self._slots = dict(zip(FOLDED, map(Slots, limits), strict=True))
        self._bounds = {"temperature": settings.temperatures, "prompt_tokens": settings.prompt_tokens}
        self._buckets = {label: bucket_labels(bounds) for label, bounds in self._bounds.items()}
        self._since_start: dict[GroupKey, RequestTotals] = {}
        self._kept: deque[KeptRequest] = deque()
        self._sources: Counter[RequestSource] = Counter()
        self._refused: Counter[Refusal] = Counter()
        self._longest = self._began = self._period_began = inf
        self._by_target: dict[tuple[str, str], list[KeptRequest]] = {}
        self._lock = asyncio.Lock()
        self._version: tuple[object, ...] = ()
        self.last = RequestFindings(enabled=settings.ingest)
        """The last result of ``findings``; empty before the first."""

    def take(self, request: RequestRecord, now: float, cost: CostRange | None) -> None:
        """Count a request that ended ``now``, at the cost of its target."""
        self._advance(now)
        key = self._key(request)
        user = self._slots["user"].label(request.user) if request.user else ""
        self._sources[request.source] += 1
        self._since_start[key] = self._since_start.get(key, RequestTotals()).with_request(request)
        if len(self._kept) == self._settings.keep:
            self._drop_oldest()
        record = with_fields(request, model_name="", request_type="", user="")
        work = RequestWork.of(request, cost)
        prompt = self._bucket("prompt_tokens", request.prompt_tokens, "")
        self._kept.append(KeptRequest(now, key, user, prompt, record, request.pathology, work))

    def refuse(self, reason: Refusal, number: int = 1) -> None:
        """Count refused requests."""
        self._refused[reason] += number

    async def findings(self, windows: Sequence[float], now: float) -> RequestFindings:
        """Return all findings; ``windows`` are one or more lengths in seconds.

        The evaluation yields to the event loop.
        """
        async with self._lock:
            self._longest = max(windows)
            self._advance(now)
            taken = self._sources.total()
            is_eager = len(self._kept) <= MAX_EAGER_REQUESTS
            version = (tuple(windows), taken if is_eager else None, int(now // EVALUATION_SECONDS))
            if version != self._version:
                await self._evaluate(sorted(windows), now)
                self._version = version
            self.last = replace(
                self.last,
                since_start=dict(self._since_start),
                sources=dict(self._sources),
                refused=dict(self._refused),
                folded={label: slots.folded for label, slots in self._slots.items()},
            )
        return self.last

    def times(self, model_name: str, target: str, begin: float, end: float) -> ArmTypes:
        """Return the times by type of a target's requests that ended between two moments, for experiments.

        A type is a request type at a temperature. They are those of the last evaluation.
        """
        return added_types(
            {f"{each.key.request_type} {each.key.temperature}": TypeTimes(seconds, tokens - 1)}
            for each in self._by_target.get((model_name, target), ())
            if begin < each.ended_at <= end
            and (seconds := each.record.decode_seconds) is not None
            and (tokens := each.record.completion_tokens or 0) > 1
        )

    def _key(self, request: RequestRecord) -> GroupKey:
        temperature = self._bucket("temperature", request.temperature, UNKNOWN)
        model_name = self._slots["model_name"].label(request.model_name)
        key = GroupKey(model_name, self._slots["request_type"].label(request.request_type), temperature)
        return key if self._slots["group"].admit(key) else GroupKey(model_name, OTHER, OTHER)

    def _bucket(self, label: str, value: float | None, unknown: str) -> str:
        """Return the bucket of a value."""
        return unknown if value is None else self._buckets[label][bisect_left(self._bounds[label], value)]

    def _advance(self, now: float) -> None:
        """Drop requests before the longest window, and end a period if it is over ``now``."""
        self._began, self._period_began = min(self._began, now), min(self._period_began, now)
        while self._kept and self._kept[0].ended_at < now - self._longest:
            self._drop_oldest()
        if now - self._period_began >= self._longest:
            self._period_began = now
            lost = {label: slots.end_period() for label, slots in self._slots.items()}
            # Their totals end: if the remainder continued them, its counters would jump.
            kept = (key for key in self._since_start if key.model_name not in lost["model_name"])
            self._since_start = {key: self._since_start[key] for key in kept if key not in lost["group"]}

    def _drop_oldest(self) -> None:
        """Drop the oldest request: windows that began before it ended are partial."""
        self._began = max(self._began, self._kept.popleft().ended_at)

    async def _model(self, name: str, groups: Mapping[GroupKey, RequestSummary]) -> ModelFindings | None:
        evaluate = partial(model_findings, name, groups)
        return await self._errors.attempt_async("requests", evaluate, {"model_name": name})

    async def _evaluate(self, windows: Sequence[float], now: float) -> None:
        kept, by_window = list(self._kept), {}
        for length in windows:
            inside = [request for request in kept if request.ended_at >= now - length]
            groups = await summaries(inside, lambda request: request.key)
            models = dict.fromkeys(key.model_name for key in groups)
            covered = min(length, now - self._began)
            by_window[format_duration(length)] = WindowFindings(
                length,
                covered < length,
                [GroupFindings(*group) for group in groups.items()],
                [model for name in models if (model := await self._model(name, groups))],
                covered,
            )
        of_targets = (each for each in kept if each.record.target)
        self._by_target = by(of_targets, lambda each: (each.key.model_name, each.record.target))
        named = (each for each in kept if each.user)
        users = await summaries(named, lambda each: (each.user, each.key.model_name))
        measured = (each for each in kept if each.prompt_tokens)
        prompts = await summaries(measured, lambda each: (each.key.model_name, each.prompt_tokens))
        lengths = self._buckets["prompt_tokens"]
        self.last = replace(
            self.last,
            windows=by_window,
            users=[UserFindings(*key, summary) for key, summary in users.items()],
            prompts=[
                PromptFindings(
                    name, [PromptBucket(it, prompts[name, it]) for it in lengths if (name, it) in prompts]
                )
                for name in dict.fromkeys(name for name, _ in prompts)
            ],
        )
