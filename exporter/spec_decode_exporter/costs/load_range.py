"""Upper limit of κ, the time of a drafting step in plain ones, from an engine's steps at other loads.

A plain step at load b computes b tokens, and those of the prompts that come with them. A step that computed
no more tokens of no more contexts took no longer, but for its drafter. So, with a drafting one at b/(K + 1),

    t0(b) ≥ (t1 - 0.4 ms - passes·0.2 ms) / (1 + passes·share)

More tokens take at most in proportion, and more contexts to the power 0.75. The fixed times are launches and
rejection sampling (vLLM pull request 16937); ``benchmarks.load_range`` has servers that the shares hold for.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from spec_decode_exporter.config.cost_settings import Architecture
from spec_decode_exporter.costs.cost import CostModel
from spec_decode_exporter.costs.typical_costs import pass_by_size, present_name

_STEP_SECONDS, _PASS_SECONDS = 0.0004, 0.0002
_LAYER, _BLOCK = 0.13, 0.4
"""Largest share of a pass in a plain step: of a layer and an output matrix beside 8 billion parameters, or of
several layers."""
_SHARES: Final = {"eagle": _LAYER, "eagle3": _LAYER, "mtp": _LAYER, "dflash": _BLOCK, "dspark": _BLOCK}
"""By method. A search on the host is no pass, and takes what it takes."""
_LEAST, _MOST, _BESIDE_MIXTURE = 0.05, 0.18, 0.08
"""Limits of that of a layer by the target's size, and beside a mixture of experts."""
_CONTEXT_EXPONENT: Final = 0.75


class Drafter(NamedTuple):
    """Most that a drafter takes of a step that drafts."""

    share: float
    """Of a pass, in plain steps."""
    is_one_pass: bool
    """True if one pass drafts all tokens."""


def largest_drafter(cost: CostModel) -> Drafter | None:
    """Return the most that a drafter takes; None if that is unknown."""
    name, target, sizes = present_name(cost.method), cost.target, cost.settings
    share, is_dense = _SHARES.get(name), target.architecture is Architecture.DENSE
    if sizes is not None and sizes.draft_parameters is not None:
        share = pass_by_size(sizes.draft_parameters / (sizes.target_parameters or 1.0)).high
        share *= 1.0 if is_dense else 1.5  # a mixture may read few of its experts
    elif share == _LAYER and target.architecture is Architecture.MIXTURE_OF_EXPERTS:
        share = _BESIDE_MIXTURE
    elif share == _LAYER:
        size = target.parameters if is_dense else None
        share = max(_LEAST, min(_MOST, share * (8e9 / size) ** 0.5)) if size else _MOST
    if share is None:
        return None
    is_light = target.weight_bytes < 1 or not cost.deployment.is_datacentre
    share *= 1.8 if is_light else 2**0.5 if target.weight_bytes == 1 else 1.0  # drafters have 16 bits
    return Drafter(share, _SHARES.get(name) == _BLOCK or cost.deployment.drafts_in_parallel)


class SeenSteps(NamedTuple):
    """Steps of an engine near one load."""

    seconds: float
    """Lower limit of their mean time (97.5 %)."""
    tokens: float
    """Tokens that a step computes: decoded ones, drafts and prompts."""
    contexts: float
    """Tokens that it reads of the KV cache; 0 if unknown."""
    drafting: float
    """Share of the steps that draft."""
    draft_tokens: float
    """Draft tokens of a request in a step."""

    def plain_seconds(self, drafter: Drafter) -> float:
        """Return the least time of a plain step that computes and reads as much."""
        passes = self.drafting if drafter.is_one_pass else self.draft_tokens
        fixed = _STEP_SECONDS * self.drafting + _PASS_SECONDS * passes
        return max(self.seconds - fixed, 0.0) / (1 + drafter.share * passes)


def plain_seconds(steps: Iterable[SeenSteps], drafter: Drafter, tokens: float, contexts: float) -> float:
    """Return the least time of a plain step with these tokens and contexts; 0 if unknown."""

    def least(its: SeenSteps) -> float:
        if contexts and not its.contexts:
            return 0.0  # it may have read any
        shorter = min(1.0, contexts / its.contexts) if contexts else 1.0
        share: float = min(1.0, tokens / its.tokens) * shorter**_CONTEXT_EXPONENT
        return share * its.plain_seconds(drafter)

    return max(map(least, steps), default=0.0)
