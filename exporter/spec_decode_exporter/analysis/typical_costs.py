"""Typical costs of drafting, for servers with neither a configured nor a measured cost: ranges, not values.

A cost has two parts, both in plain decode steps of the target model: what a method's *drafter* needs, and
what *verifying* a draft token needs. The second depends on the load and on the target model's architecture.

- *Dense*: while memory limits decoding, one more token costs its share of attention, logits and sampling.
  Beyond a number of tokens in a step, the ridge, it costs as much as a decoded one.
- *Mixture of experts*: n tokens reach 1 - (1 - 1/r)^n of the experts, with r the number of experts over those
  of a token. In small batches each draft token activates more of them.

docs/explanation/verdicts.md ("Sources of typical costs") has the measurements behind each number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import hypot, inf
from typing import Final, NamedTuple

from spec_decode_exporter.config.cost_settings import Architecture


class Range(NamedTuple):
    """Best guess of a ratio, between its lowest and its highest plausible value."""

    low: float
    guess: float
    high: float

    @property
    def above(self) -> float:
        """Distance of the highest value from the best guess."""
        return self.high - self.guess


@dataclass(frozen=True, slots=True)
class DrafterCost:
    """Typical cost of a method's drafter, without verifying."""

    token: Range
    """For each draft token."""
    step: Range
    """For each step that drafts, independent of its tokens."""
    every_step: bool = False
    """True if steps that draft nothing pay it too, as those of an n-gram search do."""


_MEMORY_BOUND: Final = Range(0.002, 0.02, 0.03)
"""Verifying a token while memory limits decoding. It is never free: drafts that are rejected cost time."""
_RIDGE: Final = Range(100.0, 200.0, 400.0)
"""Tokens of a step at which a dense model becomes bound by arithmetic."""
_LATE_CORNER, _CORNER = 1.3, 0.8
"""Upper limit and best guess of the cost, with a smooth transition at the ridge; kernels bend more."""
_LONG_CONTEXT: Final = 0.25
"""Share of the cost that remains where long contexts dominate a step."""
_EXPERTS_RATIOS: Final = (4.0, 8.0, 16.0, 32.0, 48.0)
"""Experts over the experts of a token, of published models."""
_GUESSED_RATIO: Final = 16.0
_EXPERTS_SHARE: Final = Range(0.1, 0.4, 0.7)
"""Share of the experts in the time of a step with one token."""
_FEW_EXPERTS, _SHARE_OF_FEW = 4.0, 0.8
"""Up to this ratio experts are few and large: the upper limit of their share."""
_NEW_EXPERTS: Final = Range(0.5, 0.62, 0.8)
"""Share of a draft token's experts that the token before it did not use."""
_MIXTURE_DRAFTER: Final = 1.5
"""Drafters of mixtures of experts are larger, relative to what a step reads of the target."""

UNKNOWN_METHOD: Final = DrafterCost(Range(0.0, 0.12, 0.5), Range(0.01, 0.10, 0.35))
"""Any drafter: a draft model costs 0.01 to 0.5, by its size."""

