"""Typical costs of drafting, for servers with neither a configured nor a measured cost: ranges, not values.

A cost has two parts, both in plain decode steps of the target model: what a method's *drafter* needs, and
what *verifying* a drafted token needs. The second depends on the load and on the target model's architecture:

- *Dense, memory-bound*: the weights are read once for all tokens, so one more costs its share of attention,
  logits and sampling: 0.01 to 0.03 (vLLM #24343, Llama-3.1-8B on an A100: 0.07 to 0.08 for each of 32 draft
  tokens, of which the drafter's own weights are 0.05).
- *Dense, compute-bound*: beyond a number of tokens in a step its time is proportional to them, and a drafted
  token costs as much as a decoded one. This ridge is the ratio of a GPU's arithmetic to its bandwidth
  (Williams, Waterman and Patterson, *Roofline*, 2009): 156 operations a byte for an A100, 206 for an H200,
  295 for an H100, 419 for an L40S at two bytes a weight; less at the arithmetic that kernels reach. The upper
  limit takes 100, the lower one 400. Reading the KV cache of long contexts lowers the cost, so it is
  quartered there.
- *Mixture of experts*: n tokens reach 1 - (1 - 1/r)^n of the experts, with r the number of experts over those
  of a token, 4 to 48; ``model_architecture`` has it for published names. In small batches each draft token
  activates more of them. Of a step with one token, the experts are 10 to 70 % (the rest: attention, shared
  weights, host), up to 80 % with r = 4: Mixtral's are 87 % of the weights that a token reads, those of Qwen3
  and DeepSeek-V3 55 to 60 %. (*MoESD*, arXiv 2505.19645.) A token uses 38 % of the experts of the one before
  it again (Cohere, *Why MoE models get more from speculative decoding*, 2026, one model: with three draft
  tokens a step takes 1.25 times as long at one request); the range takes 20 to 50 %. A step is compute-bound
  later, since it reads more weights for the same arithmetic.

The highest costs of drafting, of starting the drafter and of verifying have different causes: a small model
with a large drafter, a slow host, an early ridge or evenly routed experts. So the distances of the upper ends
from the guess are added in quadrature, as independent errors are (Taylor, *Introduction to Error Analysis*,
1997, chapter 3). The lower ends have one cause, a long step of the target, so they are added as they are.

Drafters, by measurements:

- *A lost overlap*: 0.10. vLLM has no asynchronous scheduling with methods that draft on the host or were not
  adapted to it (in 0.32: ngram, suffix, medusa, mlp_speculator; 0.33 has the first two only). A step then
  waits for the host. The same n-gram search with and without it: 33 and 39 ms a token for a 14B model
  (vllm-ascend #9008), 20 to 39 % more tokens for a 1.7B one (vLLM #29184); the longer a step takes, the less.
- *Drafting one after the other*: each draft token reads the drafter's weights. For a head this depends
  on the target model: a layer and the output matrix are 9 % of Llama 8B and 3 % of Llama 70B.
- *Starting a drafter*: 0.10, its first pass over what was accepted, its sampling, its launches. (#24343: 0.15
  to 0.17, before scheduling was asynchronous. DeepSeek-R1 with one MTP token, vLLM #12755: 0.12 in all.)
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

    def plus(self, other: Range) -> Range:
        """Return the range of the sum."""
        return Range(self.low + other.low, self.guess + other.guess, self.high + other.high)

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
    paid_by_every_step: bool = False
    """True if steps that draft nothing pay it too, as those of an n-gram search do."""


_MEMORY_BOUND: Final = Range(0.002, 0.02, 0.03)
"""Verifying a token while decoding is bound by memory. It is never free, so a drafter of which nothing is
accepted always costs time."""
_RIDGE: Final = Range(100.0, 200.0, 400.0)
"""Tokens of a step at which a dense model becomes bound by arithmetic."""
_LATE_CORNER: Final = 1.3
"""Upper limit of the cost, over a smooth transition at the lowest ridge: kernels bend more sharply."""
_LONG_CONTEXT: Final = 0.25
"""Share of the cost that remains where long contexts dominate a step."""
_CORNER: Final = 0.8
"""The same for the best guess, at the guessed ridge."""
_EXPERTS_RATIOS: Final = (4.0, 8.0, 16.0, 32.0, 48.0)
"""Experts over the experts of a token, of published models."""
_GUESSED_RATIO: Final = 16.0
_EXPERTS_SHARE: Final = Range(0.1, 0.4, 0.7)
"""Share of the experts in the time of a step with one token."""
_FEW_EXPERTS: Final = 4.0
_SHARE_OF_FEW: Final = 0.8
"""Its upper limit for models of few large experts."""
_NEW_EXPERTS: Final = Range(0.5, 0.62, 0.8)
"""Share of a draft token's experts that the token before it did not use."""
_MIXTURE_DRAFTER: Final = 1.5
"""Drafters of mixtures of experts are larger, relative to what a step reads of the target."""

