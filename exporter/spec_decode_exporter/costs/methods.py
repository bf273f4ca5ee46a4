"""Names of vLLM's methods, how each drafts, and the acceptance length that others published."""

from __future__ import annotations

from functools import lru_cache
from typing import Final, NamedTuple

from spec_decode_exporter.costs.model_architecture import data_rows


class Interval(NamedTuple):
    """Best guess of a ratio, between its lowest and its highest plausible value."""

    low: float
    guess: float
    high: float


NOTHING: Final = Interval(0.0, 0.0, 0.0)  # cost of what does not run
LAYER, PASS, MODEL, SEARCH, ANY = "layer", "pass", "model", "search", "any"
KINDS: Final = {
    **dict.fromkeys(("eagle", "eagle3", "mtp", "mlp_speculator"), LAYER),
    **dict.fromkeys(("dflash", "dspark", "medusa"), PASS),
    **dict.fromkeys(("ngram", "ngram_gpu", "suffix"), SEARCH),
    "draft_model": MODEL,
}
"""A layer of the target for each token, one pass for all tokens, a model of its own, a search."""
DRAFT_MODEL: Final = "draft_model"
METHODS: Final = (*KINDS, "custom_class", "extract_hidden_states")
_CACHE_ALONE: Final = frozenset({"dflash", "dspark"})
"""Methods that only store keys and values in a step without drafts."""
_UNDRAFTED: Final = Interval(0.0, 0.06, 0.5)  # a pass of a drafter in a step without drafts


def present_name(method: str) -> str:
    """Return vLLM's present spelling of a method."""
    name = method.strip("[] ").lower()
    return "mtp" if name.endswith("_mtp") else name


def kind_of(method: str, *, in_parallel: bool = False) -> str:
    """Return how a method drafts, ``in_parallel`` with one pass for all tokens; empty if unknown."""
    kind = KINDS.get(present_name(method), "")
    return PASS if kind in {LAYER, MODEL} and in_parallel else kind


@lru_cache(maxsize=64)
def drafts_what_it_finds(method: str) -> bool:
    """Return whether every step searches for text that repeats itself, as of n-gram, and pays c0."""
    return method.strip("[] ").lower().replace("-", "").startswith(("ngram", "suffix"))


def undrafted_pass(method: str) -> Interval:
    """Return what the drafter costs in a step without drafts."""
    name = present_name(method)
    return NOTHING if drafts_what_it_finds(name) or name in _CACHE_ALONE else _UNDRAFTED


@lru_cache(maxsize=64)
def usual_length(method: str, tokens: int) -> tuple[float, float, int] | None:
    """Return the usual ends of the acceptance length, and how many were published; None without any.

    ``usual_acceptance.csv`` has the 10th and the 90th percentile of the acceptance a of a token given those
    before; the length is 1 + a + … + a^k (arXiv 2211.17192).
    """
    row = _USUAL.get(present_name(method))
    if row is None or tokens < 1:
        return None
    low, high = (sum(float(row[end]) ** power for power in range(tokens + 1)) for end in ("low", "high"))
    return low, high, int(row["measurements"])


_USUAL: Final = {row["method"]: row for row in data_rows("usual_acceptance.csv")}
