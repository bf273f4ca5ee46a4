"""Requests that something is wrong with: almost nothing of their drafts is accepted, or almost everything.

A proposed change of vLLM (pull request 44487) wants to see the same two: of text that is garbled hardly a
draft token is accepted (0.9 % in vLLM's issue 36872), and of a loop of repetition every one (a comment on its
issue 55605). One request says so only if it drafted enough. The share of its draft tokens that the target
accepts lies within Wilson's bounds of what was accepted,

    (a + z²/2 ± z·√(a·(n - a)/n + z²/4)) / (n + z²)

for a of n (*Probable inference, the law of succession, and statistical inference*, JASA 22, 1927).
Draft tokens of one step are not independent: a rejected one takes those after it along. So n is the number of
drafts, and a the same share of it: the widest that the bounds can be.
"""

from __future__ import annotations

from enum import IntEnum
from math import sqrt
from typing import Final

ALMOST_NOTHING: Final = 0.05
"""A request is rejected if the upper bound of its share is below this: speculation does nothing for it."""
ALMOST_EVERYTHING: Final = 0.95
"""A request is repetitive if the lower bound of its share is above this; what copies code stays below."""
_Z: Final = 1.96
"""95 % of such bounds hold. So 73 drafts must be rejected throughout, or accepted, before a request is called
so, which is 73 tokens of garbled text, or 365 of a loop where four are drafted."""


class Pathology(IntEnum):
    """What is wrong with a request."""

    NONE = 0
    REJECTED = 1
    REPETITIVE = 2


def share_bounds(share: float, number: int) -> tuple[float, float]:
    """Return Wilson's 95 % bounds of a share of ``number``, which is at least 1."""
    squared = _Z * _Z
    middle = share * number + squared / 2
    half = _Z * sqrt(share * (1 - share) * number + squared / 4)
    return (middle - half) / (number + squared), (middle + half) / (number + squared)


def pathology(drafts: int, draft_tokens: int, accepted_tokens: int) -> Pathology:
    """Return what is wrong with a request, as far as its drafts are enough to say so."""
    if not drafts or not draft_tokens:
        return Pathology.NONE
    lower, upper = share_bounds(accepted_tokens / draft_tokens, drafts)
    if upper < ALMOST_NOTHING:
        return Pathology.REJECTED
    return Pathology.REPETITIVE if lower > ALMOST_EVERYTHING else Pathology.NONE
