"""Counters that an engine lacks, but that follow from those that it has.

D drafts, T draft tokens, A accepted tokens, G generation tokens, F first tokens, S decode steps.
"""

from __future__ import annotations

from typing import Final

from spec_decode_exporter.scrape.engines import Counter


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


def _of_verifications(counters: list[int | None], width: float | None) -> None:
    """SGLang: a verification D gives one token and the accepted ones, so A = G - F - D and T = width · D.

    F counts the requests that ended: each has one token by its prefill. Decoding takes the time from that
    token to the end. The histogram of inter-token latencies lacks tokens of requests that do not stream.
    """
    drafts, _, _, generated, first, *_ = counters
    if drafts is not None and generated is not None and first is not None:
        counters[Counter.ACCEPTED_TOKENS] = max(0, generated - first - drafts)
        counters[Counter.DRAFT_TOKENS] = round(drafts * width) if width else None
    whole, waited = counters[Counter.END_TO_END_NANOSECONDS], counters[Counter.FIRST_TOKEN_NANOSECONDS]
    whole = 0 if generated is None else whole  # before the first request ends
    if whole is not None and waited is not None:
        counters[Counter.DECODE_NANOSECONDS] = whole - waited


def _of_positions(counters: list[int | None], accepted: int, drafted: tuple[int, ...]) -> None:
    """TensorRT-LLM: D, T and A of the requests that ended, by position: D = d_0, T = Σ d_i, A = Σ a_i.

    Its counters of iterations count before the first request ends. They are read if one has ended, and the
    page has no positions even so: its C++ backend shows none.
    """
    if drafted:
        counters[Counter.DRAFTS] = drafted[0]
        counters[Counter.DRAFT_TOKENS] = sum(drafted)
        counters[Counter.ACCEPTED_TOKENS] = accepted
    elif not (counters[Counter.FINISHED_REQUESTS] or counters[Counter.GENERATION_TOKENS]):
        counters[Counter.DRAFT_TOKENS] = counters[Counter.ACCEPTED_TOKENS] = None


def _of_tokens(counters: list[int | None], accepted_by_position: int) -> None:
    """llama.cpp: A = Σ a_i, which are printed with all digits, and S = G - A, which contains F.

    Its prompt tokens are those that were computed; vLLM's contain the cached ones too.
    """
    if accepted_by_position:
        counters[Counter.ACCEPTED_TOKENS] = accepted_by_position
    generated, accepted = counters[Counter.GENERATION_TOKENS], counters[Counter.ACCEPTED_TOKENS]
    if generated is not None and accepted is not None:
        counters[Counter.DECODE_STEPS] = max(0, generated - accepted)
    computed, cached = counters[Counter.PROMPT_TOKENS], counters[Counter.PREFIX_CACHE_HITS]
    if computed is not None and cached is not None:
        counters[Counter.PROMPT_TOKENS] = computed + cached


_DIFFERENCES: Final = {
    "sglang": frozenset({Counter.DRAFT_TOKENS, Counter.ACCEPTED_TOKENS, Counter.DECODE_NANOSECONDS}),
    "llamacpp": frozenset({Counter.DECODE_STEPS}),
}
"""Differences of counters, which a torn page makes fall, by the name of a kind."""


def derive(
    kind: str, counters: list[int | None], accepted: int, drafted: tuple[int, ...], width: float | None
) -> frozenset[Counter]:
    """Write derived counters of an engine into ``counters``; return those that may fall without a restart.

    ``accepted`` is the sum of the accepted tokens of all positions, ``drafted`` the draft tokens of each
    position, if the engine counts them. ``width`` is the draft tokens of a verification, None if unknown.
    """
    if kind == "sglang":
        _of_verifications(counters, width)
    elif kind == "tensorrt_llm":
        _of_positions(counters, accepted, drafted)
    elif kind == "llamacpp":
        _of_tokens(counters, accepted)
    if counters[Counter.PREFIX_CACHE_HITS] is not None and counters[Counter.PREFIX_CACHE_QUERIES] is None:
        counters[Counter.PREFIX_CACHE_QUERIES] = counters[Counter.PROMPT_TOKENS]
    return _DIFFERENCES.get(kind, frozenset())
