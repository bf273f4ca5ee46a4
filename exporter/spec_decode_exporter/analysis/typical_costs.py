"""Typical costs of methods, for servers with neither a configured nor a measured cost.

The figures are in plain decode steps, for a target model of 8B to 70B parameters with memory-bound decoding.
They are rather too high than too low. They depend neither on the models nor on the load, so they never make a
verdict ``harmful``. Sources:

- *Verifying* one more token: 0.03. Its share of attention, logits and rejection sampling; the weights are
  read by a plain step too. (vLLM #24343, Llama-3.1-8B on an A100, EAGLE with a quarter of the vocabulary:
  0.07 to 0.08 for each of 32 draft tokens, of which the drafter's own weights are 0.05.)
- *A lost overlap*: 0.10. vLLM has no asynchronous scheduling with methods that draft on the host or were not
  adapted to it (in 0.32: ngram, suffix, medusa, mlp_speculator); a step then waits for the host. The same
  n-gram search with and without it: 33 and 39 ms a token for a 14B model (vllm-ascend #9008), 20 to 39 % more
  tokens for a 1.7B one (vLLM #29184); the longer a step takes, the less.
- *Drafting one after the other*: each draft token reads the drafter's weights. For a head this depends
  on the target model: a layer and the output matrix are 9 % of Llama 8B and 3 % of Llama 70B.
- *Starting a drafter*: 0.10, its first pass over what was accepted, its sampling, its launches. (#24343: 0.15
  to 0.17, before scheduling was asynchronous. DeepSeek-R1 with one MTP token, vLLM #12755: 0.12 in all.)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class MethodCost:
    """Typical cost of a method; see ``Cost`` for the two ratios."""

    draft_cost_ratio: float
    fixed_cost_ratio: float
    paid_by_every_step: bool = False
    """Whether steps that draft nothing pay the fixed cost too, as those of an n-gram search do."""

    @property
    def fixed_tokens(self) -> float:
        """The fixed cost, in draft tokens."""
        return self.fixed_cost_ratio / self.draft_cost_ratio


_METHOD_COSTS: Final = {
    # Nothing but verifying, and the overlap that is lost to searching on the host.
    "ngram": MethodCost(0.03, 0.10, paid_by_every_step=True),
    # The same search as a kernel, so that scheduling stays asynchronous.
    "ngram_gpu": MethodCost(0.03, 0.03, paid_by_every_step=True),
    # A tree instead of a search, on the host as well; it is felt at high loads (ArcticInference #204).
    "suffix": MethodCost(0.03, 0.10, paid_by_every_step=True),
    # A head is one small matrix and, in vLLM, an output matrix of its own. They run side by side.
    "medusa": MethodCost(0.06, 0.10, paid_by_every_step=True),
    # Likewise, one after the other. (An LSTM drafter is 5 to 10 % of a step, ArcticInference #150.)
    "mlp_speculator": MethodCost(0.06, 0.10, paid_by_every_step=True),
    # One layer and the whole output matrix for each token. (#24343: 0.09 with all of the vocabulary.)
    "eagle": MethodCost(0.08, 0.10),
    # A quarter of the vocabulary. (vLLM #24243, MiniCPM-4B, six tokens: 0.43 to 0.53 for all, 0.52 here.)
    "eagle3": MethodCost(0.07, 0.10),
    # One layer of the target and its output matrix. (A 27B model, two and four tokens: 0.44 and 0.46.)
    "mtp": MethodCost(0.07, 0.10),
    # All tokens in one pass of about five of 36 layers: the pass is fixed, a token is verified only.
    "dflash": MethodCost(0.03, 0.20),
    # Likewise, with a small head that goes over the tokens one after the other.
    "dspark": MethodCost(0.04, 0.20),
    # None: draft_model (0.01 to 0.5, by its size), custom_class (anything), extract_hidden_states (nothing).
}


def method_cost(method: str) -> MethodCost | None:
    """Return the typical cost of a method in vLLM's spelling; None if there is none.

    vLLM's older names are accepted: ``[ngram]``, and names that end with ``_mtp``.
    """
    name = method.strip("[] ").lower()
    return _METHOD_COSTS.get("mtp" if name.endswith("_mtp") else name)


def undrafted_steps_are_plain(method: str) -> bool:
    """Return whether a step without drafts, of a server that speculates, costs as much as a plain step.

    It does if the drafter does not run then. It does not if every step searches for a draft. An unknown
    method is assumed to have plain steps.
    """
    cost = method_cost(method)
    return cost is None or not cost.paid_by_every_step
