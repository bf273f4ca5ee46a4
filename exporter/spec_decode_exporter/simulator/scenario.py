"""Scenario file: the simulated server, its load, and the changes over time."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Final, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from spec_decode_exporter.config.types import Duration, format_duration

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_TOKENS: Final = 32
MAX_ENGINES: Final = 64

DRAFT_COST: Final = {"draft_model": 0.08, "ngram": 0.0}
COVERAGE: Final = {"draft_model": 1.0, "ngram": 0.5}
WHOLE_DRAFTS: Final = {"draft_model": 1.0, "ngram": 0.6}

Share = Annotated[float, Field(ge=0, le=1)]
TokenCount = Annotated[int, Field(ge=1, le=1_000_000)]
DraftTokens = Annotated[int, Field(ge=0, le=MAX_TOKENS)]


def _quotable(name: str) -> str:
    """Refuse characters that need escapes in a label: the pages do not escape."""
    if not name or any(character in '\\"' or not character.isprintable() for character in name):
        raise ValueError(
            "is not a name for a model: write at least one character, without quotes, \\ and line ends"
        )
    return name


class ScenarioPart(BaseModel):
    """One mapping of a scenario; unknown keys are mistakes."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Acceptance(ScenarioPart):
    """Conditional acceptance of a draft token, given the tokens before it; each request has its own mean."""

    mean: Share = Field(default=0.75, description="At the first position, the mean over the requests.")
    spread: Share = Field(
        default=0.12, description="Standard deviation between requests; limited to what is possible."
    )
    decay: float = Field(default=0.95, gt=0, le=1, description="Factor for each further position.")


class AcceptanceChange(ScenarioPart):
    """Change of the acceptance by a phase; omitted keys stay."""

    mean: Share = 0.0
    spread: Share = 0.0
    decay: float = Field(default=1.0, gt=0, le=1)


class Load(ScenarioPart):
    """Load: a fixed number of clients with one request each at a time, or requests at a rate."""

    concurrency: int | None = Field(default=None, ge=0, le=10_000)
    rate: float | None = Field(
        default=None, ge=0, le=10_000, description="Requests a second, Poisson arrivals."
    )

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if (self.concurrency is None) == (self.rate is None):
            raise ValueError("takes either `concurrency` or `rate`; give exactly one of them")
        return self


class Lengths(ScenarioPart):
    """Lengths in tokens, log-normal, from 1 to ``max``."""

    mean: float = Field(gt=0, le=1_000_000)
    spread: float = Field(default=0.6, ge=0, le=5, description="Standard deviation divided by the mean.")
    max: TokenCount


class Prompts(Lengths):
    """Prompts, and their share in the prefix cache."""

    mean: float = Field(default=400.0, gt=0, le=1_000_000)
    max: TokenCount = 4096
    cached: Share = Field(
        default=0.25, description="Mean share of a prompt that comes from the prefix cache."
    )


class Outputs(Lengths):
    """Responses; one that reaches ``max`` ends by `length`, the others by `stop`."""

    mean: float = Field(default=200.0, gt=0, le=1_000_000)
    max: TokenCount = 1024


class RequestKind(ScenarioPart):
    """One kind of requests in a mix: its labels, its share and its acceptance."""

    request_type: str = Field(default="", max_length=64, description="The sender's name for this kind.")
    temperature: float | None = Field(default=None, ge=0, le=2, description="The requested temperature.")
    share: float = Field(default=1.0, gt=0, le=1000, description="Weight of this kind among the requests.")
    acceptance: AcceptanceChange | None = Field(
        default=None,
        description="Difference from the scenario's acceptance, also after a phase changed that.",
    )
    prompts: Prompts | None = Field(default=None, description="Replaces the scenario's.")
    outputs: Outputs | None = Field(default=None, description="Replaces the scenario's.")


def _in_order(schedule: Schedule) -> Schedule:
    """Refuse schedules that vLLM refuses: ranges that overlap, are empty, or do not begin with 1 request."""
    begins = 0
    for first, last, _ in sorted(schedule):
        if not begins < first <= last or (not begins and first > 1):
            raise ValueError(
                "must be ranges of batch sizes, each with its tokens, that begin with 1 and do not overlap,"
                " such as [[1, 16, 4], [17, 64, 0]]"
            )
        begins = last
    return tuple(sorted(schedule))


BatchSize = Annotated[int, Field(ge=1, le=1_000_000)]
Schedule = Annotated[tuple[tuple[BatchSize, BatchSize, DraftTokens], ...], AfterValidator(_in_order)]


class SimulatedSpeculation(ScenarioPart):
    """Speculation: method, draft length and cost."""

    method: Literal["draft_model", "ngram"] = "draft_model"
    tokens: DraftTokens = Field(
        default=4, description="Draft tokens a step (K); 0 is a server without speculation."
    )
    coverage: Share = Field(
        default_factory=lambda given: COVERAGE.get(given.get("method", ""), 1.0),
        description="Share of the decode steps that have a draft.",
    )
    whole: Share = Field(
        default_factory=lambda given: WHOLE_DRAFTS.get(given.get("method", ""), 1.0),
        description="Share of the drafts that have all K tokens; the others have 1 to K.",
    )
    cost: float = Field(
        default_factory=lambda given: DRAFT_COST.get(given.get("method", ""), 0.0),
        ge=0,
        le=10,
        description="Time to draft one more token, as a share of a plain decode step.",
    )
    draft_model: Annotated[str, AfterValidator(_quotable)] = Field(
        default="meta-llama/Llama-3.2-1B-Instruct", description="Its name, as `/server_info` returns it."
    )
    tokens_per_batch_size: Schedule = Field(
        default=(),
        description="Fewer tokens for larger batches, as vLLM's `num_speculative_tokens_per_batch_size`.",
    )

    def scheduled(self, tokens: int, requests: int) -> int:
        """Return the draft length for a batch of ``requests``, at most K ``tokens``, as vLLM does.

        Between two ranges and after the last, the length of the previous range applies.
        """
        planned = [length for first, _, length in self.tokens_per_batch_size if first <= requests]
        return min([tokens, *planned[-1:]])


