"""Scenario: the simulated server, its load, and the changes over time (docs/reference/simulator.md)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from math import pi, sin
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from spec_decode_exporter.config.comparison_settings import Schedule
from spec_decode_exporter.config.mistakes import Mistake
from spec_decode_exporter.config.source import read_source
from spec_decode_exporter.config.types import Context, Duration, Section, Share

MAX_TOKENS: Final = 32
INCLUDED: Final = {path.stem: path for path in sorted(Path(__file__).with_name("scenarios").glob("*.yml"))}
"""Files of the included scenarios by name."""
_LOADS: Final = tuple(2**doublings for doublings in range(9))  # running requests for which the cost is given

Tokens = Annotated[int, Field(ge=1, le=1_000_000)]
DraftTokens = Annotated[int, Field(ge=0, le=MAX_TOKENS)]
MeanLength = Annotated[float, Field(gt=0, le=1_000_000)]
Processes = Annotated[int, Field(ge=1, le=64)]
ModelName = Annotated[str, Field(min_length=1)]


class Acceptance(Section):
    """Conditional acceptance of a draft token, given the tokens before it; in a change, omitted keys stay."""

    mean: Share = 0.75
    """At the first position, the mean over the requests: each request has its own."""
    spread: Share = 0.12
    decay: Annotated[float, Field(gt=0, le=1)] = 0.95


class Load(Section):
    """Load: clients with one request each at a time, or Poisson arrivals per second."""

    concurrency: Annotated[int, Field(ge=0, le=10_000)] | None = None
    rate: Annotated[float, Field(ge=0, le=10_000)] | None = None
    swing: Share = 0.0
    """Amplitude of a sine of the number of clients, as a share of it."""
    period: Annotated[Duration, Field(gt=0)] = 120.0

    def clients(self, moment: float) -> int:
        """Return the number of clients at a moment."""
        return round((self.concurrency or 0) * (1 + self.swing * sin(2 * pi * moment / self.period)))

    def mistakes(self) -> Iterator[Mistake]:
        """Yield a mistake unless the load is stated once."""
        if (self.concurrency is None) == (self.rate is None):
            yield (), "takes either `concurrency` or `rate`; give exactly one of them"
        if self.swing and self.concurrency is None:
            yield ("swing",), "is a share of `concurrency`; give that instead of `rate`"


class Outputs(Section):
    """Lengths of responses in tokens, log-normal. One that reaches ``max`` ends by `length`."""

    mean: MeanLength = 200.0
    spread: Annotated[float, Field(ge=0, le=5)] = 0.6
    """Standard deviation divided by the mean."""
    max: Tokens = 1024


class Prompts(Outputs):
    """Lengths of prompts, and the mean share of them in the prefix cache."""

    mean: MeanLength = 400.0
    max: Tokens = 4096
    cached: Share = 0.25


class RequestKind(Section):
    """One kind of requests in a mix: its labels, its weight, and its differences from the others."""

    request_type: Annotated[str, Field(max_length=64)] = ""
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    share: Annotated[float, Field(gt=0, le=1000)] = 1.0
    acceptance: Acceptance | None = None
    prompts: Prompts | None = None
    outputs: Outputs | None = None


class SimulatedSpeculation(Section):
    """Speculation: method, draft length and cost. Three defaults depend on the method."""

    method: Literal["draft_model", "eagle3", "ngram"] = "draft_model"
    tokens: DraftTokens = 4
    coverage: Share = Field(default_factory=lambda given: 0.5 if given.get("method") == "ngram" else 1.0)
    whole: Share = Field(default_factory=lambda given: 0.6 if given.get("method") == "ngram" else 1.0)
    cost: Annotated[float, Field(ge=0, le=10)] = Field(
        default_factory=lambda given: 0.0 if given.get("method") == "ngram" else 0.08
    )
    draft_model: ModelName = "meta-llama/Llama-3.2-1B-Instruct"
    tokens_per_batch_size: Schedule = ()

    def is_paused(self, requests: int) -> bool:
        """Return whether the schedule drafts nothing; vLLM's drafter still keeps its KV cache in sync."""
        return self.method != "ngram" and self.tokens > 0 == self.scheduled(requests)

    def scheduled(self, requests: int) -> int:
        """Return the draft length for a batch of ``requests``, at most K, as vLLM does.

        Between two ranges and after the last, the length of the previous range applies.
        """
        planned = [length for first, _, length in self.tokens_per_batch_size if first <= requests]
        return min([self.tokens, *planned[-1:]])


