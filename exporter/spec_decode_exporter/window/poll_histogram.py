"""How acceptance is spread over polls, as a histogram that Prometheus can add up over a fleet."""

from __future__ import annotations

BOUNDS = tuple(tenth / 10 for tenth in range(1, 11))
"""Upper bounds of the buckets: acceptance rates 0.1 … 1.0; what torn pages put above goes to +Inf."""


class PollHistogram:
    """Each poll's acceptance rate, observed with the weight of its draft tokens."""

    def __init__(self) -> None:
        self.sum = 0
        """Accepted tokens: rates times their weights."""
        self._buckets = [0] * (len(BOUNDS) + 1)

    def observe(self, draft_tokens: int, accepted_tokens: int) -> None:
        """Add a poll's increment; one without draft tokens has no rate and no weight."""
        # A torn page can have accepted tokens before their drafts: the sum is right with the next poll.
        self.sum += accepted_tokens
        if draft_tokens <= 0:
            return
        # In integers, so that a rate of exactly 0.3 is not above 0.3.
        tenths = -(-accepted_tokens * len(BOUNDS) // draft_tokens)
        self._buckets[min(max(tenths, 1), len(self._buckets)) - 1] += draft_tokens

    def cumulative(self) -> list[tuple[str, int]]:
        """Return the buckets as an exposition has them: upper bound and the count at or below it."""
        total = 0
        result = []
        for bound, count in zip((*map(str, BOUNDS), "+Inf"), self._buckets, strict=True):
            total += count
            result.append((bound, total))
        return result
