"""Result of reading a history, with its summaries, changes and drops.

The text, the HTML and the JSON of the report read these records.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from itertools import pairwise
from math import floor, log2
from typing import Final, TypeVar

from spec_decode_exporter.analysis.recommended_setting import SpeculationSetting
from spec_decode_exporter.analysis.speculation import Speculation
from spec_decode_exporter.config.policy import DepthPolicy
from spec_decode_exporter.core.number_formats import number_range
from spec_decode_exporter.costs.baseline import BaselineSummary
from spec_decode_exporter.figures.estimate import ratio
from spec_decode_exporter.history.history_slots import SlotOutcome, SlotResult, TimedEvent

SPECULATING: Final = (SlotOutcome.PAID, SlotOutcome.HURT, SlotOutcome.UNCLEAR)
"""Outcomes of slots with drafts."""
SIDE_SECONDS: Final = 24 * 3600.0
"""Time before and after a change that is compared, at most."""
_ENOUGH: Final = 1 - DepthPolicy().tolerance
"""Share of the best speed-up from which on fewer draft tokens are preferred."""
_BEGINS: Final = {"acceptance_dropped", "drafting_dropped"}
_ENDS: Final = {
    "acceptance_recovered": True,
    "drafting_recovered": True,
    "acceptance_baseline_reset": False,
    "drafting_baseline_reset": False,
}
"""Events that end a drop, and whether it is over: after a reset of its baseline the low value is normal."""

K = TypeVar("K", bound=Hashable)
Slots = Sequence[SlotResult]


@dataclass(frozen=True, slots=True)
class BoundedMean:
    """A mean over slots with its bounds."""

    value: float
    lower: float
    upper: float


@dataclass(frozen=True, slots=True)
class MeanSpeedup(BoundedMean):
    """Speed-up over several slots, weighted by decode time.

    The bounds are the weighted means of the slots' bounds. Sampling errors of many slots partly
    cancel, errors of the cost do not: so the bounds are wide rather than narrow.
    """

    decode_seconds: float
    """Decode time of the slots, summed over requests."""

    @property
    def saved(self) -> BoundedMean:
        """Decode seconds that speculation saved; negative if it cost time."""
        return BoundedMean(
            *((each - 1) * self.decode_seconds for each in (self.value, self.lower, self.upper))
        )


@dataclass(frozen=True, slots=True)
class Share:
    """Amounts of one outcome."""

    seconds: float
    tokens: int


@dataclass(frozen=True, slots=True)
class SlotSummary:
    """Summary of some slots."""

    shares: Mapping[SlotOutcome, Share]
    speedup: MeanSpeedup | None
    """None if no slot has a speed-up with bounds."""
    acceptance_length: float | None
    """Tokens of a draft, the bonus token included."""
    saved_decode_seconds: BoundedMean | None

    @property
    def drafting(self) -> Share:
        """Amounts of all slots with drafts."""
        found = [self.shares[outcome] for outcome in SPECULATING if outcome in self.shares]
        return Share(sum(each.seconds for each in found), sum(each.tokens for each in found))

    def share_of(self, outcome: SlotOutcome, amount: str = "seconds") -> float | None:
        """Return an outcome's share of the seconds or tokens with drafts; None without drafts."""
        its = self.shares.get(outcome, Share(0.0, 0))
        return ratio(getattr(its, amount), getattr(self.drafting, amount))


@dataclass(frozen=True, slots=True)
class BestTokens:
    """Expected speed-up by number of draft tokens over several slots."""

    speedups: Mapping[int, float]
    best: int
    """Fewest draft tokens within the policy's tolerance of the best; 0: no speculation."""


@dataclass(frozen=True, slots=True)
class GroupSummary(SlotSummary):
    """Summary of the slots of a load or of a K."""

    best_tokens: BestTokens | None
    """None if no slot knows."""


@dataclass(frozen=True, slots=True)
class HistoryTotals:
    """Summaries of the slots of one or more engines; those of groups have only slots with drafts."""

    summary: SlotSummary
    by_running_requests: Mapping[str, GroupSummary]
    """By load band, such as ``8 to 15``: from 2^n to below 2^(n+1) running requests."""
    by_hour_utc: Mapping[int, SlotSummary]
    """By the hour of the day of a slot's middle."""
    by_draft_tokens: Mapping[int, GroupSummary]
    """By K."""


@dataclass(frozen=True, slots=True)
class Side:
    """An engine before or after a change."""

    tokens: int
    """K; 0 without speculation."""
    speedup: MeanSpeedup | None
    acceptance_length: float | None
    step_seconds: float | None
    """Mean time of a decode step."""
    first_token_seconds: float | None
    """Mean time to first token."""
    seconds: float

    @property
    def bounds(self) -> tuple[float, float] | None:
        """Bounds of the speed-up: exactly 1 without speculation."""
        if not self.tokens:
            return 1.0, 1.0
        return None if self.speedup is None else (self.speedup.lower, self.speedup.upper)