class Machine(Section):
    """Speed and capacity of each engine."""

    step: Duration = 0.025
    saturation: Tokens = 256
    jitter: Share = 0.05
    max_requests: Tokens = 64
    max_batched_tokens: Tokens = 8192
    kv_tokens: Tokens = 200_000
    max_model_len: Annotated[int, Field(ge=2, le=1_000_000)] = 8192

    def seconds(self, tokens: float) -> float:
        """Return the time of a step with ``tokens``: constant while bound by memory, then proportional."""
        return self.step * max(1.0, tokens / self.saturation)

    def mistakes(self) -> Iterator[Mistake]:
        """Yield a mistake for each capacity that is too small."""
        if self.kv_tokens < self.max_model_len + MAX_TOKENS:
            text = f"has `kv_tokens` below `max_model_len` + {MAX_TOKENS}: one long request would never end;"
            yield (), f"{text} raise `kv_tokens` or lower `max_model_len`"
        if self.max_batched_tokens < self.max_requests * (MAX_TOKENS + 1):
            text = f"has `max_batched_tokens` below {MAX_TOKENS + 1} times `max_requests`:"
            yield (), f"{text} a decode step would not hold all drafts; raise it or lower `max_requests`"


class Restart(Section):
    """Restart: the server closes its port, and returns with new counters and perhaps other draft lengths."""

    down: Duration = 20.0
    tokens: DraftTokens | None = None
    tokens_per_batch_size: Schedule | None = None


class Phase(Section):
    """Changes at one moment; everything else stays."""

    at: Duration
    acceptance: Acceptance | None = None
    load: Load | None = None
    coverage: Share | None = None
    prompts: Prompts | None = None
    outputs: Outputs | None = None
    mix: tuple[RequestKind, ...] | None = None
    restart: Restart | None = None


class Scenario(Section):
    """A simulated vLLM server, its load and its phases."""

    description: str = ""
    model_name: ModelName = "meta-llama/Llama-3.1-8B-Instruct"
    engines: Processes = 1
    api_servers: Processes = 1
    dev_mode: bool = False
    cost_known: bool = True
    """Whether its operator knows the cost of drafting."""
    speculation: SimulatedSpeculation = SimulatedSpeculation()
    acceptance: Acceptance = Acceptance()
    load: Load = Load(concurrency=16)
    prompts: Prompts = Prompts()
    outputs: Outputs = Outputs()
    mix: tuple[RequestKind, ...] = ()
    machine: Machine = Machine()
    phases: tuple[Phase, ...] = ()
    repeat: Duration | None = None

    def mistakes(self) -> Iterator[Mistake]:
        """Yield a mistake if phases are not in order."""
        moments = [*(phase.at for phase in self.phases), *([] if self.repeat is None else [self.repeat])]
        if moments != sorted(set(moments)):
            yield ("phases",), "are not in the order of their `at`, or not before `repeat`; order the phases"

    def after(self, part: Phase | RequestKind) -> Scenario:
        """Return the scenario with what ``part`` has instead."""
        names = ("load", "prompts", "outputs", "mix")
        changed: dict[str, Any] = {name: getattr(part, name, None) for name in names}
        if part.acceptance is not None:
            change = part.acceptance.model_dump(exclude_unset=True)
            changed["acceptance"] = self.acceptance.model_copy(update=change)
        if (coverage := getattr(part, "coverage", None)) is not None:
            changed["speculation"] = self.speculation.model_copy(update={"coverage": coverage})
        return self.model_copy(update={name: value for name, value in changed.items() if value is not None})

    def draft_cost_ratio(self, requests: float) -> float:
        """Return the true cost of one more draft token for a batch of ``requests``, in plain decode steps.

        It is the mean over K tokens, drafted for every request, without prefills.
        """
        tokens, plain = self.speculation.tokens, self.machine.seconds(requests)
        verifying = self.machine.seconds(requests * (1 + tokens)) - plain
        return (verifying / tokens + self.machine.step * self.speculation.cost) / plain

    def target_settings(self) -> dict[str, object]:
        """Return the settings that an operator of the server knows, as keys of a target's configuration."""
        speculation = self.speculation
        if not speculation.tokens:
            return {}
        known: dict[str, str] = {"method": speculation.method}
        if speculation.method == "draft_model":
            known["draft_model"] = speculation.draft_model
        if not self.cost_known:
            return {"speculative": known}
        loads = [
            {"running_requests": load, "draft_cost_ratio": self.draft_cost_ratio(load)} for load in _LOADS
        ]
        return {"speculative": known, "cost": {"loads": loads}}


def changes(scenario: Scenario) -> Iterator[tuple[float, Scenario, Restart | None]]:
    """Yield the moment, the scenario of new requests and the restart of each change, the first at 0.

    It is endless if the scenario repeats.
    """
    for cycle in count():
        begin, changed = cycle * (scenario.repeat or 0.0), scenario
        yield begin, changed, None
        for phase in scenario.phases:
            changed = changed.after(phase)
            yield begin + phase.at, changed, phase.restart
        if scenario.repeat is None:
            return


def load_scenario(name: str) -> Scenario:
    """Return the included scenario of this name, else the one in the file at this path.

    Raises:
        ConfigError: There is none, or it is invalid; the error has all problems.
    """
    path = INCLUDED.get(name) or Path(name)
    source = read_source(path)
    scenario = source.validated(Scenario, Context(path.parent))
    source.refuse()
    return scenario
