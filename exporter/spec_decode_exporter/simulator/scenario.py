"""A scenario file: which server is simulated, who asks it for what, and what changes when."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Final, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from spec_decode_exporter.config.units import format_duration
from spec_decode_exporter.config.values import Duration

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
    """Refuse what would need escapes in a label: the pages write it as it is."""
    if not name or any(character in '\\"' or not character.isprintable() for character in name):
        raise ValueError(
            "is not a name for a model: write at least one character, without quotes, \\ and line ends"
        )
    return name


class ScenarioPart(BaseModel):
    """One mapping of a scenario; a key that it does not know is a mistake."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Acceptance(ScenarioPart):
    """How likely a draft token is accepted, given that all before it were; each request has its own mean."""

    mean: Share = Field(default=0.75, description="At the first position, the mean over the requests.")
    spread: Share = Field(
        default=0.12, description="Standard deviation between requests; cut to what is possible."
    )
    decay: float = Field(
        default=0.95, gt=0, le=1, description="What each further position is multiplied with."
    )


class AcceptanceChange(ScenarioPart):
    """What a phase changes of the acceptance; what is left out stays."""

    mean: Share = 0.0
    spread: Share = 0.0
    decay: float = Field(default=1.0, gt=0, le=1)


class Load(ScenarioPart):
    """Who asks: a fixed number of clients, each with one request at a time, or requests at a rate."""

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
    """Prompts, and which share of them the prefix cache holds."""

    mean: float = Field(default=400.0, gt=0, le=1_000_000)
    max: TokenCount = 4096
    cached: Share = Field(
        default=0.25, description="Mean share of a prompt that comes from the prefix cache."
    )


class Outputs(Lengths):
    """Answers; one that reaches ``max`` ends by `length`, the others by `stop`."""

    mean: float = Field(default=200.0, gt=0, le=1_000_000)
    max: TokenCount = 1024


class RequestKind(ScenarioPart):
    """One kind of requests in a mix of them: how they are told apart, and how well they are drafted."""

    request_type: str = Field(default="", max_length=64, description="What its sender calls it.")
    temperature: float | None = Field(default=None, ge=0, le=2, description="As it is asked for.")
    share: float = Field(default=1.0, gt=0, le=1000, description="How many of the requests, as a weight.")
    acceptance: AcceptanceChange | None = Field(
        default=None, description="What is other than the scenario's, also after a phase has changed that."
    )
    outputs: Outputs | None = Field(default=None, description="In place of the scenario's.")


def _in_order(schedule: Schedule) -> Schedule:
    """Refuse what vLLM refuses: ranges that overlap, are empty, or do not begin with 1 request."""
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
    """The drafter."""

    method: Literal["draft_model", "ngram"] = "draft_model"
    tokens: DraftTokens = Field(
        default=4, description="Draft tokens a step (K); 0 is a server without speculation."
    )
    coverage: Share = Field(
        default_factory=lambda given: COVERAGE.get(given.get("method", ""), 1.0),
        description="Share of the decode steps that have a draft at all.",
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
        default="meta-llama/Llama-3.2-1B-Instruct", description="Its name, where `/server_info` tells it."
    )
    tokens_per_batch_size: Schedule = Field(
        default=(),
        description="Fewer tokens for larger batches, as vLLM's `num_speculative_tokens_per_batch_size`.",
    )

    def scheduled(self, tokens: int, requests: int) -> int:
        """Return how many of K ``tokens`` at most are drafted for a batch of ``requests``, as vLLM does.

        Between two ranges, and past the last one, the tokens of the one before hold.
        """
        planned = [most for first, _, most in self.tokens_per_batch_size if first <= requests]
        return min([tokens, *planned[-1:]])


class Machine(ScenarioPart):
    """How fast the server is and what fits into it; each engine has all of it."""

    step: Duration = Field(default=0.025, description="A decode step while it is bound by memory.")
    saturation: TokenCount = Field(
        default=256,
        description="Tokens in a step from which on it is bound by compute: twice as many, twice as long.",
    )
    jitter: Share = Field(default=0.05, description="Spread of the step time.")
    max_requests: TokenCount = Field(default=64, description="Requests that run at the same time.")
    max_batched_tokens: TokenCount = Field(default=8192, description="Tokens in a step, prompts included.")
    kv_tokens: TokenCount = Field(default=200_000, description="Tokens that fit into the KV cache.")
    max_model_len: int = Field(default=8192, ge=2, le=1_000_000)

    def seconds(self, tokens: float) -> float:
        """Return how long a step of so many tokens takes: the same while memory bounds it, then longer."""
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
    """The server stops, its port is closed, and it comes back with new counters."""

    down: Duration = Field(default=20.0, description="How long connections are refused.")
    tokens: DraftTokens | None = Field(default=None, description="The new K, kept until the next restart.")


class Phase(ScenarioPart):
    """What changes at one moment; everything else stays as it was."""

    at: Duration = Field(description="Time since the scenario's start.")
    over: Duration | None = Field(
        default=None, description="Time in which the mean acceptance glides to its new value."
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
        """When what it began is complete; no other phase may begin before."""
        return self.at + max(self.over or 0.0, self.restart.down if self.restart else 0.0)


class Scenario(ScenarioPart):
    """A simulated vLLM server and what happens to it."""

    description: str = ""
    model_name: Annotated[str, AfterValidator(_quotable)] = "meta-llama/Llama-3.1-8B-Instruct"
    engines: int = Field(
        default=1, ge=1, le=MAX_ENGINES, description="Data-parallel engines behind one page."
    )
    front_end: Literal["python", "rust"] = "python"
    api_servers: int = Field(
        default=1, ge=1, le=MAX_ENGINES, description="More than one changes the page's form."
    )
    dev_mode: bool = Field(default=False, description="Whether it answers to `/server_info`.")
    speculation: SimulatedSpeculation = SimulatedSpeculation()
    acceptance: Acceptance = Acceptance()
    load: Load = Load(concurrency=16)
    prompts: Prompts = Prompts()
    outputs: Outputs = Outputs()
    mix: tuple[RequestKind, ...] = Field(
        default=(), description="The kinds of requests; without one all are alike, and say nothing of theirs."
    )
    machine: Machine = Machine()
    phases: tuple[Phase, ...] = ()
    repeat: Duration | None = Field(
        default=None, description="When the phases begin anew; without it the last one holds."
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
        """Each phase with the moment at which the next one begins."""
        for earlier, later in pairwise(self.phases):
            yield earlier, later.at
        if self.phases and self.repeat is not None:
            yield self.phases[-1], self.repeat
