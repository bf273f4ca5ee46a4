"""Whether another number of draft tokens would pay more: S(k), as far as what is accepted now tells.

With p_i the share of drafts that reach beyond position i, cov the share of steps that draft (1 where that is
unknown) and t_k the tokens that a draft of at most k has,

    S(k) = (1 + cov·(p_0 + … + p_{k-1})) / (1 + c0 + c·cov·t_k)

Another depth is a hypothesis: p_i was measured at this K, and is only near what it would be at another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import mul

from exporter.analysis.acceptance import coverage_ratio, draft_length_tokens
from exporter.analysis.bounds import cosines, grouped, standard_error
from exporter.analysis.cost import Cost
from exporter.analysis.positions import decay_ratio
from exporter.scrape.engines import Counter
from exporter.window.ledger import Window

MOST_BEYOND = 2
"""So many positions are extrapolated, where the decay over the known ones can be seen."""
WHOLE_DRAFTS = 0.95
"""The share of K that drafts must have for more positions to mean anything. An n-gram or suffix search that
proposes less than it may would not propose more if it might."""


@dataclass(frozen=True, slots=True)
class Depth:
    """A number of draft tokens, and what it would give."""

    tokens: int
    """k; 0 is no speculation."""
    speedup: float
    """S(k): tokens per time of a plain decode step, against 1 without speculation."""
    extrapolated: bool
    """Whether it is beyond the positions that the engine drafts now."""


NO_SPECULATION = Depth(0, 1.0, extrapolated=False)


def depths(window: Window, cost: Cost) -> tuple[Depth, ...]:
    """Return S(1) … S(K), and of up to ``MOST_BEYOND`` more; empty where nothing was drafted."""
    known = len(window.positions)
    if not known or not window[Counter.DRAFTS]:
        return ()
    return tuple(
        Depth(tokens, _speedup(window, cost, tokens), extrapolated=tokens > known)
        for tokens in range(1, known + _beyond(window) + 1)
    )


def recommended(window: Window, cost: Cost, known: Sequence[Depth], tolerance: float) -> Depth | None:
    """Return the smallest depth that pays and is as good as the best of ``known``; None if none is known.

    As good: within ``tolerance`` (a share of the best), or within one standard error of their difference.
    No speculation if even the best does not pay.
    """
    if not known:
        return None
    best = max(known, key=lambda depth: depth.speedup)
    paying = (depth for depth in known if depth.speedup >= 1)
    return next(
        (depth for depth in paying if _as_good(window, cost, depth, best, tolerance)),
        NO_SPECULATION,
    )


def marginal_benefits(window: Window, cost: Cost, known: Sequence[Depth]) -> tuple[float, ...]:
    """Return p_k / (c·S(k)) for every position of ``known``: above 1, drafting it makes decoding faster.

    S(0) is that of a step that pays the fixed cost and drafts nothing. Where some drafts are shorter, it is a
    lower limit: the position costs less than a token a draft there. Empty where c is 0.
    """
    price = cost.draft_cost_ratio
    if not price:
        return ()
    before = (1 / (1 + cost.fixed_cost_ratio), *(depth.speedup for depth in known[:-1]))
    return tuple(
        _reach(window, depth.tokens - 1) / (price * speedup)
        for depth, speedup in zip(known, before, strict=True)
    )


def _as_good(window: Window, cost: Cost, depth: Depth, best: Depth, tolerance: float) -> bool:
    less = best.speedup - depth.speedup
    return less <= tolerance * best.speedup or less <= _difference_error(window, cost, depth, best)


def _beyond(window: Window) -> int:
    """Return how many positions can be extrapolated."""
    drafted, positions = draft_length_tokens(window), len(window.positions)
    if drafted is None or drafted < WHOLE_DRAFTS * positions:
        return 0
    return MOST_BEYOND if positions > 1 else 1


def _decay(window: Window) -> float:
    """Return by how much each position beyond K is less likely than the one before.

    Of a single position no decay can be seen. Its own ratio stands in: the second token is then as hard as
    the first, given that the first was right.
    """
    decay = decay_ratio(window) if len(window.positions) > 1 else _reach(window, 0)
    return min(decay or 0.0, 1.0)


def _reach(window: Window, position: int) -> float:
    """Return p_i; beyond K it is p_{K-1} times the decay for every position more."""
    drafts, last = window[Counter.DRAFTS], len(window.positions) - 1
    here = window.positions[min(position, last)] / drafts if drafts else 0.0
    return here * _decay(window) ** (position - last) if position > last else here


def _draft_length(window: Window, tokens: int) -> float:
    """Return t_k; an upper limit where drafts differ in length."""
    drafted = draft_length_tokens(window)
    return tokens if drafted is None or tokens > len(window.positions) else min(tokens, drafted)


def _coverage(window: Window) -> float:
    coverage = coverage_ratio(window)
    return 1.0 if coverage is None else coverage


def _plain_steps(window: Window, cost: Cost, tokens: int) -> float:
    """Return how many plain decode steps one step takes."""
    drafted = _coverage(window) * _draft_length(window, tokens)
    return 1 + cost.fixed_cost_ratio + cost.draft_cost_ratio * drafted


def _speedup(window: Window, cost: Cost, tokens: int) -> float:
    accepted = _coverage(window) * sum(_reach(window, position) for position in range(tokens))
    return (1 + accepted) / _plain_steps(window, cost, tokens)


def _weights(window: Window, cost: Cost, tokens: int) -> list[float]:
    """Return by how much S(k) grows with each of the K known p_i; the decay is taken as known."""
    known = len(window.positions)
    gain = _coverage(window) / _plain_steps(window, cost, tokens)
    weights = [gain if position < tokens else 0.0 for position in range(known)]
    weights[-1] += gain * sum(_decay(window) ** further for further in range(1, tokens - known + 1))
    return weights


def _difference_error(window: Window, cost: Cost, depth: Depth, best: Depth) -> float:
    """Return the standard error of S(best) - S(k); 0 where the window has no bounds.

    By the delta method: S is linear in p_i. Both depths rest on the same drafts, so that their difference is
    surer than either of them.
    """
    drafts = window[Counter.DRAFTS]
    weights = [
        more - less
        for more, less in zip(
            _weights(window, cost, best.tokens), _weights(window, cost, depth.tokens), strict=True
        )
    ]
    error = standard_error(_residuals(window, weights), cosines(window))
    return 0.0 if error is None or not drafts else error / drafts


def _residuals(window: Window, weights: Sequence[float]) -> list[float]:
    """Return Σ w_i·(a_i - p_i·D) for every increment that drafted."""
    increments = grouped(window)
    drafts = increments.counter(Counter.DRAFTS)
    columns = [increments.position(position) for position in range(len(weights))]
    expected = sum(weight * _reach(window, position) for position, weight in enumerate(weights))
    return [
        sum(map(mul, weights, accepted)) - expected * count
        for count, *accepted in zip(drafts, *columns, strict=True)
        if count
    ]
