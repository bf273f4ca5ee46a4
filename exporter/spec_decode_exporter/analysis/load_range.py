"""Limit of the cost of speculation from the steps that an engine has shown at other loads.

A plain step at load b computes b tokens, one of each request, and the prompts that come with them. A step that
computed no more tokens of no more contexts took no longer, but for the drafter:

    t0(b) ≥ (t1 - fixed·(1 + passes/2)) / (1 + share·passes)

with t1 a step that drafts at a load up to about b/(K + 1). So κ, the time of a step at load b over t0(b), has
an upper limit without any published cost. A step takes at most in proportion to its tokens, and to the power
0.75 of what it reads of the KV cache: so one of more tokens or contexts counts for less.

Drafters: a layer or two and an output matrix read 0.02 to 0.08 of what a dense target of 8 to 70 billion
parameters does, and launches and rejection sampling take 0.1 to 0.2 ms a pass and 0.2 to 0.4 ms a step on an
H100 (vLLM pull request 16937). The shares are what 99 % of modelled servers need (``benchmarks.load_range``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from spec_decode_exporter.analysis.model_architecture import Deployment, TargetModel
from spec_decode_exporter.analysis.typical_costs import present_name
from spec_decode_exporter.config.cost_settings import Architecture, CostSettings

_FIXED_SECONDS: Final = 0.0004
"""Time of a step that drafts beyond its passes; a pass of the drafter takes half of it besides its share."""
_LARGEST_SHARES: Final = {"eagle": 0.15, "eagle3": 0.15, "mtp": 0.15, "dflash": 0.4, "dspark": 0.4}
"""Largest time of a pass of the drafter, in plain steps. A search on the host has none."""
_ONE_PASS: Final = frozenset({"dflash", "dspark"})
_OF_SIZES, _LAUNCHES = 2.5, 0.08
"""Largest time of a pass of a draft model: so many times the ratio of the parameters, and its launches."""
_LIGHT, _MIXTURE = 2.0, 1.5
"""Factors beside a light target, and of a draft model beside one that may read few of its experts."""
_SMALL: Final = 5e9
_CONTEXT_EXPONENT: Final = 0.75


@dataclass(frozen=True, slots=True)
class LargestDrafter:
    """Most that a drafter takes of a step."""

    share: float
    """Of a pass, in plain steps."""
    is_one_pass: bool
    """True if one pass drafts all tokens."""


def largest_drafter(
    method: str, target: TargetModel, deployment: Deployment, settings: CostSettings | None
) -> LargestDrafter | None:
    """Return the most that a drafter takes; None if that is unknown."""
    name = present_name(method)
    small = target.parameters is not None and target.parameters < _SMALL
    share, is_light = _LARGEST_SHARES.get(name), small or target.is_quantised or not deployment.is_datacentre
    if settings is not None and settings.draft_parameters is not None:
        share = _OF_SIZES * settings.draft_parameters / (settings.target_parameters or 1.0) + _LAUNCHES
        share *= 1.0 if target.architecture is Architecture.DENSE else _MIXTURE
    if share is None:
        return None
    is_one_pass = name in _ONE_PASS or deployment.drafts_in_parallel
    return LargestDrafter(share * (_LIGHT if is_light else 1.0), is_one_pass)


class SeenSteps(NamedTuple):
    """Steps of an engine near one load."""

    seconds: float
    """Lower limit of their mean time (97.5 %)."""
    tokens: float
    """Mean tokens that a step computes: decoded ones, drafts and prompts."""
    contexts: float
    """Tokens that a step reads of the KV cache; 0 if unknown."""
    drafting: float
    """Share of the steps that draft."""
    draft_tokens: float
    """Draft tokens of a request in a step."""

    def plain_seconds(self, drafter: LargestDrafter) -> float:
        """Return the least time of a plain step that computes and reads as much."""
        passes = self.drafting if drafter.is_one_pass else self.draft_tokens
        seconds = self.seconds - _FIXED_SECONDS * (self.drafting + passes / 2)
        return max(seconds, 0.0) / (1 + drafter.share * passes)


@dataclass(frozen=True, slots=True)
class LoadRange:
    """Steps at all loads that an engine has shown."""

    steps: Sequence[SeenSteps] = ()

    def plain_seconds(
        self, loads: Sequence[float], drafter: LargestDrafter, prompt: float, context: float | None
    ) -> list[float]:
        """Return the least time of a plain step at each load; 0 if unknown.

        Args:
            loads: Decoding requests.
            drafter: That of the steps that draft.
            prompt: Uncached prompt tokens for each decoded token.
            context: Tokens of a request in the KV cache; None if unknown.
        """
        known = [(each.plain_seconds(drafter), each.tokens, each.contexts) for each in self.steps]

        def at(load: float) -> float:
            computed, read = load * (1 + prompt), load * (context or 0.0)
            return max(
                (
                    seconds
                    * min(1.0, computed / tokens)
                    * (min(1.0, read / contexts) ** _CONTEXT_EXPONENT if read and contexts else 1.0)
                    for seconds, tokens, contexts in known
                ),
                default=0.0,
            )

        return [at(load) for load in loads]
