"""Pathological requests: almost none, or almost all, of the draft tokens are accepted.

vLLM's pull request 44487 proposes the same two. Garbled text has almost none accepted: 0.9 % in vLLM's issue
36872. A repetition loop has all accepted: see a comment on its issue 55605. The request must have enough
drafts. Its share of accepted draft tokens lies within Wilson's bounds

    (a + z²/2 ± z·√(a·(n - a)/n + z²/4)) / (n + z²)

for a of n (*Probable inference, the law of succession, and statistical inference*, JASA 22, 1927). Draft
tokens of one step are dependent: a rejected one rejects those after it. So n is the number of drafts, and a
is the same share of it. These are the widest possible bounds.
"""

from __future__ import annotations

from enum import IntEnum
from math import sqrt
from typing import Final

from spec_decode_exporter.figures.student_t import NORMAL_975

ALMOST_NONE: Final = 0.05
"""A request is rejected if the upper bound of its share is below this: speculation does not help it."""
ALMOST_ALL: Final = 0.95
"""A request is repetitive if the lower bound of its share is above this; copied code is below."""
# At least 73 drafts must be rejected, or accepted, throughout: 73 tokens of garbled text, or 365 tokens of a
# loop with four draft tokens.


class Pathology(IntEnum):
    """Pathology of a request."""

    NONE = 0
    REJECTED = 1
    REPETITIVE = 2


def share_bounds(share: float, number: int) -> tuple[float, float]:
    """Return Wilson's 95 % bounds of a share of ``number``, which is at least 1."""
    squared = NORMAL_975**2
    middle = share * number + squared / 2
    half = NORMAL_975 * sqrt(share * (1 - share) * number + squared / 4)
    return (middle - half) / (number + squared), (middle + half) / (number + squared)


def pathology(drafts: int, draft_tokens: int, accepted_tokens: int) -> Pathology:
    """Return the pathology of a request; ``NONE`` if it has too few drafts."""
    if not drafts or not draft_tokens:
        return Pathology.NONE
    lower, upper = share_bounds(accepted_tokens / draft_tokens, drafts)
    if upper < ALMOST_NONE:
        return Pathology.REJECTED
    return Pathology.REPETITIVE if lower > ALMOST_ALL else Pathology.NONE
