"""Commands of ``vllm bench forward`` that measure the cost of drafting, for ``cost: {bench: FILE}``.

The flags are those of vLLM 0.33 (``vllm/benchmarks/forward/main.py``). It times exact batches in CUDA graphs,
and the drafter only of some methods; each run drafts one number of tokens.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from spec_decode_exporter.config.bench_results import DRAFT_PASS
from spec_decode_exporter.core.user_errors import ExporterError
from spec_decode_exporter.reports.plan.draft_method import DRAFT_MODEL, SEARCHES

OWN_DRAFT: Final = ("eagle", "eagle3", "dflash", "dspark")
"""Methods with a draft of their own that vLLM times."""
TIMED: Final = ("mtp", *OWN_DRAFT)
"""Methods whose drafter ``vllm bench forward`` times."""
METHODS: Final = (*TIMED, DRAFT_MODEL, *SEARCHES)
RESULT: Final = "bench.json"

_JOIN: Final = "import json, sys; json.dump(sum((json.load(open(n)) for n in sys.argv[1:]), []), sys.stdout)"


class BenchCommandsError(ExporterError):
    """The commands need an argument that is missing, or must not have one."""


@dataclass(frozen=True, slots=True)
class BenchPlan:
    """Runs of ``vllm bench forward``."""

    target: str
    method: str
    draft: str | None
    tokens: tuple[int, ...]
    """Numbers of draft tokens; two of them tell the cost of a step from that of a token."""
    loads: tuple[int, ...]
    context: int
    """Tokens of each request in the KV cache, after a step without drafts."""
    ranks: int
    """GPUs that share the target model."""


@dataclass(frozen=True, slots=True)
class _Run:
    model: str
    file: str
    cases: tuple[str, ...]
    flags: tuple[str, ...] = ()


def bench_commands(plan: BenchPlan) -> str:
    """Return a shell script with all runs, and the command that joins their results.

    Raises:
        BenchCommandsError: The method needs a draft model that is missing, or has none.
    """
    if plan.method in (*OWN_DRAFT, DRAFT_MODEL) and plan.draft is None:
        raise BenchCommandsError(f"{plan.method} needs the draft model: add --draft MODEL")
    if plan.method in SEARCHES and plan.draft is not None:
        raise BenchCommandsError(f"{plan.method} searches the text and has no draft; leave out --draft")
    runs = tuple(_runs(plan))
    lines = [*_introduction(plan), *(_command(run, plan) for run in runs), _join(runs), *_conclusion()]
    return "\n".join(lines) + "\n"


def _introduction(plan: BenchPlan) -> Iterator[str]:
    yield "# Measures the cost of drafting with vLLM 0.33 or later on idle GPUs like the server's."
    yield "# The weights are random, so the time does not depend on what is accepted."
    yield "# Add the flags of your server that change a step, such as --quantization or --kv-cache-dtype."
    yield f"# The KV cache must hold {max(plan.loads):,} requests of {plan.context:,} tokens."
    yield "# If vLLM says that it needs more KV blocks, lower --loads or --context."
    if plan.method not in (*TIMED, DRAFT_MODEL):
        yield f"# vLLM does not time the drafter of {plan.method}: the exporter adds its typical cost."


def _conclusion() -> Iterator[str]:
    yield f"# Then configure the exporter: cost: {{bench: {RESULT}}}"


def _runs(plan: BenchPlan) -> Iterator[_Run]:
    yield _Run(plan.target, "plain.json", tuple(_case(f"b{load}", load, plan.context) for load in plan.loads))
    if plan.method in TIMED:
        for tokens in plan.tokens:
            cases = tuple(_case(f"b{load}", load, plan.context, tokens) for load in plan.loads)
            yield _Run(plan.target, f"k{tokens}.json", cases, _speculation(plan.method, tokens, plan.draft))
        return
    # Any method verifies alike. An n-gram search needs no memory, and one run verifies up to its own number.
    verify = (*_speculation("ngram", max(plan.tokens), None), "--exclude-drafter")
    cases = tuple(
        _case(f"b{load}-k{tokens}", load, plan.context, tokens)
        for tokens in plan.tokens
        for load in plan.loads
    )
    yield _Run(plan.target, "verify.json", cases, verify)
    if plan.draft is not None:
        names = ((f"{DRAFT_PASS}-b{load}", load) for load in plan.loads)
        passes = tuple(_case(name, load, plan.context) for name, load in names)
        yield _Run(plan.draft, "draft-pass.json", passes)


def _case(name: str, load: int, context: int, tokens: int = 0) -> str:
    """Return a case in vLLM's syntax: NAME=[N*]Q@K[:D], where K includes the Q tokens of the step."""
    drafts = f":{tokens}" if tokens else ""
    return f"{name}={load}*{1 + tokens}@{context + tokens}{drafts}"


def _speculation(method: str, tokens: int, draft: str | None) -> tuple[str, ...]:
    config: dict[str, object] = {"method": method, "num_speculative_tokens": tokens}
    if draft is not None:
        config["model"] = draft
    return ("--speculative-config", json.dumps(config))


def _command(run: _Run, plan: BenchPlan) -> str:
    vllm: tuple[str, ...] = ("vllm",)
    if plan.ranks > 1:
        vllm = ("torchrun", f"--nproc-per-node={plan.ranks}", "-m", "vllm.entrypoints.cli.main")
    # A drafter looks K + 1 tokens ahead of the KV length, which includes K drafts.
    longest = plan.context + 2 * max(plan.tokens) + 1
    flags = ("--max-model-len", str(longest), "--kv-len-jitter", "0", "--output-json", run.file)
    ranks = () if plan.ranks == 1 else ("--tensor-parallel-size", str(plan.ranks))
    words = _quoted((*vllm, "bench", "forward", "--model", run.model, *ranks, *run.flags, *flags))
    return " \\\n ".join([words, *(f" --case {shlex.quote(case)}" for case in run.cases)])


def _join(runs: Sequence[_Run]) -> str:
    return _quoted(("python3", "-c", _JOIN, *(run.file for run in runs))) + f" > {RESULT}"


def _quoted(words: Iterable[str]) -> str:
    return " ".join(map(shlex.quote, words))
