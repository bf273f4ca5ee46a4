"""Counters that an engine lacks, but that follow from those that it has.

D drafts, T draft tokens, A accepted tokens, G generation tokens, F first tokens, S decode steps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from spec_decode_exporter.scrape.engines import Counter


class PageValues(NamedTuple):
    """Values of one engine on a page, of which its derived counters are made."""

    counters: list[int | None]
    """Indexed by ``Counter``; derived ones are written into it."""
    accepted: int
    """Σ of the accepted tokens of all positions."""
    drafted: tuple[int, ...]
    """Draft tokens by position; empty if the engine does not count them by position."""
    width: float | None
    """Draft tokens of a verification; None if unknown."""


def steps_of(steps: float | None, verified: float | None) -> float | None:
    """Return SGLang's K by its steps and the tokens of a verification, one of which is no draft.

    A block or a search has one step or none, and drafts all the other tokens. A search by breadth can have as
    many steps as tokens; a tree verifies more tokens than it has steps.
    """
    if verified is None or verified <= 1:
        return steps
    return verified - 1 if steps is None or steps <= 1 else min(steps, verified - 1)


def verified_width(steps: float | None, cap: float | None) -> float | None:
    """Return SGLang's draft tokens of a verification: K, or those of its mean ``cap`` (DSpark)."""
    return cap - 1 if cap is not None and cap > 1 else steps or None


def _of_verifications(page: PageValues) -> None:
    """SGLang: a verification D gives one token and the accepted ones, so A = G - F - D and T = width · D.

    F counts the requests that ended: each has one token by its prefill. Decoding takes the time from that
    token to the end. The histogram of inter-token latencies lacks tokens of requests that do not stream.
    """
    counters = page.counters
    drafts, _, _, generated, first, *_ = counters
    if drafts is not None and generated is not None and first is not None:
        counters[Counter.ACCEPTED_TOKENS] = max(0, generated - first - drafts)
        counters[Counter.DRAFT_TOKENS] = round(drafts * page.width) if page.width else None
    whole, waited = counters[Counter.END_TO_END_NANOSECONDS], counters[Counter.FIRST_TOKEN_NANOSECONDS]
    whole = 0 if generated is None else whole  # before the first request ends
    if whole is not None and waited is not None:
        counters[Counter.DECODE_NANOSECONDS] = whole - waited


def _of_positions(page: PageValues) -> None:
    """TensorRT-LLM: D, T and A of the requests that ended, by position: D = d_0, T = Σ d_i, A = Σ a_i.

    Its counters of iterations count before the first request ends. They are read if one has ended, and the
    page has no positions even so: its C++ backend shows none.
    """
    counters = page.counters
    if page.drafted:
        counters[Counter.DRAFTS] = page.drafted[0]
        counters[Counter.DRAFT_TOKENS] = sum(page.drafted)
        counters[Counter.ACCEPTED_TOKENS] = page.accepted
    elif not (counters[Counter.FINISHED_REQUESTS] or counters[Counter.GENERATION_TOKENS]):
        counters[Counter.DRAFT_TOKENS] = counters[Counter.ACCEPTED_TOKENS] = None


def _of_tokens(page: PageValues) -> None:
    """llama.cpp: A = Σ a_i, which are printed with all digits, and S = G - A, which contains F.

    Its prompt tokens are those that were computed; vLLM's contain the cached ones too.
    """
    counters = page.counters
    if page.accepted:
        counters[Counter.ACCEPTED_TOKENS] = page.accepted
    generated, accepted = counters[Counter.GENERATION_TOKENS], counters[Counter.ACCEPTED_TOKENS]
    if generated is not None and accepted is not None:
        counters[Counter.DECODE_STEPS] = max(0, generated - accepted)
    computed, cached = counters[Counter.PROMPT_TOKENS], counters[Counter.PREFIX_CACHE_HITS]
    if computed is not None and cached is not None:
        counters[Counter.PROMPT_TOKENS] = computed + cached


_RULES: Final[Mapping[str, tuple[Callable[[PageValues], None], frozenset[Counter]]]] = {
    "sglang": (
        _of_verifications,
        frozenset({Counter.DRAFT_TOKENS, Counter.ACCEPTED_TOKENS, Counter.DECODE_NANOSECONDS}),
    ),
    "tensorrt_llm": (_of_positions, frozenset()),
    "llamacpp": (_of_tokens, frozenset({Counter.DECODE_STEPS})),
}
"""By the name of a kind: what follows, and the differences of counters, which a torn page makes fall."""


def derive(kind: str, page: PageValues) -> frozenset[Counter]:
    """Write the derived counters of an engine; return those that may fall without a restart."""
    rule, differences = _RULES.get(kind, (None, frozenset[Counter]()))
    if rule is not None:
        rule(page)
    counters = page.counters
    if counters[Counter.PREFIX_CACHE_HITS] is not None and counters[Counter.PREFIX_CACHE_QUERIES] is None:
        counters[Counter.PREFIX_CACHE_QUERIES] = counters[Counter.PROMPT_TOKENS]
    return differences
