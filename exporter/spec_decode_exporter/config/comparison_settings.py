"""Settings of comparisons: with a reference rate, with time without speculation, or with other servers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import Annotated, Self

from pydantic import AfterValidator, Field, PrivateAttr, ValidationInfo, model_validator

from spec_decode_exporter.config.batch_schedule import MAX_DRAFT_TOKENS
from spec_decode_exporter.config.cost_settings import ModelText
from spec_decode_exporter.config.http_settings import HttpSettings
from spec_decode_exporter.config.mistakes import Mistake, MistakesError
from spec_decode_exporter.config.types import (
    ApiAddress,
    Duration,
    LocatedPath,
    NotEmpty,
    Printable,
    Section,
    Share,
    context_of,
    excludes,
    label_matchers,
    label_problem,
    matches,
    refuses,
)


def _match_problem(label: str) -> str | None:
    problem = None if label in {"name", "model_name", "method"} else label_problem(label)
    return problem and f"{problem}; an arm is matched by name, model_name, method or a label of targets"


# fmt: off
Name = Annotated[str, matches(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", "is not a name: use up to 64 letters, digits, `_.-`")]
Lookback = Annotated[Duration, refuses(lambda seconds: None if 3600 <= seconds <= 90 * 86_400 else "must be 1h to 90d")]  # noqa: PLR2004  an older baseline is forgotten
MatchLabel = Annotated[str, refuses(_match_problem)]
MatchValue = Annotated[str, Field(min_length=1, max_length=256), Printable]


class ReferenceSettings(Section):
    """The acceptance rate that a server is compared with, measured before a change such as quantization.

    Set either `acceptance_ratio` or `file`, which `observe --save` writes.
    """

    acceptance_ratio: Share | None = Field(default=None, description="Acceptance rate, accepted tokens over draft tokens, between 0 and 1.")
    tokens: Annotated[int, Field(ge=1, le=MAX_DRAFT_TOKENS)] | None = Field(default=None, description="Number of draft tokens at which `acceptance_ratio` was measured. Engines with another number are not compared: the rate falls with it.")
    file: Annotated[LocatedPath | None, excludes("acceptance_ratio"), excludes("tokens")] = Field(default=None, description="A file that `observe --save` wrote, read with the configuration.")
    model_name: ModelText | None = Field(default=None, description="Model of the file; required if the file holds more than one.")
    _rates: dict[int | None, float] = PrivateAttr(default_factory=dict)
    """The acceptance rate by draft tokens; None is any number."""

    def at(self, tokens: int) -> float | None:
        """Return the rate for an engine that drafts ``tokens`` tokens, 0 if that number is unknown.

        Return None if the rate was measured at another number, or at several and ``tokens`` is 0.
        """
        if tokens and None not in self._rates:
            return self._rates.get(tokens)
        return next(iter(self._rates.values())) if len(self._rates) == 1 else None

    def mistakes(self) -> Iterator[Mistake]:
        """Yield a rate that is missing, and a model without its file."""
        if self.acceptance_ratio is None and self.file is None:
            yield (), "has no rate; add `acceptance_ratio`, or the `file` that `observe --save` wrote"
        if self.model_name is not None and self.file is None:
            yield ("model_name",), "selects a model of a `file`, but no `file` is set; remove it"

    @model_validator(mode="after")
    def _read(self, info: ValidationInfo) -> Self:
        context = context_of(info)
        if self.acceptance_ratio is not None:
            self._rates = {self.tokens: self.acceptance_ratio}
        elif self.file is not None and context is not None and context.read_rates is not None:
            try:
                self._rates = context.read_rates(self.file, self.model_name)
            except ValueError as error:
                raise MistakesError([(("file",), str(error))]) from None
        return self


class PrometheusSettings(HttpSettings):
    """A Prometheus with the counters of the servers, or VictoriaMetrics, Thanos or Mimir.

    The HTTP keys are for its queries.
    """

    url: ApiAddress = Field(description="Its URL, http or https, with the prefix of its proxy if there is one.")
    match: Annotated[str, AfterValidator(label_matchers)] = Field(default="", description='Label matchers of the series, such as `job="vllm"`; by default all. A server is matched to a target by `instance`, as `host:port` or `name`, else by equal common labels; a single server to a single target.')
    lookback: Lookback = Field(default=14 * 86_400.0, description="Time to search for a period without speculation, `1h` to `90d`.")


class BaselineSettings(Section):
    """The baseline: how fast a server is without speculation.

    The exporter learns it while a server runs without speculation. A history has that time, too.
    """

    prometheus: PrometheusSettings = Field(description="History, read at the start and once a day. The newest period without drafts counts, from the history or learned.")


class ArmSettings(Section):
    """The engines of one arm."""

    match: Annotated[Mapping[MatchLabel, MatchValue], NotEmpty] = Field(description="Labels that an engine of the arm must all have: `name` (of its target), `model_name`, `method` (`off` without speculation), or any label of its target. Two arms need a common label with different values.")


class ExperimentSettings(Section):
    """Arms that serve the same work in different ways, each compared with the baseline.

    See [experiments.md](../guide/experiments.md). One exporter must monitor all arms: experiments are
    rejected with `discovery.shard.count` above 1.
    """

    name: Name = Field(description="Value of the label `experiment`.")
    arms: Mapping[Name, ArmSettings] = Field(description="Arms by name, at least two.")
    baseline: Name = Field(description="Arm that the others are compared with.")

    def mistakes(self) -> Iterator[Mistake]:
        """Yield what makes the arms incomparable: one alone, no baseline, or an engine in two arms."""
        if len(self.arms) < 2:  # noqa: PLR2004  one arm has no counterpart
            yield ("arms",), "needs two arms or more, the baseline included"
        for (first, one), (second, other) in combinations(self.arms.items(), 2):
            common = one.match.keys() & other.match.keys()
            if all(one.match[label] == other.match[label] for label in common):
                message = f"may match the engines of `{first}`"
                yield (
                    ("arms", second, "match"),
                    f"{message}; give both a label in common with different values",
                )
        if self.baseline not in self.arms:
            known = ", ".join(self.arms) or "none"
            yield ("baseline",), f"is not one of the arms; there are {known}"
# fmt: on
