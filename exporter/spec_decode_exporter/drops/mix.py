"""Decomposition of a change of the acceptance length: another mix of request types, or another acceptance.

With w_g the share of the drafts that belong to requests of type g, and m_g their accepted tokens per draft,
the length is L = 1 + Σ w_g·m_g, and its change is exactly (E. M. Kitagawa, J. Am. Stat. Assoc. 50, 1955)

    ΔL = Σ Δw_g·m̄_g + Σ w̄_g·Δm_g        m̄ and w̄ are the means of before and now

The first sum is the traffic, the second the drafter. A type that is missing on one side has there the m_g of
the other side, so it is traffic.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class TypeSums(NamedTuple):
    """Sums over the requests of one type."""

    drafts: float
    """D."""
    accepted: float
    """A, accepted tokens."""


class LengthChange(NamedTuple):
    """Parts of a change of the acceptance length, in tokens; their sum is the change."""

    traffic: float
    """Part of the mix of request types."""
    drafter: float
    """Part of the acceptance within the types."""


def decompose(before: Mapping[str, TypeSums], now: Mapping[str, TypeSums]) -> LengthChange | None:
    """Return the parts of the change between two mixes; None if one of them has no drafts."""
    drafts_before, drafts_now = (sum(each.drafts for each in mix.values()) for mix in (before, now))
    if drafts_before <= 0 or drafts_now <= 0:
        return None
    traffic = drafter = 0.0
    for name in before.keys() | now.keys():
        old, new = (mix.get(name, TypeSums(0.0, 0.0)) for mix in (before, now))
        means = [each.accepted / each.drafts for each in (old, new) if each.drafts > 0]
        if not means:
            continue
        weight_before, weight_now = old.drafts / drafts_before, new.drafts / drafts_now
        traffic += (weight_now - weight_before) * sum(means) / len(means)
        drafter += (weight_now + weight_before) / 2 * (means[-1] - means[0])
    return LengthChange(traffic, drafter)
