"""Drafting by a key over the last days, such as by K, as sums of blocks of polls.

Drafts of one request are alike, so polls tell less than their number. A block is ``BLOCK_SECONDS`` of polls
with one key, longer than most requests. Over the n blocks of a key, each with x and y, a ratio Σx / Σy has
bounds by the variation between blocks (batch means; see ``figures.estimate.sampled_ratio``).

Sums of a key cover its present half week and the half week of polls before it: 3.5 to 7 days.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import reduce
from itertools import groupby
from math import floor
from operator import add
from typing import Annotated, Final, NamedTuple

from pydantic import Field

from spec_decode_exporter.config.batch_schedule import MAX_POSITIONS
from spec_decode_exporter.core.numbers import Amount, Product, UnixTime
from spec_decode_exporter.costs.cost import CostSources
from spec_decode_exporter.figures.estimate import Estimate, ratio, sampled_ratio
from spec_decode_exporter.figures.window_figures import DecodeWork
from spec_decode_exporter.window.poll import Increment

BLOCK_SECONDS: Final = 120.0  # time of a block; requests of more than that are rare
MIN_BLOCKS: Final = 6  # blocks that bounds need: batch means with fewer are too narrow
HALF_WEEK: Final = 3.5 * 86_400


class Piece(NamedTuple):
    """A poll, or sums over the polls of a block."""

    seconds: Amount
    steps: Amount  # S; if unknown, one token and the accepted ones of its draft are a step
    tokens: Amount  # G - F
    drafts: Amount
    draft_tokens: Amount
    accepted: Amount
    running: Amount  # Σ over the steps: running requests

    @classmethod
    def of(cls, increment: Increment, *, knows_steps: bool) -> Piece | None:
        """Return a poll; None without S or T."""
        its = increment.counters
        decoded = max(0, its.generation_tokens - its.first_tokens) or its.drafts + its.accepted_tokens
        steps = its.decode_steps if knows_steps else max(decoded - its.accepted_tokens, its.drafts)
        if steps <= 0 or (its.drafts and not its.draft_tokens):
            return None
        work = steps, decoded, its.drafts, its.draft_tokens, its.accepted_tokens
        return cls(increment.end - increment.begin, *work, steps * max(increment.load, 1.0))


class Blocks(NamedTuple):
    """Sums over the blocks of a key in a half week."""

    number: Amount
    begin: UnixTime
    end: UnixTime
    sums: Piece
    squares: Annotated[tuple[Product, ...], Field(min_length=6, max_length=6)]
    """Σ of AA, AD, DD, NN, NS and SS, with N tokens."""

    @classmethod
    def of(cls, block: Piece, begin: float, end: float) -> Blocks:
        """Return the sums of one block between two Unix times."""
        accepted, drafts, tokens, steps = block.accepted, block.drafts, block.tokens, block.steps
        acceptance = accepted * accepted, accepted * drafts, drafts * drafts
        return cls(1, begin, end, block, (*acceptance, tokens * tokens, tokens * steps, steps * steps))

    def plus(self, other: Blocks) -> Blocks:
        """Return the sums of both."""
        sums, squares = Piece(*map(add, self.sums, other.sums)), tuple(map(add, self.squares, other.squares))
        begin, end = min(self.begin, other.begin), max(self.end, other.end)
        return Blocks(self.number + other.number, begin, end, sums, squares)

    @property
    def running_requests(self) -> float:
        """Mean running requests of the steps."""
        return ratio(self.sums.running, self.sums.steps) or 0.0

    @property
    def acceptance_length(self) -> Estimate | None:
        """1 + A/D; None without drafts or with too few blocks."""
        found = self._ratio(self.sums.accepted, self.sums.drafts, *self.squares[:3])
        return found and found._replace(value=1 + found.value, lower=1 + found.lower, upper=1 + found.upper)

    @property
    def tokens_per_step(self) -> Estimate | None:
        """(G - F)/S; None with too few blocks."""
        return self._ratio(self.sums.tokens, self.sums.steps, *self.squares[3:])

    def speedup(self, model: CostSources) -> Estimate | None:
        """Return the speed-up of decoding by the cost at this load; None without drafts, cost or bounds."""
        its, sampled = self.sums, self.tokens_per_step
        if not its.drafts or sampled is None:
            return None
        cost = model.at(self.running_requests, its.draft_tokens / its.drafts)
        if cost is None:
            return None
        counts = (its.tokens, its.steps, min(its.drafts, its.steps), its.draft_tokens)
        work = DecodeWork(*map(round, counts))
        prices = zip(sampled[:3], (cost.guess, cost.high, cost.low), strict=True)
        value, low, high = (tokens * its.steps / price.plain_steps(work) for tokens, price in prices)
        return Estimate(value, min(value, low), max(value, high), sampled.standard_error)

    def _ratio(self, x: float, y: float, xx: float, xy: float, yy: float) -> Estimate | None:
        return sampled_ratio(self.number, x, xx, y, xy, yy) if self.number >= MIN_BLOCKS and y else None


Kept = dict[Annotated[int, Field(ge=0, le=MAX_POSITIONS)], Annotated[list[Blocks], Field(max_length=2)]]
"""By key: sums of one or two half weeks, the newest last."""


@dataclass(slots=True)
class BlocksByKey:
    """Adds up polls to blocks, and blocks to sums, by key."""

    kept: dict[int, list[Blocks]] = field(default_factory=dict)
    _growing: dict[int, tuple[float, Piece]] = field(default_factory=dict)
    """Unix time of the begin, and sums, of blocks that are not complete."""

    def add(self, key: int, piece: Piece, wall: float) -> None:
        """Add a poll that ended at a Unix time."""
        begin, before = self._growing.get(key, (wall - piece.seconds, None))
        if before is not None:
            piece = Piece._make(map(add, before, piece))
        if piece.seconds < BLOCK_SECONDS:
            self._growing[key] = begin, piece
            return
        self._growing.pop(key, None)
        self.include(key, Blocks.of(piece, begin, wall))

    def include(self, key: int, blocks: Blocks) -> None:
        """Add complete blocks of a key, restored ones after newer ones too."""
        known = self.kept.setdefault(key, [])
        ordered = sorted([*known, blocks], key=lambda each: each.end)
        half_weeks = groupby(ordered, key=lambda each: floor(each.end / HALF_WEEK))
        known[:] = [reduce(Blocks.plus, own) for _, own in half_weeks][-2:]

    def sums(self, wall: float) -> dict[int, Blocks]:
        """Return the sums of each key, ascending, of the last 7 days before a Unix time."""
        begin = wall - 2 * HALF_WEEK
        recent = {key: [each for each in self.kept[key] if each.end > begin] for key in sorted(self.kept)}
        return {key: reduce(Blocks.plus, own) for key, own in recent.items() if own}