_DRAFTERS: Final = {
    # Nothing but verifying, and the overlap that is lost to searching on the host.
    "ngram": DrafterCost(Range(0.0, 0.0, 0.01), Range(0.01, 0.10, 0.30), every_step=True),
    # The same search as a kernel, so that scheduling stays asynchronous.
    "ngram_gpu": DrafterCost(Range(0.0, 0.0, 0.01), Range(0.005, 0.03, 0.10), every_step=True),
    # A tree instead of a search, on the host as well; it is felt at high loads (ArcticInference #204).
    "suffix": DrafterCost(Range(0.0, 0.0, 0.01), Range(0.01, 0.10, 0.30), every_step=True),
    # A head is one small matrix and, in vLLM, an output matrix of its own. They run side by side.
    "medusa": DrafterCost(Range(0.005, 0.04, 0.08), Range(0.02, 0.10, 0.20), every_step=True),
    # Likewise, one after the other. (An LSTM drafter is 5 to 10 % of a step, ArcticInference #150.)
    "mlp_speculator": DrafterCost(Range(0.01, 0.04, 0.10), Range(0.02, 0.10, 0.20), every_step=True),
    # One layer and the whole output matrix for each token. (#24343: 0.09 with all of the vocabulary.)
    "eagle": DrafterCost(Range(0.02, 0.06, 0.12), Range(0.01, 0.10, 0.20)),
    # A quarter of the vocabulary. (vLLM #24243, MiniCPM-4B, six tokens: 0.43 to 0.53 for all, 0.52 here.)
    "eagle3": DrafterCost(Range(0.015, 0.05, 0.10), Range(0.01, 0.10, 0.20)),
    # One layer of the target and its output matrix. (A 27B model, two and four tokens: 0.44 and 0.46.)
    "mtp": DrafterCost(Range(0.015, 0.05, 0.10), Range(0.01, 0.10, 0.20)),
    # All tokens in one pass of about five of 36 layers: the pass is fixed, a token is verified only.
    "dflash": DrafterCost(Range(0.0, 0.01, 0.03), Range(0.05, 0.20, 0.35)),
    # Likewise, with a small head that goes over the tokens one after the other.
    "dspark": DrafterCost(Range(0.0, 0.02, 0.05), Range(0.05, 0.20, 0.35)),
}
METHODS: Final = (*_DRAFTERS, "draft_model", "custom_class", "extract_hidden_states")
"""vLLM's methods. The last three have no typical cost: by its size, anything, nothing."""


@lru_cache(maxsize=64)
def drafter_cost(method: str) -> DrafterCost | None:
    """Return the typical cost of a method's drafter, in vLLM's spelling; None if there is none.

    vLLM's older names are accepted: ``[ngram]``, and names that end with ``_mtp``.
    """
    return _DRAFTERS.get(present_name(method))


def is_known_method(method: str) -> bool:
    """Return whether vLLM has, or had, a method of this name."""
    return present_name(method) in METHODS


def present_name(method: str) -> str:
    """Return vLLM's present spelling of a method."""
    name = method.strip("[] ").lower()
    return "mtp" if name.endswith("_mtp") else name


@lru_cache(maxsize=64)
def drafting(drafter: DrafterCost, architecture: Architecture | None) -> DrafterCost:
    """Return the cost of a drafter beside a target model of this architecture; None is unknown."""
    if architecture is Architecture.DENSE:
        return drafter
    low, guess, high = drafter.token
    return replace(drafter, token=Range(low, guess, _MIXTURE_DRAFTER * high))


def verifying(
    architecture: Architecture | None,
    running_requests: float,
    tokens: float,
    experts_ratio: float | None = None,
) -> Range:
    """Return the cost of verifying one of the ``tokens`` draft tokens of each running request.

    An unknown architecture means either; ``experts_ratio`` is the experts over the experts of a token.
    """
    running, drafted = max(running_requests, 1.0), max(tokens, 1.0)
    if architecture is Architecture.DENSE:
        return _dense(running, drafted)
    mixture = _mixture(running, drafted, experts_ratio)
    if architecture is Architecture.MIXTURE_OF_EXPERTS:
        return mixture
    dense = _dense(running, drafted)
    return Range(min(dense.low, mixture.low), dense.guess, max(dense.high, mixture.high))


def together(drafter: Range, verified: Range, step: Range, tokens: float) -> tuple[Range, Range]:
    """Return c and c0 of the parts of a step with t = ``tokens`` draft tokens, c0 + t·(drafter + verified).

    Lower ends have one cause, a long step of the target, so they add up. Upper ends have independent causes:
    a small target with a large drafter, a slow host, an early ridge. So their distances from the guess are
    added in quadrature (Taylor, *Introduction to Error Analysis*, 1997, chapter 3), and each part takes the
    share of its square.
    """
    drafted = max(tokens, 1.0)
    whole = hypot(drafted * drafter.above, drafted * verified.above, step.above) or 1.0
    token = drafted * (drafter.above**2 + verified.above**2) / whole
    guess = drafter.guess + verified.guess
    return (
        Range(drafter.low + verified.low, guess, guess + token),
        Range(step.low, step.guess, step.guess + step.above**2 / whole),
    )


