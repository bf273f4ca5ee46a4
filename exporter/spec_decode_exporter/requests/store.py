"""Store of requests: labels of bounded cardinality, cells by key, and windows of them.

Time is a parameter: monotonic seconds.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from decimal import Decimal
from functools import partial
from math import inf, nan
from typing import Final, TypeVar

from spec_decode_exporter.config.request_settings import RequestSettings
from spec_decode_exporter.config.types import format_duration
from spec_decode_exporter.core.isolation import Isolation
from spec_decode_exporter.core.tasks import yield_to_event_loop
from spec_decode_exporter.costs.cost import CostRange
from spec_decode_exporter.requests.advice import advice
from spec_decode_exporter.requests.cells import (
    CELL_SECONDS,
    NO_SUMS,
    Cells,
    Sums,
    added,
    aged,
    plus,
    row_of,
    since,
)
from spec_decode_exporter.requests.findings import (
    MAX_SAMPLE,
    MIN_TOKENS,
    OTHER,
    UNKNOWN,
    GroupFindings,
    GroupKey,
    LongRequest,
    ModelFindings,
    PromptBucket,
    PromptFindings,
    RequestFindings,
    UserFindings,
    WindowFindings,
    falls_with_prompt,
    hidden_share,
    modes_of,
)
from spec_decode_exporter.requests.mixture import even_sample
from spec_decode_exporter.requests.record import Refusal, RequestRecord, RequestSource

EVALUATION_SECONDS: Final = 5.0
"""Interval after which the windows are evaluated again."""
MAX_EAGER_REQUESTS: Final = 1000
"""With at most this many requests, each new one causes an evaluation; with more, only time does."""
FIRST_LONGEST_WINDOW: Final = 300.0
"""The longest window until the first evaluation."""
TAKEOVER_FACTOR: Final = 2
"""Requests of a name that takes over a slot, relative to those of its holder."""
MAX_WAITING: Final = 256
"""Names without a slot that are counted."""

FOLDED: Final = ("model_name", "request_type", "user", "group")
"""Labels with slots; a group is a combination of model, type and temperature."""

Key = TypeVar("Key", GroupKey, tuple[str, int], tuple[str, str])


class Slots:
    """Slots of a label: the names with the most requests keep theirs, the others share ``other``.

    A new name takes a free slot. At the end of a period, as long as the longest window, a name with at least
    ``TAKEOVER_FACTOR`` times the requests of a holder takes over its slot, as does any name if the holder had
    none. So chance moves no slot, and unused names do not remain. Names without a slot are counted in bounded
    memory, never too high (Misra and Gries, *Finding repeated elements*, 1982).
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held: Counter[Hashable] = Counter()
        self._waiting: Counter[Hashable] = Counter()
        self.folded = 0
        """Requests whose name had no slot."""

    def __contains__(self, name: object) -> bool:
        return name in self._held

    def admit(self, name: Hashable) -> bool:
        """Count a request; return whether its name has a slot."""
        if name in self._held or len(self._held) < self._limit:
            self._held[name] += 1
            return True
        self.folded += 1
        if name in self._waiting or len(self._waiting) < MAX_WAITING:
            self._waiting[name] += 1
        else:
            self._waiting -= Counter(self._waiting.keys())
        return False

    def label(self, name: str) -> str:
        """Count a request; return the label of its name."""
        if not name:
            return UNKNOWN
        return name if name in {OTHER, UNKNOWN} or self.admit(name) else OTHER

    def end_period(self, gone: AbstractSet[Hashable] = frozenset()) -> AbstractSet[Hashable]:
        """Move slots, and return the names that lose theirs; those that are ``gone`` cannot come again."""
        held = {name: number for name, number in self._held.items() if name not in gone}
        waiting = self._waiting.most_common()[self._limit - len(held) :]  # those before take the free slots
        pairs = list(zip(sorted(held, key=held.__getitem__), waiting, strict=False))
        moved = {old: new for old, (new, number) in pairs if number >= max(1, TAKEOVER_FACTOR * held[old])}
        self._held = Counter(dict.fromkeys([*held.keys() - moved.keys(), *moved.values()], 0))
        self._waiting.clear()
        return gone | moved.keys()


