"""Typical costs of drafting, for servers with neither a configured nor a measured cost: ranges, not values.

A cost has two parts, both in plain decode steps of the target model: what a method's *drafter* needs, and
what *verifying* a draft token needs. Both depend on the target model and on the load.

- *Dense*: while memory limits decoding, one more token costs its share of attention, logits and sampling.
  Beyond a number of tokens in a step, the ridge, it costs as much as a decoded one.
- *Mixture of experts*: n tokens reach 1 - (1 - 1/r)^n of the experts, with r the number of experts over those
  of a token. In small batches each draft token activates more of them.

docs/explanation/verdicts.md ("Sources of typical costs") has the measurements behind each number,
``benchmarks.published`` how often published speed-ups are within the range.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import hypot, inf, log2, sqrt
from typing import Final, NamedTuple

from spec_decode_exporter.config.cost_settings import Architecture
from spec_decode_exporter.costs.model_architecture import (
    UNKNOWN_DEPLOYMENT,
    UNKNOWN_TARGET,
    Deployment,
    TargetModel,
    base_name,
    data_rows,
)


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


_MEMORY_BOUND: Final = Range(0.001, 0.015, 0.03)
"""Verifying a token while memory limits decoding. It is never free: drafts that are rejected cost time."""
_RIDGE: Final = Range(90.0, 220.0, 400.0)
"""Tokens of a step at which a dense model in 16 bits becomes bound by arithmetic: A100, H100, H200."""
_CONSUMER_RIDGE: Final = 0.5
"""Factor of the lowest ridge on consumer GPUs: 76 operations a byte on an RTX 3090."""
_HOST, _HOST_LOAD = 1.6, 12.0
"""Highest cost of a step by the host's work for each request, beside 8 billion parameters, and the load of
half of it: three tokens of EAGLE cost 0.6 at 2 requests, 0.9 at 8, 1.2 at 16 and 1.5 at 24 with SGLang 0.4
(EAGLE-3, arXiv 2503.01840)."""
_UNFUSED, _FUSED_CONTEXT = 0.25, 8_000.0
"""Highest cost of verifying for each doubling of the context beyond: some engines use a kernel for prompts
(SGLang #13976; with 4.8 tokens a step 2.31 at 1,000 and 1.18 at 50,000, intel/llm-scaler #657)."""
_USUAL_CONTEXT, _LONG_CONTEXT = 1_000.0, 4_000.0
"""Tokens of a request in the KV cache if they are unknown, for the guess and for the lowest cost."""
_CACHE: Final = 9e-6
"""KV cache of a token over the weights that a step reads, of a dense model of 8 billion in 16 bits."""
_CACHE_EXPONENT, _SIZE_EXPONENT = 0.6, 0.35
"""The cache and the layer of a drafter grow less than the model: powers of its size."""
_LOCAL_KERNELS: Final = Range(0.0, 0.12, 0.9)
"""Verifying a token with llama.cpp or MLX: kernels for a few tokens may read the weights for each (0.7 to 0.9
on Metal, 0.1 to 0.5 on consumer GPUs)."""
_CONSUMER_KERNELS: Final = Range(0.0, 0.06, 0.4)
"""The same on other GPUs than a datacentre's (27B models on RTX 5090, Arc B60, Radeon 8060S: 0.1 to 0.3)."""
_LIGHT: Final = 1.5
"""Factor of upper ends beside a light target: launches and sampling are more of its step, those that do not
shrink with the target by its size too."""
_EXPERTS_RATIOS: Final = (4.0, 8.0, 16.0, 32.0, 48.0)
"""Experts over the experts of a token, of published models."""
_GUESSED_RATIO: Final = 16.0
_EXPERTS_SHARE: Final = Range(0.1, 0.3, 0.7)
"""Share of the experts in the time of a step with one token."""
_SPREAD: Final = Range(1.0, 0.75, 0.5)
"""With n GPUs the experts become faster by this power of n more than the rest of a step: all-reduces and
launches remain (DeepSeek-R1 on 8 GPUs: 0.5 of 8 ms are experts)."""
_GPU_BYTES: Final = 120e9
"""Weights that a GPU holds at most: a larger model is spread."""
_LONG_SHARE: Final = 0.25
"""Share of the cost that remains where long contexts dominate a step of a mixture of experts."""
_FEW_EXPERTS, _SHARE_OF_FEW = 4.0, 0.8
"""Up to this ratio experts are few and large: the upper limit of their share."""
_NEW_EXPERTS: Final = Range(0.5, 0.62, 0.8)
"""Share of a draft token's experts that the token before it did not use."""
_CORNER, _LATE_CORNER = 0.8, 1.3
"""Guess and upper limit of what computing a token of a mixture costs, over a smooth transition."""
_MIXTURE_DRAFTER: Final = 1.5
"""Drafters of mixtures of experts are larger, relative to what a step reads of the target."""
_SIZED: Final = frozenset({"eagle", "eagle3", "mtp"})
"""Methods whose drafter is a layer of the target: its share of a step falls with the size."""
_REFERENCE_BYTES: Final = 16e9
"""Bytes that a step of the target reads for which their cost holds: 8 billion parameters in 16 bits."""
_SIZES: Final = Range(0.5, 1.0, 1.5)
"""Factors of an unknown size: of 70 and of 2 billion parameters."""

_PARALLEL_LAYERS: Final = Range(1.0, 2.0, 4.0)
"""Layers of a drafter that drafts all tokens in one pass, over those of one that drafts them one by one."""
_PARALLEL_TOKEN: Final = Range(0.0, 0.01, 0.03)
"""A further token of such a pass, besides verifying it."""

_CACHE_ALONE: Final = frozenset({"dflash", "dspark"})
"""Methods that only store keys and values in a step without drafts."""

UNKNOWN_METHOD: Final = DrafterCost(Range(0.0, 0.12, 0.5), Range(0.01, 0.10, 0.35))
"""Any drafter: a draft model costs 0.01 to 0.5, by its size."""
_DRAFTERS: Final = {
    row["method"]: DrafterCost(
        token=Range(*(float(row[name]) for name in ("token_low", "token", "token_high"))),
        step=Range(*(float(row[name]) for name in ("step_low", "step", "step_high"))),
        every_step=bool(row["every_step"]),
    )
    for row in data_rows("typical_drafters.csv")
}
DRAFT_MODEL: Final = "draft_model"
METHODS: Final = (*_DRAFTERS, DRAFT_MODEL, "custom_class", "extract_hidden_states")
"""vLLM's methods. The last three have no typical cost: by its size, anything, nothing."""


class UsualLength(NamedTuple):
    """Acceptance length that others published for a method, or for it with one model."""

    low: float
    high: float
    measurements: int
    source: str  # of the first one


@lru_cache(maxsize=64)
def usual_length(method: str, tokens: int, model_name: str = "") -> UsualLength | None:
    """Return the usual acceptance length with ``tokens`` draft tokens; None without published ones.

    ``usual_acceptance.csv`` has the acceptance a of a token given those before, of a method the 10th and the
    90th percentile, of a model the least and the most; the length is 1 + a + … + a^k (arXiv 2211.17192).
    """
    row = _USUAL.get((present_name(method), base_name(model_name)))
    if row is None or tokens < 1:
        return None
    low, high = (sum(float(row[end]) ** power for power in range(tokens + 1)) for end in ("low", "high"))
    return UsualLength(low, high, int(row["measurements"]), row["source"])


_USUAL: Final = {(row["method"], row["model"]): row for row in data_rows("usual_acceptance.csv")}


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


def drafting(
    method: str,
    target: TargetModel = UNKNOWN_TARGET,
    deployment: Deployment = UNKNOWN_DEPLOYMENT,
    running: float = 1.0,
) -> DrafterCost:
    """Return the typical cost of a drafter beside this target; that of any drafter if the method has none."""
    name = present_name(method)
    cost = _DRAFTERS.get(name, UNKNOWN_METHOD)
    (low, guess, high), step = cost.token, cost.step
    sizes, is_sized = _size_factors(target, deployment, running), name in _SIZED
    if target.is_light or not deployment.is_datacentre:
        factor = _LIGHT if is_sized else _LIGHT * max(sizes.guess, 1.0)
        high, step = factor * high, step._replace(high=factor * step.high)
    if target.architecture is not Architecture.DENSE and not (is_sized and target.parameters):
        high *= _MIXTURE_DRAFTER
    if is_sized:
        low, guess, high = low * sizes.low, guess * sizes.guess, high * sizes.high
        step = step._replace(high=step.high * min(sizes.guess, 1.0))
    if is_sized or name not in _DRAFTERS:  # an unknown one may be such a layer
        host = _HOST * running / (running + _HOST_LOAD) * sizes.guess * min(sizes.guess, 1.0)
        step = step._replace(high=max(step.guess, step.high, host))
    if deployment.drafts_in_parallel and name not in _DRAFTERS.keys() - _SIZED:  # one pass for all tokens
        more = _PARALLEL_LAYERS if is_sized else Range(1.0, 1.0, 1.0)
        step = Range(
            *(own + layers * pass_ for own, layers, pass_ in zip(step, more, (low, guess, high), strict=True))
        )
        low, guess, high = _PARALLEL_TOKEN
    return DrafterCost(Range(low, guess, high), step, cost.every_step)


def _size_factors(target: TargetModel, deployment: Deployment, running: float) -> Range:
    """Return factors of the drafter's share: a larger target has more layers, and its drafter still one."""
    if target.parameters is None:
        return _SIZES
    active = target.active_parameters or target.parameters
    reached = 1 - max(0.0, 1 - active / target.parameters) ** max(running, 1.0)
    read = target.parameters * reached * target.weight_bytes
    factor = (_REFERENCE_BYTES / read * sqrt(_gpus(target, deployment))) ** _SIZE_EXPONENT
    return Range(min(factor, 1.0), factor, max(factor, _SIZES.low))


def _gpus(target: TargetModel, deployment: Deployment) -> float:
    """Return the GPUs that share a model, at least as many as hold its weights."""
    spread = deployment.expert_parallel if target.architecture is not Architecture.DENSE else None
    known = max(deployment.tensor_parallel or 1, spread or 1)
    return max(known, (target.parameters or 0.0) * target.weight_bytes / _GPU_BYTES, 1.0)


def verifying(
    target: TargetModel,
    running_requests: float,
    tokens: float,
    *,
    context: float | None = None,
    deployment: Deployment = UNKNOWN_DEPLOYMENT,
) -> Range:
    """Return the cost of verifying one of the ``tokens`` draft tokens of each running request.

    An unknown architecture means either; ``context`` is the tokens of a request in the KV cache.
    """
    running, drafted = max(running_requests, 1.0), max(tokens, 1.0)
    ridge = _ridge(target, deployment)
    cost = dense = _dense(target, ridge, running, drafted, context)
    if target.architecture is not Architecture.DENSE:
        cost = mixture = _mixture(target.experts_ratio, _gpus(target, deployment), ridge, running, drafted)
        if target.architecture is None:
            cost = Range(min(dense.low, mixture.low), dense.guess, max(dense.high, mixture.high))
    low, guess, high = cost
    if target.is_local or not deployment.is_datacentre:
        kernels = _LOCAL_KERNELS if target.is_local else _CONSUMER_KERNELS
        guess, high = guess + kernels.guess, max(high, kernels.high)
    if context is not None and context > _FUSED_CONTEXT:
        high += _UNFUSED * log2(context / _FUSED_CONTEXT)
    return Range(low, guess, max(guess, min(1.0, high)))


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


def cache_bytes(target: TargetModel) -> float | None:
    """Return about the bytes of a token in a KV cache of 16 bits, with grouped queries; None if unknown."""
    if target.parameters is None:
        return None
    growth: float = (2 * target.parameters / _REFERENCE_BYTES) ** (1 - _CACHE_EXPONENT)
    return _CACHE * _REFERENCE_BYTES * growth


def pass_by_size(share: float) -> Range:
    """Return what a pass of a draft model costs, by its part of what a plain step reads.

    At least 0.8 and at most 2.5 times that part, plus 0.08: a small model has nearly as many layers to launch
    as a large one.
    """
    return Range(0.8 * share, share, 2.5 * share + 0.08)


def is_layer(method: str, deployment: Deployment) -> bool:
    """Return whether the drafter is a layer that runs once for each draft token."""
    return present_name(method) in _SIZED and not deployment.drafts_in_parallel


def undrafted_pass(
    method: str, target: TargetModel, deployment: Deployment, tokens: int = 1, share: float | None = None
) -> Range:
    """Return what the drafter costs in a step in which a schedule drafts nothing, in plain steps.

    vLLM runs its first pass there too, to keep its KV cache in sync (``llm_base_proposer.py``), and Model
    Runner V2 all ``tokens`` passes of a draft model (``standalone_ar/speculator.py``), unless one drafts all.
    So these steps take longer than without speculation. ``share`` is a draft model's part of the weights.
    """
    name = present_name(method)
    if every_step_pays(name) or name in _CACHE_ALONE:
        return Range(0.0, 0.0, 0.0)
    cost, in_parallel = drafting(method, target, deployment), deployment.drafts_in_parallel
    passed = Range(0.0, cost.step.guess, cost.step.high) if in_parallel else cost.token
    if name != DRAFT_MODEL:
        return passed
    low, guess, high = passed if share is None else pass_by_size(share)
    return Range(low, guess, high if in_parallel else max(tokens, 1) * high)


def fixed_tokens(method: str, deployment: Deployment = UNKNOWN_DEPLOYMENT) -> float:
    """Return the typical fixed cost of a method in draft tokens, or 0: it splits a measured cost."""
    if drafter_cost(method) is None and not deployment.drafts_in_parallel:
        return 0.0
    its = drafting(method, deployment=deployment)
    return its.step.guess / (its.token.guess + _MEMORY_BOUND.guess)


def _ridge(target: TargetModel, deployment: Deployment) -> Range:
    """Return the tokens at which arithmetic limits a step; fewer where weights are read in less time.

    Those of four bits are computed in 16 bits, and those of eight on GPUs without such units.
    """
    is_narrow = target.is_quantised or target.is_local
    size = (target.weight_bytes if is_narrow else max(target.weight_bytes, 1.0)) / 2
    low = size * _RIDGE.low * (1.0 if deployment.is_datacentre else _CONSUMER_RIDGE)
    return Range(low, _RIDGE.guess * (size if is_narrow else 1.0), _RIDGE.high)


def _dense(target: TargetModel, ridge: Range, running: float, tokens: float, context: float | None) -> Range:
    size = (target.parameters or _REFERENCE_BYTES / 2) / _REFERENCE_BYTES * 2
    cache = running * _CACHE * 2 / target.weight_bytes / size**_CACHE_EXPONENT  # for a token of context
    longest = 1 + cache * 1.5 * (context or _LONG_CONTEXT)
    plain = max(longest, running / ridge.high)
    sharp = (max(longest, running * (1 + tokens) / ridge.high) / plain - 1) / tokens
    lowest = min(sharp, _roofline(running, tokens, ridge.high, longest - 1))
    return Range(
        max(lowest, _MEMORY_BOUND.low),
        _MEMORY_BOUND.guess + _roofline(running, tokens, ridge.guess, cache * (context or _USUAL_CONTEXT)),
        min(1.0, _MEMORY_BOUND.high + _roofline(running, tokens, ridge.low)),
    )


def _roofline(running: float, tokens: float, ridge: float, cache: float = 0.0) -> float:
    """Return the cost of a token where memory and arithmetic overlap in part.

    A step that computes n tokens takes ((1 + cache)² + (n/ridge)²)^½, with the KV cache that it reads over
    the weights. That is within 0.1 of an H100 up to 128 requests (``benchmarks.gpu_passes``).
    """
    plain = hypot(1 + cache, running / ridge)
    return (hypot(1 + cache, running * (1 + tokens) / ridge) / plain - 1) / tokens


def _mixture(experts_ratio: float | None, gpus: float, ridge: Range, running: float, tokens: float) -> Range:
    lows, guess, highs = _passes(experts_ratio, gpus, ridge)
    low = min([each.token(running, tokens) for each in lows])
    high = max([each.highest(running, tokens) for each in highs])
    return Range(
        max(_LONG_SHARE * low, _MEMORY_BOUND.low),
        guess.token(running, tokens) + _MEMORY_BOUND.guess,
        min(1.0, high + _MEMORY_BOUND.high),
    )


@lru_cache(maxsize=64)
def _passes(
    experts_ratio: float | None, gpus: float, ridge: Range
) -> tuple[Sequence[_Pass], _Pass, Sequence[_Pass]]:
    """Return the passes with the lowest cost, the guessed one, and those with the highest cost."""
    ratios = _EXPERTS_RATIOS if experts_ratio is None else (experts_ratio,)
    guessed, (low, guess, high), new = experts_ratio or _GUESSED_RATIO, _EXPERTS_SHARE, _NEW_EXPERTS
    highest = [(ratio, _SHARE_OF_FEW if ratio <= _FEW_EXPERTS else high) for ratio in ratios]

    def spread(share: float, power: float) -> float:
        rest: float = (1 - share) * gpus**power
        return share / (share + rest)

    return (
        [_Pass(ratio, spread(low, _SPREAD.low), new.low) for ratio in ratios],
        _Pass(guessed, spread(guess, _SPREAD.guess), new.guess, ridge.guess, _CORNER),
        [_Pass(ratio, spread(share, _SPREAD.high), new.high, ridge.low) for ratio, share in highest],
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
