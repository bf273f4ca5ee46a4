"""Results of ``vllm bench forward``: the additional time of a decode step that drafts, by load.

The file is a list of cases, as ``vllm/benchmarks/forward/main.py`` of vLLM 0.33 writes it. A case is one
batch: a list of requests with their query and KV lengths and draft tokens, and the median time of a step in
microseconds. Several runs are needed, joined into one list:

- without ``--speculative-config``: steps of the target model without drafts;
- with it, one run for each number of draft tokens: steps of target model and drafter;
- with ``--exclude-drafter``, for methods whose drafter vLLM does not time: steps of the target model alone;
- the draft model alone, in cases whose names begin with ``draft-pass``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from spec_decode_exporter.core.bounded_file import read_bounded
from spec_decode_exporter.core.bounded_json import decode
from spec_decode_exporter.core.user_errors import ExporterError

MAX_BYTES: Final = 16 * 2**20
"""Maximum size of the results, in bytes. Nine loads with three numbers of draft tokens are 1 MiB."""
MAX_VALUES: Final = 200_000
"""Maximum number of JSON values of the results."""
DRAFT_PASS: Final = "draft-pass"  # noqa: S105  no password
"""Beginning of the names of cases that time one pass of the draft model alone."""
_MAX_TOKENS: Final = 10**8
_MAX_DRAFT_TOKENS: Final = 1_024
_SIMILAR_CONTEXT: Final = 2.0
"""Largest factor between the mean contexts of compared steps. ``--kv-len-jitter`` varies them."""
_COMMANDS: Final = "`spec-decode-exporter plan bench` prints the commands"


class BenchResultsError(ExporterError):
    """A file is no usable result. The text has the place, the reason and the remedy."""


@dataclass(frozen=True, slots=True)
class AddedTime:
    """Additional time of a decode step that drafts, compared with a step without drafts."""

    running_requests: int
    context_tokens: float
    """Mean tokens of a request in the KV cache, of the step without drafts."""
    draft_tokens: int
    """K, of each request."""
    ratio: float
    """t(K)/t(0) - 1; measurement noise may make it negative."""
    plain_seconds: float
    """t(0)."""
    with_drafter: bool
    """True if t(K) includes the drafter; else it is the target model's verification alone."""


class _Part(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True)


class _Request(_Part):
    query_len: Annotated[int, Field(ge=1, le=_MAX_TOKENS)]
    kv_len: Annotated[int, Field(ge=1, le=_MAX_TOKENS)]
    num_draft_tokens: Annotated[int, Field(ge=0, le=_MAX_DRAFT_TOKENS)]

    @property
    def decodes(self) -> bool:
        """Return whether it decodes or verifies; else it is a prefill."""
        return self.kv_len > self.query_len == 1 + self.num_draft_tokens


class _Drafter(_Part):
    num_draft_tokens: Annotated[int, Field(ge=0, le=_MAX_DRAFT_TOKENS)]


class _Rank(_Part):
    timing_scope: Literal["target_only", "target_and_drafter"]
    drafter: _Drafter | None = None


class _Case(_Part):
    case: str
    requests: Annotated[list[_Request], Field(min_length=1)]
    median_us: Annotated[float, Field(ge=0.01, le=1e9, allow_inf_nan=False)]
    ranks: Annotated[list[_Rank], Field(min_length=1)]


_CASES: Final = TypeAdapter(list[_Case])


@dataclass(frozen=True, slots=True)
class _Step:
    """A case in which all requests decode, with the same number of draft tokens."""

    running_requests: int
    context_tokens: float
    draft_tokens: int
    microseconds: float
    with_drafter: bool