def bucket_labels(bounds: Sequence[float]) -> list[str]:
    """Return the labels of the buckets below ascending upper ``bounds``, and of the one above them all.

    A bound belongs to the bucket below it: ``0.3-0.7`` contains 0.7 and not 0.3. A first bound of 0 is a
    bucket of its own, ``0``. The last label is ``>1``. No label has a space.
    """
    texts = [format(Decimal(str(bound)), "f").removesuffix(".0") for bound in bounds]
    buckets = zip(bounds, ["0", *texts], texts, strict=False)
    return [*(text if bound == 0 else f"{lower}-{text}" for bound, lower, text in buckets), f">{texts[-1]}"]


class RequestStore:
    """Requests by group, by prompt length and by user: in windows, and since the start."""

    def __init__(self, settings: RequestSettings, errors: Isolation | None = None) -> None:
        self._settings, self._errors = settings, errors or Isolation()
        users = settings.users.max if settings.users else 0
        limits = (settings.models, settings.types, users, settings.groups)
        self._slots = dict(zip(FOLDED, map(Slots, limits), strict=True))
        self._temperatures = bucket_labels(settings.temperatures)
        self._since_start: dict[GroupKey, Sums] = {}
        self._by_group: dict[GroupKey, Cells] = {}
        self._by_prompt: dict[tuple[str, int], Cells] = {}
        self._by_user: dict[tuple[str, str], Cells] = {}
        self._long: deque[LongRequest] = deque(maxlen=settings.keep)
        self._sources: Counter[RequestSource] = Counter()
        self._refused: Counter[Refusal] = Counter()
        self._longest = FIRST_LONGEST_WINDOW
        self._began = self._period_began = inf
        self._cell = 0
        self._lock = asyncio.Lock()
        self._version: tuple[object, ...] = ()
        self._before_windows = 0
        self.last = RequestFindings(enabled=settings.ingest)
        """The last result of ``findings``; empty before the first."""

    def take(self, request: RequestRecord, now: float, cost: CostRange | None) -> GroupKey:
        """Count a request that ended ``now``, at the cost of its target; return the key of its group."""
        self._advance(now)
        key, row = self._key(request), row_of(request, cost)
        self._sources[request.source] += 1
        self._since_start[key] = plus(self._since_start.get(key, NO_SUMS), row)
        for cells in self._cells_of(key, request):
            cells[self._cell] = plus(cells.get(self._cell, NO_SUMS), row)
        if request.drafts and request.draft_tokens and request.decoded_tokens >= MIN_TOKENS:
            accepted, decoded = request.accepted_tokens, request.decoded_tokens
            needed = (row.y_low - decoded + accepted) / request.drafts if row.evaluated else nan
            counts = (request.tokens, request.drafts, request.draft_tokens, accepted)
            self._long.append(LongRequest(now, key.model_name, *counts, needed))
        return key

    def resume(self, now: float) -> None:
        """Take requests again after a pause: windows that began before ``now`` are partial."""
        self._began, self._version = now, ()

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
            is_eager = taken - self._before_windows <= MAX_EAGER_REQUESTS
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

    def _key(self, request: RequestRecord) -> GroupKey:
        temperature = UNKNOWN
        if request.temperature is not None:
            temperature = self._temperatures[bisect_left(self._settings.temperatures, request.temperature)]
        model_name = self._slots["model_name"].label(request.model_name)
        key = GroupKey(model_name, self._slots["request_type"].label(request.request_type), temperature)
        return key if self._slots["group"].admit(key) else GroupKey(model_name, OTHER, OTHER)

    def _cells_of(self, key: GroupKey, request: RequestRecord) -> Iterator[Cells]:
        """Yield the cells of each key of a request."""
        yield self._by_group.setdefault(key, {})
        if request.prompt_tokens is not None:
            place = bisect_left(self._settings.prompt_tokens, request.prompt_tokens)
            yield self._by_prompt.setdefault((key.model_name, place), {})
        if request.user:
            yield self._by_user.setdefault((self._slots["user"].label(request.user), key.model_name), {})

    def _advance(self, now: float) -> None:
        """End a cell and a period if they are over ``now``."""
        self._began, self._period_began = min(self._began, now), min(self._period_began, now)
        if self._cell != (cell := int(now // CELL_SECONDS)):
            first = int((now - self._longest) // CELL_SECONDS)
            self._cell, self._began = cell, max(self._began, first * CELL_SECONDS)
            self._by_group = _aged(self._by_group, cell, first)
            self._by_prompt = _aged(self._by_prompt, cell, first)
            self._by_user = _aged(self._by_user, cell, first)
        if now - self._period_began >= self._longest:
            self._period_began = now
            self._move_slots()

    def _move_slots(self) -> None:
        """Move slots. In the windows, requests of a name without one are ``other``.

        Totals of a lost group end. If the remainder continued them, its counters would jump.
        """
        models, types, users = (self._slots[label].end_period() for label in FOLDED[:3])
        gone = {key for key in self._since_start if key.model_name in models or key.request_type in types}
        groups = self._slots["group"].end_period(gone)

        def model(name: str) -> str:
            return OTHER if name in models else name

        def group(key: GroupKey) -> GroupKey:
            return GroupKey(model(key.model_name), OTHER, OTHER) if key in groups else key

        self._since_start = {key: sums for key, sums in self._since_start.items() if group(key) == key}
        self._by_group = _relabelled(self._by_group, group)
        self._by_prompt = _relabelled(self._by_prompt, lambda key: (model(key[0]), key[1]))
        self._by_user = _relabelled(
            self._by_user, lambda key: (OTHER if key[0] in users else key[0], model(key[1]))
        )

    async def _evaluate(self, windows: Sequence[float], now: float) -> None:
        found = {}
        for length in windows:
            groups = await _sums_since(self._by_group, now - length)
            models = await self._models_since(now - length, groups)
            covered = min(length, now - self._began)
            own = [GroupFindings(*group) for group in groups.items()]
            found[format_duration(length)] = WindowFindings(length, covered < length, own, models, covered)
        self._before_windows = self._sources.total() - sum(sums.requests for sums in groups.values())
        users = await _sums_since(self._by_user, now - self._longest)
        prompts = await _sums_since(self._by_prompt, now - self._longest)
        self.last = replace(
            self.last,
            windows=found,
            users=[UserFindings(*key, sums) for key, sums in users.items()],
            prompts=self._prompt_findings(prompts),
        )

    async def _models_since(self, moment: float, groups: Mapping[GroupKey, Sums]) -> list[ModelFindings]:
        long: defaultdict[str, list[LongRequest]] = defaultdict(list)
        for each in self._long:
            if each.taken_at >= moment:
                long[each.model_name if each.model_name in self._slots["model_name"] else OTHER].append(each)
        findings = []
        for name in dict.fromkeys(key.model_name for key in groups):
            own = {key: sums for key, sums in groups.items() if key.model_name == name}
            evaluate = partial(_model_findings, name, own, long[name])
            findings.append(self._errors.attempt("requests", {"model_name": name}, evaluate))
            await yield_to_event_loop()
        return [each for each in findings if each]

    def _prompt_findings(self, prompts: Mapping[tuple[str, int], Sums]) -> list[PromptFindings]:
        labels = bucket_labels(self._settings.prompt_tokens)
        findings = []
        for name in dict.fromkeys(name for name, _ in prompts):
            buckets = [
                PromptBucket(labels[place], sums) for (own, place), sums in prompts.items() if own == name
            ]
            falls = self._errors.attempt(
                "requests", {"model_name": name}, partial(falls_with_prompt, buckets)
            )
            findings.append(PromptFindings(name, buckets, bool(falls)))
        return findings


def _aged(by_key: Mapping[Key, Cells], newest: int, first: int) -> dict[Key, Cells]:
    """Return the keys with their cells from number ``first`` on; an evaluation may still read the others."""
    return {key: kept for key, cells in by_key.items() if (kept := aged(cells, newest, first))}


def _relabelled(by_key: Mapping[Key, Cells], label: Callable[[Key], Key]) -> dict[Key, Cells]:
    """Return the cells by new keys."""
    result: dict[Key, Cells] = {}
    for key, cells in by_key.items():
        place = result.setdefault(label(key), {})
        for number, sums in cells.items():
            place[number] = plus(place[number], sums) if number in place else sums
    return result


async def _sums_since(by_key: Mapping[Key, Cells], moment: float) -> dict[Key, Sums]:
    """Return the sums of each key with requests since a moment, in the order of the keys."""
    found = {}
    for key in sorted(by_key):
        found[key] = since(by_key[key], moment)
        await yield_to_event_loop()
    return {key: sums for key, sums in found.items() if sums.requests}


def _model_findings(name: str, groups: Mapping[GroupKey, Sums], long: Sequence[LongRequest]) -> ModelFindings:
    summary, sample = added(groups.values()), even_sample(long, MAX_SAMPLE)
    two, hidden = modes_of(sample), hidden_share(summary, sample)
    mixed = two is not None or hidden is not None
    return ModelFindings(name, summary, two, mixed, advice(summary, two, groups, hidden))