UNKNOWN_METHOD: Final = DrafterCost(Range(0.0, 0.12, 0.5), Range(0.01, 0.10, 0.35))
"""Any drafter: a draft model costs 0.01 to 0.5, by its size."""

_DRAFTERS: Final = {
    # Nothing but verifying, and the overlap that is lost to searching on the host.
    "ngram": DrafterCost(Range(0.0, 0.0, 0.01), Range(0.01, 0.10, 0.30), paid_by_every_step=True),
    # The same search as a kernel, so that scheduling stays asynchronous.
    "ngram_gpu": DrafterCost(Range(0.0, 0.0, 0.01), Range(0.005, 0.03, 0.10), paid_by_every_step=True),
    # A tree instead of a search, on the host as well; it is felt at high loads (ArcticInference #204).
    "suffix": DrafterCost(Range(0.0, 0.0, 0.01), Range(0.01, 0.10, 0.30), paid_by_every_step=True),
    # A head is one small matrix and, in vLLM, an output matrix of its own. They run side by side.
    "medusa": DrafterCost(Range(0.005, 0.04, 0.08), Range(0.02, 0.10, 0.20), paid_by_every_step=True),
    # Likewise, one after the other. (An LSTM drafter is 5 to 10 % of a step, ArcticInference #150.)
    "mlp_speculator": DrafterCost(Range(0.01, 0.04, 0.10), Range(0.02, 0.10, 0.20), paid_by_every_step=True),
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
    return _DRAFTERS.get(_present_name(method))


def is_known_method(method: str) -> bool:
    """Return whether vLLM has, or had, a method of this name."""
    return _present_name(method) in METHODS


def _present_name(method: str) -> str:
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
    """Return the cost of verifying one draft token, in plain decode steps.

    Args:
        architecture: That of the target model; None if unknown, which means either.
        running_requests: Requests in a step.
        tokens: Draft tokens of each request in a step that drafts.
        experts_ratio: Experts over the experts of a token; None if unknown.
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
    """Return the cost of a draft token and c0, whose ends give the range of c0 + t·(drafter + verified).

    Its lower end is the sum of the lower ends. The distance of its upper end from the guess is the root of
    the sum of squares of the parts' distances; each part takes the share of its square.

    Args:
        drafter: Drafting one token.
        verified: Verifying it.
        step: c0.
        tokens: t, the usual number of draft tokens.
    """
    drafted = max(tokens, 1.0)
    whole = hypot(drafted * drafter.above, drafted * verified.above, step.above) or 1.0
    token = drafted * (drafter.above**2 + verified.above**2) / whole
    guess = drafter.guess + verified.guess
    return (
        Range(drafter.low + verified.low, guess, guess + token),
        Range(step.low, step.guess, step.guess + step.above**2 / whole),
    )


def undrafted_steps_are_plain(method: str) -> bool:
    """Return whether a step without drafts, of a server that speculates, costs as much as a plain step.

    It does if the drafter does not run then. It does not if every step searches for a draft. An unknown
    method is assumed to have plain steps.
    """
    cost = drafter_cost(method)
    return cost is None or not cost.paid_by_every_step


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
    return (
        [_Pass(ratio, _EXPERTS_SHARE.low, _NEW_EXPERTS.low) for ratio in ratios],
        _Pass(
            experts_ratio or _GUESSED_RATIO, _EXPERTS_SHARE.guess, _NEW_EXPERTS.guess, _RIDGE.guess, _CORNER
        ),
        [_Pass(ratio, _highest_share(ratio), _NEW_EXPERTS.high, _RIDGE.low) for ratio in ratios],
    )


def _highest_share(ratio: float) -> float:
    return _SHARE_OF_FEW if ratio <= _FEW_EXPERTS else _EXPERTS_SHARE.high


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
        """Return the cost of one draft token of each of the running requests."""
        return self._smooth(running, tokens, *self._reads(running, tokens))

    def highest(self, running: float, tokens: float) -> float:
        """Return the higher cost of two transitions: a smooth one, and a sharp one.

        In the sharp one, reading and computing overlap entirely: a pass takes the longer one.
        """
        plain, verified = self._reads(running, tokens)
        longer = max(verified, running * (1 + tokens) / self.ridge) / max(plain, running / self.ridge)
        return max(self._smooth(running, tokens, plain, verified), (longer - 1) / tokens)

    def _smooth(self, running: float, tokens: float, plain: float, verified: float) -> float:
        computed = running * tokens / self.ridge
        return (verified - plain + self.corner * computed) / (tokens * (plain + running / self.ridge))

    def _reads(self, running: float, tokens: float) -> tuple[float, float]:
        """Return the time to read the weights without draft tokens, and with them."""
        return self._read(running), self._read(running * (1 + self.new * tokens))

    def _read(self, number: float) -> float:
        reached: float = 1 - (1 - 1 / self.ratio) ** number
        return 1 - self.share + self.share * self.ratio * reached