@dataclass(frozen=True, slots=True)
class HistoryChange:
    """A restart of the server, maybe with another K."""

    time: float
    """Unix time."""
    before: Side
    after: Side
    name: str
    speedup_differs: bool | None
    """Whether the bounds of the speed-ups have nothing in common; None if one is unknown."""


@dataclass(frozen=True, slots=True)
class HistoryDrop:
    """A drop of the acceptance, or of the share of steps with a draft."""

    kind: str
    begin: float
    """Unix time."""
    end: float | None
    """Unix time; None if it was not over at the end of the history."""
    recovered: bool
    """False if the acceptance stayed low, so that the low value became the baseline."""
    before: float
    """Tokens of a draft, or of a step, before it."""
    after: float
    depth: float
    """The drop relative to the value before."""


@dataclass(frozen=True, slots=True)
class HistorySetting:
    """Best setting by load with the last number of draft tokens, or why it is unknown."""

    setting: SpeculationSetting | None
    """None unless the cost is known at several loads."""
    speculation: Speculation
    loads: tuple[float, ...]
    """Running requests at which the cost was measured, ascending."""


@dataclass(frozen=True)
class EngineHistoryResult:
    """History of one engine."""

    target: str
    labels: Mapping[str, str]
    """Labels that identify the server."""
    model_name: str
    engine: str
    scrape_interval_seconds: float
    scrapes: int
    slots: Slots
    """In the order of time."""
    events: Sequence[TimedEvent]
    """Drops and resets, in the order of time."""
    baselines: Sequence[BaselineSummary]
    """Periods without speculation."""
    setting: HistorySetting | None = None
    """Draft tokens by load that would have been best; None without drafts."""

    @cached_property
    def totals(self) -> HistoryTotals:
        """Summaries of all slots."""
        return totals(self.slots)

    @cached_property
    def changes(self) -> Sequence[HistoryChange]:
        """Changes between two processes or two values of K, oldest first."""
        return tuple(changes(self.slots))

    @cached_property
    def drops(self) -> Sequence[HistoryDrop]:
        """Drops, in the order of their ends."""
        return tuple(drops(self.events))


@dataclass(frozen=True)
class HistoryResult:
    """History of all engines between two Unix times."""

    source: str
    """Address of the server that it was read from."""
    begin: float
    end: float
    slot_seconds: float
    engines: Sequence[EngineHistoryResult]
    notes: Sequence[str] = ()
    """Remarks about the reading: duplicates, clocks, unreadable scrapes."""
    incomplete: str = ""
    """Reason why the report covers only a part; empty if it is complete."""

    @cached_property
    def slots(self) -> Slots:
        """Slots of all engines."""
        return [slot for engine in self.engines for slot in engine.slots]

    @cached_property
    def fleet(self) -> HistoryTotals:
        """Summaries of all engines together."""
        return totals(self.slots)


def totals(slots: Slots) -> HistoryTotals:
    """Return the summaries of slots of one or more engines."""
    return HistoryTotals(
        summary(slots),
        {_band_name(band): _group(members) for band, members in _grouped(slots, _band).items()},
        {
            hour: summary(members)
            for hour, members in _grouped(slots, lambda slot: _middle(slot).hour).items()
        },
        {tokens: _group(members) for tokens, members in _grouped(slots, lambda slot: slot.tokens).items()},
    )


def summary(slots: Slots) -> SlotSummary:
    """Summarise slots of one or more engines."""
    seconds: defaultdict[SlotOutcome, float] = defaultdict(float)
    tokens: defaultdict[SlotOutcome, int] = defaultdict(int)
    for slot in slots:
        seconds[slot.outcome] += slot.seconds
        tokens[slot.outcome] += slot.generated
    shares = {
        outcome: Share(seconds[outcome], tokens[outcome]) for outcome in SlotOutcome if outcome in seconds
    }
    accepted = ratio(sum(slot.accepted_tokens for slot in slots), sum(slot.drafts for slot in slots))
    speedup = mean_speedup(slots)
    return SlotSummary(
        shares, speedup, None if accepted is None else 1 + accepted, speedup.saved if speedup else None
    )


def mean_speedup(slots: Iterable[SlotResult]) -> MeanSpeedup | None:
    """Return the speed-up over the slots that have one: that of their decode time together."""
    known = [(slot.speedup, slot.decode_seconds) for slot in slots if slot.speedup and slot.decode_seconds]
    total = sum(seconds for _, seconds in known)
    if not total:
        return None
    return MeanSpeedup(
        sum(each.value * seconds for each, seconds in known) / total,
        sum(each.lower * seconds for each, seconds in known) / total,
        sum(each.upper * seconds for each, seconds in known) / total,
        total,
    )


