"""Batch schedule, vLLM's ``num_speculative_tokens_per_batch_size``: fewer draft tokens for larger batches.

vLLM takes ``[[first, last, tokens], …]``: batch sizes from 1, both ends included, without overlaps. Gaps and
batches beyond the last range keep the tokens of the previous range (``vllm/config/speculative.py``).
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

MAX_POSITIONS: Final = 128  # maximum draft positions: draft tokens at a time
MAX_RANGES: Final = 64  # maximum number of ranges. One range for each power of two needs 32.
MAX_BATCH: Final = 2**31  # maximum requests in a batch
SCHEDULE_KEY: Final = "num_speculative_tokens_per_batch_size"


@dataclass(frozen=True, slots=True)
class BatchSchedule:
    """Draft tokens by batch size. Without ranges K applies to every batch."""

    firsts: tuple[int, ...] = ()
    """First batch size of each range, ascending."""
    tokens: tuple[int, ...] = ()
    """Draft tokens of each range."""

    def __bool__(self) -> bool:
        return bool(self.firsts)

    @property
    def pauses(self) -> bool:
        """True if the server drafts no tokens for some batch sizes."""
        return 0 in self.tokens

    @property
    def ranges(self) -> tuple[tuple[int, int, int], ...]:
        """Ranges as vLLM takes them, without gaps; the last has no end."""
        lasts = [*(first - 1 for first in self.firsts[1:]), MAX_BATCH]
        return tuple(zip(self.firsts, lasts, self.tokens, strict=False))

    def up_to(self, highest: int) -> list[tuple[int, int, int]]:
        """Return the ranges; the last one ends at a batch size, or where it begins if that is higher."""
        found = list(self.ranges)
        if found:
            first, _, tokens = found[-1]
            found[-1] = (first, min(max(highest, first), MAX_BATCH), tokens)
        return found

    def at(self, running_requests: float) -> int | None:
        """Return the draft tokens for a batch size; None below the first range."""
        place = bisect_right(self.firsts, running_requests)
        return self.tokens[place - 1] if place else None


NO_SCHEDULE: Final = BatchSchedule()


def batch_schedule(value: object) -> BatchSchedule:
    """Parse the value of the setting, ranges in any order; None is no schedule.

    An invalid range invalidates the schedule: a part of it would be another schedule.

    Raises:
        ValueError: The value is not a schedule, or exceeds the limits; the text quotes none of its content.
    """
    if value is None:
        return NO_SCHEDULE
    if not isinstance(value, list) or len(value) > MAX_RANGES:
        raise ValueError(f"{SCHEDULE_KEY} is not a list of at most {MAX_RANGES} [first, last, tokens]")
    ranges = sorted(map(_range, value))
    if any(later[0] <= earlier[1] for earlier, later in pairwise(ranges)):
        raise ValueError(f"{SCHEDULE_KEY} has ranges that overlap")
    return BatchSchedule(tuple(first for first, _, _ in ranges), tuple(tokens for _, _, tokens in ranges))


def _range(entry: object) -> tuple[int, int, int]:
    # Not isinstance(…, int): JSON's true is an int in Python.
    if not (isinstance(entry, list) and len(entry) == 3 and all(type(each) is int for each in entry)):  # noqa: PLR2004
        raise ValueError(f"{SCHEDULE_KEY} has a range that is not [first, last, tokens] in whole numbers")
    first, last, tokens = entry
    if not 1 <= first <= last <= MAX_BATCH:
        raise ValueError(f"{SCHEDULE_KEY} has a range that is not within 1 and {MAX_BATCH}")
    if not 0 <= tokens <= MAX_POSITIONS:
        raise ValueError(f"{SCHEDULE_KEY} has a number of tokens that is not within 0 and {MAX_POSITIONS}")
    return first, last, tokens
