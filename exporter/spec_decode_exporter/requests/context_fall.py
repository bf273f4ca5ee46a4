"""Decide whether acceptance falls with the length of the prompt.

Drafters are trained on contexts of a few thousand tokens: EAGLE-3 gave 2.30 tokens a step at 2,000 tokens and
1.08 at 20,000 (speculators, pull request 684). The shortest and the longest bucket with enough requests are
compared, whatever their acceptance is: so there is one comparison, and no choice among several.

Windows are evaluated again and again, so a difference of 0 must rarely pass. A fall is more than 15 % of the
acceptance length, as a drop is, by its 95 % bounds: with L_s and L_l the acceptance lengths of short and of
long prompts, the lower bound of 0.85·L_s - L_l is above 0. Both are independent samples of requests, with
degrees of freedom by Welch and Satterthwaite.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import hypot
from typing import Final

from spec_decode_exporter.figures.student_t import degrees_of_sum, t_quantile
from spec_decode_exporter.requests.request_findings import ContextFall, PromptBucket

REMAINING: Final = 0.85
"""Share of the acceptance length that must remain with long prompts."""


def context_fall(buckets: Sequence[PromptBucket]) -> ContextFall | None:
    """Return the fall of the acceptance length over a model's ascending buckets; None if there is none."""
    known = [(each.mean_prompt_tokens, each.acceptance_length) for each in buckets]
    compared = [(tokens, length) for tokens, length in known if length is not None]
    if len(compared) < 2:  # noqa: PLR2004  a short and a long one
        return None
    (short_tokens, short), (long_tokens, long) = compared[0], compared[-1]
    errors = REMAINING * short.standard_error, long.standard_error
    degrees = degrees_of_sum([error**2 for error in errors], [short.degrees, long.degrees])
    if REMAINING * short.value - long.value <= t_quantile(degrees) * hypot(*errors):
        return None
    return ContextFall(short_tokens, short.value, long_tokens, long.value)
