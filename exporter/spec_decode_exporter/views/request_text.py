"""What is said of single requests in words, on the page and in reports alike."""

from __future__ import annotations


def why_unclear(drafts: int, judged: int, lower: float | None, upper: float | None) -> str:
    """Return why nobody can say whether some requests gain or lose.

    Args:
        drafts: Of them all.
        judged: Requests of which the cost of drafting is known.
        lower: The lower bound of their speed-up; None where too few were judged.
        upper: The upper one.
    """
    if not drafts:
        return "nothing was drafted"
    if not judged:
        return "what drafting costs is not known"
    if lower is None or upper is None:
        return "too few requests"
    if lower <= 1 <= upper:
        return "the bounds lie on both sides of 1"
    return "what drafting costs is only a guess"