def every_step_pays(method: str) -> bool:
    """Return whether a step without drafts pays c0 too, since every step searches for a draft.

    It does not if the drafter does not run then, nor with an unknown method.
    """
    drafter = drafter_cost(method)
    return drafter is not None and drafter.every_step


def fixed_tokens(method: str) -> float:
    """Return the typical fixed cost of a method in draft tokens, or 0: it splits a measured cost."""
    drafter = drafter_cost(method)
    return 0.0 if drafter is None else drafter.step.guess / (drafter.token.guess + _MEMORY_BOUND.guess)


def _dense(running: float, tokens: float) -> Range:
    smooth = running / (running + _RIDGE.guess)
    late = max(_LATE_CORNER * running / (running + _RIDGE.low), _sharp(running, tokens, _RIDGE.low))
    return Range(
        max(_LONG_CONTEXT * _sharp(running, tokens, _RIDGE.high), _MEMORY_BOUND.low),
        _MEMORY_BOUND.guess + _CORNER * smooth,
        min(1.0, _MEMORY_BOUND.high + late),
    )


def _sharp(running: float, tokens: float, ridge: float) -> float:
    """Return the cost of a token if memory and arithmetic overlap entirely: a step takes the longer one."""
    return max(0.0, running * (tokens + 1) - max(running, ridge)) / (tokens * max(running, ridge))


def _mixture(running: float, tokens: float, experts_ratio: float | None) -> Range:
    lows, guess, highs = _passes(experts_ratio)
    low = min([each.token(running, tokens) for each in lows])
    high = max([each.highest(running, tokens) for each in highs])
    return Range(
        max(_LONG_CONTEXT * low, _MEMORY_BOUND.low),
        guess.token(running, tokens) + _MEMORY_BOUND.guess,
        min(1.0, high + _MEMORY_BOUND.high),
    )


@lru_cache(maxsize=64)
def _passes(experts_ratio: float | None) -> tuple[Sequence[_Pass], _Pass, Sequence[_Pass]]:
    """Return the passes with the lowest cost, the guessed one, and those with the highest cost."""
    ratios = _EXPERTS_RATIOS if experts_ratio is None else (experts_ratio,)
    guessed, (low, guess, high), new = experts_ratio or _GUESSED_RATIO, _EXPERTS_SHARE, _NEW_EXPERTS
    highest = [(ratio, _SHARE_OF_FEW if ratio <= _FEW_EXPERTS else high) for ratio in ratios]
    return (
        [_Pass(ratio, low, new.low) for ratio in ratios],
        _Pass(guessed, guess, new.guess, _RIDGE.guess, _CORNER),
        [_Pass(ratio, share, new.high, _RIDGE.low) for ratio, share in highest],
    )


@dataclass(frozen=True, slots=True)
class _Pass:
    """Time of a pass of a mixture of experts; that of one token is 1.

    n independent tokens take 1 - share + share·r·(1 - (1 - 1/r)^n) to read the weights, n/ridge to compute.
    """

    ratio: float
    """r."""
    share: float
    """Share of the experts in a pass of one token."""
    new: float
    """Share of a draft token's experts that the token before it did not use."""
    ridge: float = inf
    corner: float = _LATE_CORNER

    def token(self, running: float, tokens: float) -> float:
        """Return the cost of one draft token of each running request, over a smooth transition."""
        plain, verified = self._read(running), self._read(running * (1 + self.new * tokens))
        computed = running * tokens / self.ridge
        return (verified - plain + self.corner * computed) / (tokens * (plain + running / self.ridge))

    def highest(self, running: float, tokens: float) -> float:
        """Return the higher cost of a smooth transition and a sharp one.

        In the sharp one, reading and computing overlap entirely: a pass takes the longer one.
        """
        plain, verified = self._read(running), self._read(running * (1 + self.new * tokens))
        longer = max(verified, running * (1 + tokens) / self.ridge) / max(plain, running / self.ridge)
        return max(self.token(running, tokens), (longer - 1) / tokens)

    def _read(self, number: float) -> float:
        reached: float = 1 - (1 - 1 / self.ratio) ** number
        return 1 - self.share + self.share * self.ratio * reached