def best_tokens(slots: Iterable[SlotResult]) -> BestTokens | None:
    """Return the number of draft tokens that would have been best; None if no slot knows.

    A slot that took T of decode time at K would have taken T·S(K)/S(k) at k, and T·S(K) without speculation.
    """
    known = [
        (slot.speedups, slot.speedups[slot.tokens], slot.decode_seconds)
        for slot in slots
        if slot.decode_seconds and slot.speedup and slot.speedups.get(slot.tokens)
    ]
    depths = set.intersection(*(set(speedups) for speedups, _, _ in known)) if known else set()
    if len(depths) <= 1:
        return None
    plain = sum(now * seconds for _, now, seconds in known)
    found = {
        depth: plain / sum(now * seconds / speedups[depth] for speedups, now, seconds in known)
        for depth in sorted(depths)
    }
    best = next(depth for depth, speedup in found.items() if speedup >= _ENOUGH * max(found.values()))
    return BestTokens(found, best if found[best] > 1 else 0)


def positions(slots: Iterable[SlotResult]) -> list[float]:
    """Return the share of drafts that each position was accepted in; empty without drafts."""
    drafts, accepted = 0, [0] * 0
    for slot in slots:
        drafts += slot.drafts
        accepted += [0] * (len(slot.positions) - len(accepted))
        for place, count in enumerate(slot.positions):
            accepted[place] += count
    return [count / drafts for count in accepted] if drafts else []


def by_day_and_hour(slots: Iterable[SlotResult]) -> dict[tuple[str, int], list[SlotResult]]:
    """Return the slots with drafts by day and hour (UTC), ascending."""
    return _grouped(slots, lambda slot: (f"{_middle(slot):%Y-%m-%d}", _middle(slot).hour))


def changes(slots: Slots) -> Iterator[HistoryChange]:
    """Yield the changes between two processes or two values of K, oldest first."""
    runs: list[list[SlotResult]] = []
    for slot in slots:
        if slot.outcome is SlotOutcome.IDLE:
            continue
        if runs and _process(runs[-1][-1]) == _process(slot):
            runs[-1].append(slot)
        else:
            runs.append([slot])
    for earlier, later in pairwise(runs):
        time = later[0].begin
        before = _side([slot for slot in earlier if slot.end > earlier[-1].end - SIDE_SECONDS])
        after = _side([slot for slot in later if slot.begin < time + SIDE_SECONDS])
        yield HistoryChange(
            time, before, after, _change_name(before.tokens, after.tokens), _differs(before, after)
        )


def drops(events: Sequence[TimedEvent]) -> Iterator[HistoryDrop]:
    """Yield the drops, in the order of their ends."""
    open_drops: dict[str, tuple[float, float, float]] = {}
    for time, event in events:
        name, fields = event.name, event.fields
        kind = str(fields.get("kind"))
        if name in _BEGINS:
            began = time - _number(fields["seconds"])
            open_drops[kind] = began, _number(fields["baseline_length"]), _number(fields["length"])
        elif name in _ENDS and kind in open_drops:
            began, before, after = open_drops.pop(kind)
            yield HistoryDrop(kind, began, time, _ENDS[name], before, after, 1 - after / before)
    for kind, (began, before, after) in open_drops.items():
        yield HistoryDrop(kind, began, None, False, before, after, 1 - after / before)


def _group(slots: Slots) -> GroupSummary:
    its = summary(slots)
    return GroupSummary(
        its.shares, its.speedup, its.acceptance_length, its.saved_decode_seconds, best_tokens(slots)
    )


def _band(slot: SlotResult) -> int | None:
    return None if slot.running_requests is None else floor(log2(max(slot.running_requests, 1.0)))


def _band_name(band: int) -> str:
    return number_range(2**band, 2 ** (band + 1) - 1)


def _middle(slot: SlotResult) -> datetime:
    return datetime.fromtimestamp((slot.begin + slot.end) / 2, UTC)


def _grouped(slots: Iterable[SlotResult], key: Callable[[SlotResult], K | None]) -> dict[K, list[SlotResult]]:
    """Return the slots with drafts by key, ascending; those without one are left out."""
    groups: defaultdict[K, list[SlotResult]] = defaultdict(list)
    for slot in slots:
        found = key(slot) if slot.outcome in SPECULATING else None
        if found is not None:
            groups[found].append(slot)
    return dict(sorted(groups.items(), key=lambda group: group[0]))  # type: ignore[arg-type, return-value]


def _process(slot: SlotResult) -> tuple[int, int]:
    return slot.process, slot.tokens


def _change_name(before: int, after: int) -> str:
    if before == after:
        return "restart"
    if not before:
        return f"speculation enabled with {after} draft tokens"
    return f"{after} draft tokens instead of {before}" if after else "speculation disabled"


def _differs(before: Side, after: Side) -> bool | None:
    one, other = before.bounds, after.bounds
    return None if one is None or other is None else one[1] < other[0] or other[1] < one[0]


def _side(slots: Slots) -> Side:
    drafts = sum(slot.drafts for slot in slots)
    accepted = sum(slot.accepted_tokens for slot in slots)
    return Side(
        slots[-1].tokens,
        mean_speedup(slots),
        1 + accepted / drafts if drafts else None,
        _mean([slot.step_seconds for slot in slots]),
        _mean([slot.first_token_seconds for slot in slots]),
        sum(slot.seconds for slot in slots),
    )


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0
