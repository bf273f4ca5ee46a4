"""Sentences about single requests, for the page and reports."""

from __future__ import annotations


def why_unclear(drafts: int, evaluated: int, lower: float | None, upper: float | None) -> str:
    """Return the reason for which the effect on some requests is unclear.

    Args:
        drafts: Drafts of all requests.
        evaluated: Requests with a known cost of drafting.
        lower: The lower bound of their speed-up; None if too few were evaluated.
        upper: The upper bound.
    """
    if not drafts:
        return "nothing was drafted"
    if not evaluated:
        return "the cost of drafting is unknown"
    if lower is None or upper is None:
        return "too few requests"
    if lower <= 1 <= upper:
        return "the bounds include 1"
    return "the cost of drafting is only a default"
