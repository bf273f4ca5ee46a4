"""Limits within which two measurements are of the same work: for experiments and for references."""

from __future__ import annotations

from typing import Final

LOAD_FACTOR: Final = 1.5
"""Maximum ratio of two loads: latency depends on the load."""
LENGTH_FACTOR: Final = 1.25
"""Maximum ratio of the mean lengths of prompts or answers: time is about proportional to length."""
SHARE_DIFFERENCE: Final = 0.1
"""Maximum difference of two shares, as of a cache or of steps with a draft."""
