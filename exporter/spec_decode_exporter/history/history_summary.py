"""Summary of a history: shares of time and tokens, by load and hour, saved time, and the best depth."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from math import floor, log2
from typing import Final, TypeVar

from spec_decode_exporter.core.number_formats import number_range
from spec_decode_exporter.figures.estimate import ratio
from spec_decode_exporter.history.slot_evaluation import Outcome, SlotResult

SPECULATING: Final = (Outcome.PAID, Outcome.HURT, Outcome.UNCLEAR)
"""Outcomes of slots with drafts."""
HOUR: Final = 3600.0
_TOLERANCE: Final = 0.03
"""Share of the best speed-up within which fewer draft tokens are preferred, as in ``config.policy``."""

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, slots=True)
class MeanSpeedup:
    """Speed-up over several slots, weighted by decode time.

    The bounds are the weighted means of the slots' bounds. Sampling errors of many slots partly
    cancel, errors of the cost do not: so the bounds are wide rather than narrow.
    """

    value: float
    lower: float
    upper: float
    decode_seconds: float
    """Decode time of the slots, summed over requests."""

    @property
    def saved_seconds(self) -> tuple[float, float, float]:
        """Decode time that speculation saved, with its bounds; negative if it cost time."""
        time = self.decode_seconds
        return (self.value - 1) * time, (self.lower - 1) * time, (self.upper - 1) * time


@dataclass(frozen=True, slots=True)
class Share:
    """Amounts of one outcome."""

    seconds: float
    tokens: int


@dataclass(frozen=True, slots=True)
class SlotSummary:
    """Summary of some slots."""

    shares: Mapping[Outcome, Share]
    speedup: MeanSpeedup | None
    """None if no slot has a speed-up with bounds."""
    acceptance_length: float | None
    """Tokens of a draft, the bonus token included."""

    @property
    def drafting(self) -> Share:
        """Amounts of all slots with drafts."""
        found = [self.shares[outcome] for outcome in SPECULATING if outcome in self.shares]
        return Share(sum(each.seconds for each in found), sum(each.tokens for each in found))

    def share_of_time(self, outcome: Outcome) -> float | None:
        """Return the share of the time with drafts that an outcome had; None without drafts."""
        return ratio(self.shares[outcome].seconds if outcome in self.shares else 0.0, self.drafting.seconds)

    def share_of_tokens(self, outcome: Outcome) -> float | None:
        """Return the share of the tokens with drafts that an outcome had; None without drafts."""
        return ratio(self.shares[outcome].tokens if outcome in self.shares else 0, self.drafting.tokens)


def summary(slots: Sequence[SlotResult]) -> SlotSummary:
    """Summarise slots of one or more engines."""
    seconds: defaultdict[Outcome, float] = defaultdict(float)
    tokens: defaultdict[Outcome, int] = defaultdict(int)
    for slot in slots:
        seconds[slot.outcome] += slot.seconds
        tokens[slot.outcome] += slot.generated
    accepted = ratio(sum(slot.accepted_tokens for slot in slots), sum(slot.drafts for slot in slots))
    return SlotSummary(
        {outcome: Share(seconds[outcome], tokens[outcome]) for outcome in Outcome if outcome in seconds},
        mean_speedup(slots),
        None if accepted is None else 1 + accepted,
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


def by_load(slots: Iterable[SlotResult]) -> dict[int, list[SlotResult]]:
    """Return the slots with drafts by load band: from 2^n to below 2^(n+1) running requests, ascending."""
    return _grouped(slots, lambda slot: _band(slot.running_requests))


def band_name(band: int) -> str:
    """Name a load band: ``8 to 15``."""
    first, last = 2**band, 2 ** (band + 1) - 1
    return number_range(first, last)


def by_hour(slots: Iterable[SlotResult]) -> dict[int, list[SlotResult]]:
    """Return the slots with drafts by hour of the day (UTC), ascending."""
    return _grouped(slots, lambda slot: _moment(slot).hour)


def by_day_and_hour(slots: Iterable[SlotResult]) -> dict[tuple[str, int], list[SlotResult]]:
    """Return the slots with drafts by day and hour (UTC), ascending."""
    return _grouped(slots, lambda slot: (f"{_moment(slot):%Y-%m-%d}", _moment(slot).hour))


def by_tokens(slots: Iterable[SlotResult]) -> dict[int, list[SlotResult]]:
    """Return the slots with drafts by K, ascending."""
    return _grouped(slots, lambda slot: slot.tokens)


@dataclass(frozen=True, slots=True)
class BestTokens:
    """Expected speed-up by number of draft tokens over several slots."""

    speedups: Mapping[int, float]
    best: int
    """Fewest draft tokens within ``_TOLERANCE`` of the best; 0: no speculation."""


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
    enough = (1 - _TOLERANCE) * max(found.values())
    best = next(depth for depth, speedup in found.items() if speedup >= enough)
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


def _band(running: float | None) -> int | None:
    return None if running is None else floor(log2(max(running, 1.0)))


def _moment(slot: SlotResult) -> datetime:
    return datetime.fromtimestamp((slot.begin + slot.end) / 2, UTC)


def _grouped(slots: Iterable[SlotResult], key: Callable[[SlotResult], K | None]) -> dict[K, list[SlotResult]]:
    groups: defaultdict[K, list[SlotResult]] = defaultdict(list)
    for slot in slots:
        found = key(slot) if slot.outcome in SPECULATING else None
        if found is not None:
            groups[found].append(slot)
    return dict(sorted(groups.items(), key=lambda group: group[0]))  # type: ignore[arg-type, return-value]
