"""Draft regimes: the numbers of draft tokens that a batch schedule chose within a window.

vLLM's ``num_speculative_tokens_per_batch_size`` changes K with the load. Then drafts of k < K tokens have no
position k or higher, and a share of all drafts understates the acceptance there. The counters of an increment
show its k: with T = k·D every draft had k tokens, except by chance. So the increments with equal k are a
regime, and position i has the drafts of the regimes with k > i.

Drafts of different lengths in one increment, as of an n-gram search, have no regime. Neither have increments
during which k changed: their drafts by length are unknown, and they are left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from weakref import WeakKeyDictionary

from spec_decode_exporter.scrape.page.engine_table import Counter
from spec_decode_exporter.window.ledger import Increments, Window

MIN_DRAFTS: Final = 10
"""Drafts of an increment. Fewer drafts of different lengths often have T = k·D by chance."""
MIN_SHARE: Final = 0.5
"""Share of the drafts that are in regimes. Drafts of 1 to 4 tokens, evenly, reach 0.1 by chance."""
MIN_SHORT_SHARE: Final = 0.05
"""Share of the drafts that are in regimes below K; with fewer, all figures are nearly those of K."""


@dataclass(frozen=True, slots=True)
class DraftRegime:
    """Sums over the increments whose drafts all had the same number of tokens."""

    tokens: int
    """k: at least 1."""
    drafts: int
    positions: tuple[int, ...]
    """Accepted tokens of the first k positions."""

    @property
    def reached(self) -> tuple[int, ...]:
        """Drafts that were accepted up to each of the k positions: all of them before the first."""
        return (self.drafts, *self.positions[:-1])


DraftRegimes = tuple[DraftRegime, ...]

_known: WeakKeyDictionary[Increments, DraftRegimes] = WeakKeyDictionary()
"""Regimes of the increments in use: several figures of a window need them."""


def draft_regimes(window: Window) -> DraftRegimes:
    """Return the regimes by ascending k; empty if all drafts have K tokens, or if their lengths vary."""
    drafts, drafted, positions = window[Counter.DRAFTS], window[Counter.DRAFT_TOKENS], len(window.positions)
    if not drafts or drafted is None or drafted >= positions * drafts:
        return ()
    regimes = _known.get(window.increments)
    if regimes is None:
        regimes = _known[window.increments] = _regimes(window.increments, drafts, positions)
    return regimes


def _regimes(increments: Increments, drafts: int, positions: int) -> DraftRegimes:
    places = _places(increments, positions)
    columns = increments.counter(Counter.DRAFTS)
    numbers = {tokens: sum(columns[place] for place in own) for tokens, own in places.items()}
    short = sum(number for tokens, number in numbers.items() if tokens < positions)
    if sum(numbers.values()) < MIN_SHARE * drafts or short < MIN_SHORT_SHARE * drafts:
        return ()
    accepted = [increments.position(position) for position in range(max(numbers))]
    return tuple(
        DraftRegime(
            tokens,
            numbers[tokens],
            tuple(sum(column[place] for place in places[tokens]) for column in accepted[:tokens]),
        )
        for tokens in sorted(numbers)
    )


def _places(increments: Increments, positions: int) -> dict[int, list[int]]:
    """Return the increments whose drafts all had k tokens, by k."""
    places: dict[int, list[int]] = {}
    pairs = zip(increments.counter(Counter.DRAFTS), increments.counter(Counter.DRAFT_TOKENS), strict=True)
    for place, (drafts, drafted) in enumerate(pairs):
        if drafts >= MIN_DRAFTS and drafted % drafts == 0 and 0 < drafted <= positions * drafts:
            places.setdefault(drafted // drafts, []).append(place)
    return places