class Machine(ScenarioPart):
    """Speed and capacity of each engine."""

    step: Duration = Field(default=0.025, description="Time of a decode step that is bound by memory.")
    saturation: TokenCount = Field(
        default=256,
        description="Tokens of a step from which on compute bounds it: its time is proportional to them.",
    )
    jitter: Share = Field(default=0.05, description="Spread of the step time.")
    max_requests: TokenCount = Field(default=64, description="Requests that run at the same time.")
    max_batched_tokens: TokenCount = Field(default=8192, description="Tokens in a step, prompts included.")
    kv_tokens: TokenCount = Field(default=200_000, description="Tokens that fit into the KV cache.")
    max_model_len: int = Field(default=8192, ge=2, le=1_000_000)

    def seconds(self, tokens: float) -> float:
        """Return the time of a step with ``tokens``: constant while bound by memory, then proportional."""
        return self.step * max(1.0, tokens / self.saturation)

    @model_validator(mode="after")
    def _one_request_fits(self) -> Self:
        if self.kv_tokens < self.max_model_len + MAX_TOKENS:
            raise ValueError(
                f"has `kv_tokens` below `max_model_len` + {MAX_TOKENS}: one long request would never end;"
                " raise `kv_tokens` or lower `max_model_len`"
            )
        if self.max_batched_tokens < self.max_requests * (MAX_TOKENS + 1):
            raise ValueError(
                f"has `max_batched_tokens` below {MAX_TOKENS + 1} times `max_requests`:"
                " a decode step would not hold all drafts; raise it or lower `max_requests`"
            )
        return self


class Restart(ScenarioPart):
    """Restart: the server stops, closes its port, and returns with new counters."""

    down: Duration = Field(default=20.0, description="Time in which connections are refused.")
    tokens: DraftTokens | None = Field(default=None, description="The new K, kept until the next restart.")


class Phase(ScenarioPart):
    """Changes at one moment; everything else stays."""

    at: Duration = Field(description="Time since the scenario's start.")
    over: Duration | None = Field(
        default=None, description="Time in which the mean acceptance changes linearly to its new value."
    )
    acceptance: AcceptanceChange | None = None
    load: Load | None = None
    coverage: Share | None = None
    prompts: Prompts | None = None
    outputs: Outputs | None = None
    mix: tuple[RequestKind, ...] | None = None
    restart: Restart | None = None

    @model_validator(mode="after")
    def _a_glide_has_a_goal(self) -> Self:
        if self.over is not None and (
            self.acceptance is None or "mean" not in self.acceptance.model_fields_set
        ):
            raise ValueError("has `over` but no `acceptance.mean` to glide to; add it or remove `over`")
        return self

    @property
    def ends(self) -> float:
        """End of its changes; the next phase begins later."""
        return self.at + max(self.over or 0.0, self.restart.down if self.restart else 0.0)


class Scenario(ScenarioPart):
    """A simulated vLLM server, its load and its phases."""

    description: str = ""
    model_name: Annotated[str, AfterValidator(_quotable)] = "meta-llama/Llama-3.1-8B-Instruct"
    engines: int = Field(
        default=1, ge=1, le=MAX_ENGINES, description="Data-parallel engines behind one page."
    )
    front_end: Literal["python", "rust"] = "python"
    api_servers: int = Field(
        default=1, ge=1, le=MAX_ENGINES, description="More than one changes the page's form."
    )
    dev_mode: bool = Field(default=False, description="Serve `/server_info`.")
    speculation: SimulatedSpeculation = SimulatedSpeculation()
    acceptance: Acceptance = Acceptance()
    load: Load = Load(concurrency=16)
    prompts: Prompts = Prompts()
    outputs: Outputs = Outputs()
    mix: tuple[RequestKind, ...] = Field(
        default=(), description="Kinds of requests; without one, all requests are of one kind without labels."
    )
    machine: Machine = Machine()
    phases: tuple[Phase, ...] = ()
    repeat: Duration | None = Field(
        default=None, description="Time after which the phases start again; without it the last phase stays."
    )

    @model_validator(mode="after")
    def _rust_has_one_api_server(self) -> Self:
        if self.front_end == "rust" and self.api_servers > 1:
            raise ValueError(
                "has several `api_servers`, which only the Python front end has; remove one of the two"
            )
        return self

    @model_validator(mode="after")
    def _phases_follow_each_other(self) -> Self:
        for earlier, begins in self._successors():
            if begins <= earlier.at or begins < earlier.ends:
                raise ValueError(
                    f"has a phase at {format_duration(earlier.at)} that lasts until"
                    f" {format_duration(earlier.ends)}, but the next one, or `repeat`, begins at"
                    f" {format_duration(begins)}; order the phases and leave each its `over` and `down`"
                )
        return self

    def _successors(self) -> Iterator[tuple[Phase, float]]:
        """Yield each phase with the start of the next."""
        for earlier, later in pairwise(self.phases):
            yield earlier, later.at
        if self.phases and self.repeat is not None:
            yield self.phases[-1], self.repeat
