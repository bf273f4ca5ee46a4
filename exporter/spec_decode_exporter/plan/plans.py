"""Plans: the expected speed-up of a server before it drafts, and the memory of a deployment's models.

The speed-up is S(k) of ``analysis.depth``, with p_i = a^(i+1), the share of drafts whose first i+1 tokens are
accepted, at the same acceptance a of every token (Leviathan, Kalman and Matias 2023, arXiv 2211.17192,
section 3). The acceptance is taken as exact: the bounds are those of the cost.

The GPUs of an engine hold a part of the models each, and vLLM gives all of them the same KV cache.
Return: (speed-up - 1) · baseline throughput / draft memory, in tokens a second gained for each GB.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from enum import StrEnum
from functools import cached_property
from math import ceil
from typing import Final, NamedTuple

from pydantic import ByteSize, Field, TypeAdapter, ValidationError

from spec_decode_exporter.analysis.depth import speedup
from spec_decode_exporter.analysis.verdict import SHARES, SpeedupRange, Verdict, likely_share, speedup_verdict
from spec_decode_exporter.analysis.window_evaluation import GIGABYTE, probably_pays
from spec_decode_exporter.config.comparison_settings import Architecture, CostSettings
from spec_decode_exporter.config.policy import DepthPolicy, SpeedupPolicy
from spec_decode_exporter.core.number_formats import plural
from spec_decode_exporter.costs.cost import CostRange, CostSource, CostSources, fixed_tokens
from spec_decode_exporter.costs.methods import DRAFT_MODEL, drafts_what_it_finds, kind_of
from spec_decode_exporter.costs.model_architecture import architecture_of
from spec_decode_exporter.costs.published import PublishedShare, published_steps
from spec_decode_exporter.figures.estimate import Estimate
from spec_decode_exporter.plan.models import Model
from spec_decode_exporter.views.document import View, at, computed, fact
from spec_decode_exporter.views.engine_view import CostView
from spec_decode_exporter.views.verdict_text import likely_text, range_text
from spec_decode_exporter.views.words import VERDICTS

TABLE_TOKENS: Final = 8  # largest number of draft tokens in the table, beside the planned one
_HALVINGS: Final = 60
_SPEEDUPS, _TOLERANCE = SpeedupPolicy(), DepthPolicy().tolerance  # thresholds of the exporter by default
GPUS: Final[Mapping[str, int]] = {
    "A10G": 23_028, "L4": 23_034, "RTX-4090": 24_564, "RTX-5090": 32_607, "A100-40GB": 40_960, "L40S": 46_068,
    "H100": 81_559, "A100": 81_920, "H20": 97_871, "GH200": 97_871, "RTX-PRO-6000": 97_887, "H200": 143_771,
    "B200": 183_359, "GB200": 189_471, "MI300X": 196_592,
}  # fmt: skip
"""Memory in MiB, as nvidia-smi or rocm-smi shows it."""
DEFAULT: Final = "H100"
_SIZE: Final = TypeAdapter(ByteSize)


class PlannedDepth(View):
    """Expected speed-up of a number of draft tokens."""

    tokens: int
    speedup_ratio: float
    speedup_ratio_lower: float = at("At the highest possible cost; of a search also if it finds nothing.")
    speedup_ratio_upper: float = at("At the lowest possible cost.")
    acceptance_ratio: float = at("Assumed acceptance rate of these draft tokens.")
    break_even_acceptance_ratio: float = at("Acceptance rate; above 1: never pays.")

    @property
    def bounds(self) -> Estimate:
        """The speed-up within the bounds of the cost."""
        return Estimate(self.speedup_ratio, self.speedup_ratio_lower, self.speedup_ratio_upper, 0.0)


class SpeedupPlan(View):
    """Speed-up of a model, by its name, at an assumed acceptance. Without a cost figures are null."""

    model_name: str
    method: str
    architecture: Architecture | None = Field(default=None, exclude=True)
    """That of its config.json; None to read it from the name."""
    running_requests: float = 32.0
    context_tokens: int | None = at("Tokens of a request in the KV cache.", default=None)
    draft_tokens: int = 4
    acceptance: float = Field(default=0.7, exclude=True)
    """Acceptance of a token, given that those before it were accepted."""
    given_cost_ratio: float | None = Field(default=None, exclude=True)
    drafts_in_parallel: bool = Field(default=False, exclude=True)

    # fmt: off
    token_acceptance_ratio = fact("Assumed acceptance.", float, lambda plan: plan.acceptance)
    acceptance_length_tokens = fact("Tokens of a step that drafts.", float, lambda plan: 1 + sum(plan.reached[: plan.draft_tokens]))
    speedup_ratio = fact("At this number of draft tokens and this acceptance.", float | None, lambda plan: plan.depth and plan.depth.speedup_ratio)
    speedup_ratio_lower = fact("At the highest possible cost.", float | None, lambda plan: plan.depth and plan.depth.speedup_ratio_lower)
    speedup_ratio_upper = fact("At the lowest possible cost.", float | None, lambda plan: plan.depth and plan.depth.speedup_ratio_upper)
    cost = fact("Cost at this number of draft tokens; null if unknown.", CostView | None, lambda plan: plan.known_cost and CostView.of(plan.known_cost))
    cost_source = fact("Source of that cost.", CostSource | None, lambda plan: plan.known_cost and plan.known_cost.source)
    # fmt: on

    @property
    def load(self) -> float:
        """Requests in a step."""
        return self.running_requests

    @property
    def acceptance_basis(self) -> str:
        """The acceptance that the speed-ups assume, in words."""
        return f"the assumed acceptance of {self.acceptance:.3g}"

    # Cost

    @cached_property
    def cost_model(self) -> CostSources:
        """All that is known of the cost, as the live exporter holds it."""
        settings: CostSettings | None = None
        if self.given_cost_ratio is not None:
            kind = kind_of(self.method, in_parallel=self.drafts_in_parallel)
            fixed = self.given_cost_ratio * fixed_tokens(kind, self.draft_tokens)
            settings = CostSettings(
                draft_cost_ratio=self.given_cost_ratio, fixed_cost_ratio=fixed, running_requests=self.load
            )
        architecture = self.architecture or architecture_of(self.model_name)
        return CostSources(settings, (), self.method, architecture, self.drafts_in_parallel)

    def cost_of(self, tokens: int) -> CostRange | None:
        """Return the cost of drafts of ``tokens``; None if unknown."""
        return self.cost_model.at(self.load, tokens)

    @cached_property
    def known_cost(self) -> CostRange | None:
        """Cost at the planned number of draft tokens; None if unknown."""
        return self.cost_of(self.draft_tokens)

    @property
    def has_typical_cost(self) -> bool:
        """True if the cost is by published measurements."""
        return self.known_cost is not None and self.known_cost.is_typical

    # Speed-up

    @property
    def reached(self) -> Sequence[float]:
        """p_i of every position."""
        number = max(TABLE_TOKENS, self.draft_tokens)
        return [self.acceptance ** (position + 1) for position in range(number)]

    @computed
    def depths(self) -> tuple[PlannedDepth, ...]:
        """Numbers of draft tokens; empty if the cost is unknown."""
        numbers = sorted({*range(1, TABLE_TOKENS + 1), self.draft_tokens})
        costs = ((tokens, self.cost_of(tokens)) for tokens in numbers)
        return tuple(self.at_cost(tokens, cost) for tokens, cost in costs if cost is not None)

    @property
    def depth(self) -> PlannedDepth | None:
        """The planned number of draft tokens; None if its cost is unknown."""
        return next((depth for depth in self.depths if depth.tokens == self.draft_tokens), None)

    @computed
    def verdict(self) -> Verdict:
        """Verdict by the speed-up at this acceptance and every possible cost."""
        if self.depth is None:
            return Verdict.UNCLEAR
        bounds = self.depth.bounds
        verdict = speedup_verdict(SpeedupRange(bounds, bounds.lower, bounds.upper), _SPEEDUPS)
        return Verdict.HEALTHY if verdict is Verdict.OPTIMAL and self.has_typical_cost else verdict

    @computed
    def pays_share_ratio(self) -> float | None:
        """Share of published costs, or of the possible speed-ups, at which it pays; null if unknown."""
        bounds = None if self.depth is None else self.depth.bounds
        likely = self.published_share.ratio if self.published_share else likely_share(bounds, _SPEEDUPS)
        return SHARES.get(self.verdict, likely)

    @computed
    def verdict_text(self) -> str:
        """The verdict in one sentence; if it is unclear, with what is likely."""
        depth, cost = self.depth, self.known_cost
        if depth is None or cost is None:
            return f"{self._unknown}. Measure the cost: spec-decode-exporter observe."
        if self.verdict is Verdict.UNCLEAR:
            even = sum(self.reached[: depth.tokens]) - cost.guess.step
            share, is_likely = self.published_share, probably_pays(self.pays_share_ratio)
            return likely_text(depth.bounds, even / depth.tokens, cost, share, is_likely=is_likely)
        value, lower, upper = (f"{ratio:.2f}" for ratio in depth.bounds[:3])
        return f"{VERDICTS[self.verdict].title}: {value} times as fast as without it ({lower} to {upper} {range_text(cost)}), decode only."

    @computed
    def best_tokens(self) -> int | None:
        """Fewest draft tokens that are as good as the best; 0 if none is above 1, null if the cost is typical."""
        if not self.depths or self.has_typical_cost:
            return None
        largest = max(depth.speedup_ratio for depth in self.depths)
        enough = max((1 - _TOLERANCE) * largest, 1.0)
        good = (depth.tokens for depth in self.depths if depth.speedup_ratio >= enough)
        return next(good, 0) if largest > 1 else 0

    @cached_property
    def published_share(self) -> PublishedShare | None:
        """Published costs at which this would pay; None with a cost that is about the server itself."""
        if not self.has_typical_cost:
            return None
        accepted = sum(self.reached[: self.draft_tokens])
        return self.cost_model.published_share(self.load, self.draft_tokens, accepted, 1.0)

    @property
    def _unknown(self) -> str:
        """Reason why the cost is unknown, with the speed-ups that were published."""
        steps = [step for step in published_steps(self.cost_model.kind) if step.method == self.method]
        reason = f"Too few published what drafting by {self.method} costs"
        if not steps:
            return reason
        speedups, sources = [step.speedup for step in steps], len({step.source for step in steps})
        measured = f"{plural(len(steps), 'measurement')} of {plural(sources, 'source')}"
        return f"{reason}; in {measured}, with other models, it was {min(speedups):.2f} to {max(speedups):.2f} times as fast"

    def at_cost(self, tokens: int, cost: CostRange) -> PlannedDepth:
        """Return the speed-up of a number of draft tokens at a cost."""
        accepted, price = sum(self.reached[:tokens]), cost.guess
        value, lower, upper = (speedup(end, 1.0, accepted, tokens) for end in (price, cost.high, cost.low))
        if drafts_what_it_finds(self.method):
            lower = min(lower, speedup(cost.high, 0.0, accepted, tokens))  # perhaps no step finds a draft
        return PlannedDepth(
            tokens=tokens,
            speedup_ratio=value,
            speedup_ratio_lower=lower,
            speedup_ratio_upper=upper,
            acceptance_ratio=accepted / tokens,
            break_even_acceptance_ratio=price.token + price.step / tokens,
        )


def token_acceptance(tokens: int, length: float) -> float:
    """Return the acceptance a of every token for an acceptance length: 1 + a + … + a^k = ``length``."""
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        is_low = sum(middle**position for position in range(tokens + 1)) < length
        low, high = (middle, high) if is_low else (low, middle)
    return high


class Gpu(NamedTuple):
    """A kind of GPU, such as ``H100``; one of a given memory has no name."""

    name: str
    memory_bytes: int


def gpu_of(text: str) -> Gpu:
    """Return a GPU by its name or its memory; raise ValueError, with the nearest name, for another text."""
    name = re.sub("[ _]", "-", text.strip().upper())
    if name in GPUS:
        return Gpu(name, GPUS[name] * 2**20)
    if text[:1].isdigit():
        if size := memory(text):
            return Gpu("", size)
        raise ValueError(f"a GPU has more memory than {text!r}")
    near = get_close_matches(name, GPUS, n=1)
    hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(GPUS)};"
    raise ValueError(f"unknown GPU {text[:60]!r}; {hint} or give its memory, such as 81559MiB")


def memory(text: str) -> int:
    """Return the bytes in ``text``, or raise ValueError: ``80GB`` is 80 · 10^9, ``143771MiB`` 143771 · 2^20."""
    wrong = f"{text[:60]!r} is no amount of memory; write it as 80GB, 79.6GiB or 81559MiB"
    if text != "0" and not text.strip().upper().endswith("B"):
        raise ValueError(wrong)
    try:
        return int(_SIZE.validate_python(text.strip()))
    except (ValidationError, OverflowError):
        raise ValueError(wrong) from None


class PlanOutcome(StrEnum):
    """Result of a plan."""

    FITS = "fits"  # the models fit, with the wanted number of sequences
    TIGHT = "tight"  # the models fit, with fewer sequences than wanted
    WEIGHTS_FIT = "weights_fit"  # the weights fit; the size of a sequence in the KV cache is unknown
    DOES_NOT_FIT = "does_not_fit"  # the KV cache has no room for one sequence: vLLM would not start
    REFUSED = "refused"  # the models fit, but vLLM would refuse to start


# fmt: off
class Room(View):
    """Memory that models leave. Unknown values are null."""

    weight_bytes: int
    kv_cache_bytes: int = at("Without weights and overhead; negative if they do not fit.")
    kv_cache_bytes_per_token: float | None = at("Mean over a sequence.")
    kv_cache_tokens: int | None = at("Tokens that fit, in sequences of the plan.")
    concurrent_sequences: int | None = at("Sequences that fit.")
    fits: bool = at("Whether the KV cache holds a sequence, as far as its size is known.", exclude=True)


class MemoryReturn(View):
    """Return on the memory of drafting, for one engine."""

    baseline_tokens_per_second: float = at("Without speculation.")
    gained_tokens_per_second: float
    draft_memory_bytes: int = at("The draft's weights, and its part of the KV cache if that is known.")
    gained_tokens_per_second_per_gigabyte: float | None = at("Null if drafting takes no memory.")
    lower: float | None = at("That at the highest possible cost, and the same baseline.")
    upper: float | None = at("That at the lowest possible cost.")
# fmt: on


class DeploymentPlan(SpeedupPlan):
    """A plan of one engine: its input, and what follows from it, computed when it is read."""

    target: Model = at("The served model.")
    draft: Model | None = at("The draft model; null for a method without one.")
    gpus: int = at("Of one engine: the tensor parallel size of its models.")
    gpu_name: str = at("Kind of the GPUs; empty if only their memory was given.", default="")
    gpu_memory_bytes: int
    gpu_memory_utilisation_ratio: float = 0.9
    overhead_bytes: int = at("Of one GPU.", default=0)
    kv_cache_element_bytes: int = at("Bytes of an element: 2, or 1 in FP8.", default=2)
    engines: int = at("On all GPUs.", default=1)
    context_tokens: int = at("Of a sequence, prompt and answer.", default=8192)
    throughput: float | None = Field(default=None, exclude=True)
    """Tokens a second of one engine without speculation; None if unknown."""

    # fmt: off
    wanted_sequences = fact("Running requests, as whole sequences.", int, lambda plan: ceil(plan.running_requests))
    draft_to_target_ratio = fact("Ratio of the active parameters.", float | None, lambda plan: plan.draft and plan.draft.active_parameters / plan.target.active_parameters)
    # fmt: on

    @property
    def load(self) -> int:
        """Sequences in a step: the wanted ones, as far as they fit; all of them if none fits."""
        wanted: int = self.wanted_sequences
        return min(wanted, self.with_draft.concurrent_sequences or wanted)

    @property
    def models(self) -> list[Model]:
        """Target and draft."""
        return [self.target, *([self.draft] if self.draft else [])]

    def sequence_bytes(self, model: Model) -> int | None:
        """Return the bytes of a sequence in the KV cache over all GPUs; None if unknown."""
        return model.sequence_bytes(self.context_tokens, self.gpus, self.kv_cache_element_bytes)

    def room(self, *models: Model) -> Room:
        """Return the memory that models leave."""
        weights = sum(model.weight_bytes for model in models)
        usable = round(self.gpu_memory_bytes * self.gpu_memory_utilisation_ratio) - self.overhead_bytes
        cache = self.gpus * usable - weights
        sizes = [self.sequence_bytes(model) for model in models]
        known = sum(size or 0 for size in sizes)
        size = None if None in sizes else known
        return Room(
            weight_bytes=weights,
            kv_cache_bytes=cache,
            kv_cache_bytes_per_token=None if size is None else size / self.context_tokens,
            kv_cache_tokens=max(cache, 0) * self.context_tokens // size if size else None,
            concurrent_sequences=max(cache, 0) // size if size else None,
            fits=0 < cache >= known,
        )

    @property
    def unknown_caches(self) -> list[str]:
        """Models whose KV cache has an unknown size."""
        roles = zip(("target", "draft"), self.models, strict=False)
        return [role for role, model in roles if self.sequence_bytes(model) is None]

    @computed
    def without_draft(self) -> Room:
        """Memory beside the target alone."""
        return self.room(self.target)

    @computed
    def with_draft(self) -> Room:
        """Memory beside both models."""
        return self.room(*self.models)

    @computed
    def outcome(self) -> PlanOutcome:
        """Whether the models fit, and vLLM starts."""
        sequences = self.with_draft.concurrent_sequences
        if not self.with_draft.fits or self.refusal:
            return PlanOutcome.REFUSED if self.with_draft.fits else PlanOutcome.DOES_NOT_FIT
        if sequences is None:
            return PlanOutcome.WEIGHTS_FIT
        return PlanOutcome.TIGHT if sequences < self.wanted_sequences else PlanOutcome.FITS

    @computed
    def refusal(self) -> str:
        """Reason why vLLM would not start though the models fit, or empty."""
        configs = [model.config for model in self.models if model.config is not None]
        for heads in (config.num_attention_heads for config in configs):
            if heads % self.gpus:
                return f"{heads} attention heads cannot be divided over {self.gpus} GPUs: vLLM refuses that."
        sizes = [f"{config.vocab_size:,}" for config in configs]
        if self.method != DRAFT_MODEL or len(set(sizes)) < len(self.models):
            return ""
        return (
            f"The draft has {sizes[1]} tokens and the target {sizes[0]}: vLLM refuses a draft model with another "
            "vocab_size. Models of one family may differ in it, padded by their size."
        )

    @computed
    def return_on_memory(self) -> MemoryReturn | None:
        """Null if no throughput is known, or vLLM would not start."""
        baseline, depth, room = self.throughput, self.depth, self.with_draft
        if baseline is None or depth is None or not room.fits or self.refusal:
            return None
        size = cache = 0
        if self.draft is not None:
            share, per_token = self.sequence_bytes(self.draft), room.kv_cache_bytes_per_token
            if share and per_token:
                cache = int(room.kv_cache_bytes * share / (per_token * self.context_tokens))
            size = self.draft.weight_bytes + cache
        gains = [(ratio - 1) * baseline for ratio in depth.bounds[:3]]
        each, lower, upper = (gain * GIGABYTE / size if size else None for gain in gains)
        return MemoryReturn(
            baseline_tokens_per_second=baseline,
            gained_tokens_per_second=gains[0],
            draft_memory_bytes=size,
            gained_tokens_per_second_per_gigabyte=each,
            lower=lower,
            upper=upper,
        )