def read_bench_results(path: Path) -> tuple[AddedTime, ...]:
    """Return the additional times of steps that draft, by load, context and draft tokens; at least one.

    Raises:
        BenchResultsError: The file cannot be read, or contains no such times.
    """
    try:
        cases = _CASES.validate_python(decode(read_bounded(path, MAX_BYTES), MAX_VALUES))
    except OSError as error:
        raise BenchResultsError(f"cannot be read: {path}: {error.strerror or error}") from None
    except ValidationError as error:
        raise BenchResultsError(
            f"is no result of `vllm bench forward`: {_first(error)}; {_COMMANDS}"
        ) from None
    except json.JSONDecodeError as error:
        raise BenchResultsError(
            f"is not JSON: {error.msg} in line {error.lineno}; join several results into one list"
        ) from None
    except ValueError as error:
        raise BenchResultsError(
            f"is no usable result of `vllm bench forward`: {error}; {_COMMANDS}"
        ) from None
    return _added_times(cases)


def _first(error: ValidationError) -> str:
    """Return the first mistake with its place in the document. It never repeats the document's own texts."""
    first = error.errors(include_url=False, include_input=False)[0]
    place = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in first["loc"])
    return f"{place or 'the document'}: {first['msg']}"


def _added_times(cases: Sequence[_Case]) -> tuple[AddedTime, ...]:
    passes = _steps(case for case in cases if case.case.startswith(DRAFT_PASS))
    steps = _steps(case for case in cases if not case.case.startswith(DRAFT_PASS))
    plain = [step for step in steps if not step.draft_tokens and not step.with_drafter]
    drafting = [step for step in steps if step.draft_tokens]
    if not plain:
        raise BenchResultsError(
            "has no step of the target model alone without draft tokens; add the results of a run without "
            f"`--speculative-config`: {_COMMANDS}"
        )
    if not drafting:
        raise BenchResultsError(
            "has no step with draft tokens for all requests, as many as the drafter drafts; add the results "
            f"of a run with `--speculative-config`: {_COMMANDS}"
        )
    added = [time for step in drafting if (time := _added(step, plain, passes)) is not None]
    if not added:
        raise BenchResultsError(
            "has no two steps with and without draft tokens of the same number of requests and a similar "
            f"context; add them: {_COMMANDS}"
        )
    # Steps without the drafter are too short wherever the others show what the drafter takes.
    complete = [time for time in added if time.with_drafter] or added
    return tuple(
        sorted(complete, key=lambda time: (time.running_requests, time.context_tokens, time.draft_tokens))
    )


def _added(step: _Step, plain: Sequence[_Step], passes: Sequence[_Step]) -> AddedTime | None:
    base, draft_pass = _alike(step, plain), _alike(step, passes)
    if base is None:
        return None
    drafter = 0.0 if step.with_drafter or draft_pass is None else step.draft_tokens * draft_pass.microseconds
    return AddedTime(
        step.running_requests,
        base.context_tokens,
        step.draft_tokens,
        (step.microseconds + drafter) / base.microseconds - 1,
        base.microseconds / 1e6,
        step.with_drafter or draft_pass is not None,
    )


def _alike(step: _Step, others: Sequence[_Step]) -> _Step | None:
    """Return the step of the same load and the nearest context; None without a similar one."""

    def factor(other: _Step) -> float:
        less, more = sorted((step.context_tokens, other.context_tokens))
        return more / less

    alike = [other for other in others if other.running_requests == step.running_requests]
    nearest = min(alike, key=factor, default=None)
    return None if nearest is None or factor(nearest) > _SIMILAR_CONTEXT else nearest


def _steps(cases: Iterable[_Case]) -> list[_Step]:
    return [step for case in cases if (step := _step(case)) is not None]


def _step(case: _Case) -> _Step | None:
    """Return the step of a case; None if it has prefills, or not the drafter's number of tokens.

    A drafter always drafts the number of its run, also after a step that verifies fewer tokens.
    """
    tokens = {request.num_draft_tokens for request in case.requests}
    if len(tokens) > 1 or not all(request.decodes for request in case.requests):
        return None
    rank = case.ranks[0]
    with_drafter = rank.timing_scope == "target_and_drafter"
    if with_drafter and (rank.drafter is None or {rank.drafter.num_draft_tokens} != tokens):
        return None
    return _Step(
        len(case.requests),
        fmean(request.kv_len - request.query_len for request in case.requests),
        tokens.pop(),
        case.median_us,
        with_drafter,
    )
