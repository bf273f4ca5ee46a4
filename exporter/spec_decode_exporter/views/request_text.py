"""Sentences about single requests, for the page and reports."""

from __future__ import annotations

from spec_decode_exporter.core import number_formats as numbers
from spec_decode_exporter.requests.bucket_labels import bucket_text


def prompt_bucket(label: str) -> str:
    """Return the text of a bucket's label: ``0-1000`` is "up to 1,000", ``>64000`` "above 64,000"."""
    words, _, bound = bucket_text(label).rpartition(" ")
    return f"{words} {numbers.count(int(bound))}"


def acceptance_falls(short_tokens: float, short_length: float, long_tokens: float, long_length: float) -> str:
    """Return the sentence of acceptance that falls with the context, from mean prompt tokens and lengths."""
    short, long = (numbers.count(round(tokens)) for tokens in (short_tokens, long_tokens))
    return (
        f"Acceptance falls with the context: a draft gives {short_length:.2f} tokens at {short} prompt "
        f"tokens, and {long_length:.2f} at {long}. Check the context length that the draft model was trained "
        "for; serve long prompts with fewer draft tokens, or without speculation where they lose."
    )


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
