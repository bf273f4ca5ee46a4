"""Command ``spec-decode-exporter plan``: calculate memory and speed-up of a draft before it is deployed."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping
from typing import Any, Final

from spec_decode_exporter.cli.flags import Flag, add_flags, number, reader, whole
from spec_decode_exporter.cli.process import require_stdout, write_stdout
from spec_decode_exporter.config.batch_schedule import MAX_POSITIONS
from spec_decode_exporter.config.comparison_settings import Architecture
from spec_decode_exporter.core.user_errors import UsageError
from spec_decode_exporter.costs.methods import DRAFT_MODEL, present_name
from spec_decode_exporter.costs.methods import METHODS as KNOWN_METHODS
from spec_decode_exporter.plan.models import (
    DTYPES,
    METHODS,
    NO_DRAFT,
    ModelError,
    drafter_of,
    dtype_of,
    model_of,
)
from spec_decode_exporter.plan.plans import (
    DEFAULT,
    GPUS,
    DeploymentPlan,
    PlanOutcome,
    SpeedupPlan,
    gpu_of,
    memory,
    token_acceptance,
)
from spec_decode_exporter.plan.report import as_json, as_text
from spec_decode_exporter.reports.exit_status import ExitStatus
from spec_decode_exporter.reports.text import text_style

DESCRIPTION: Final = """\
Calculate whether speculation pays, by the costs that the exporter assumes: of
a model by its name (--model-name), or of one by its size (--target), then with
the memory of both models and what is left for the KV cache. It downloads
nothing and needs no GPU. A target is a number of parameters, such as 70B, or a
local config.json in the format of Hugging Face, or the folder with it.
"""
EPILOG: Final = """\
exit status:
  0  it fits, perhaps with fewer sequences than --running; always without --target
  1  the plan cannot be written
  2  the command line is wrong, or a file that it names
  3  the weights fit; the memory of a sequence is unknown
  4  it does not fit: no memory is left for the KV cache, or not enough for one
     sequence; or vLLM rejects the combination
"""
_ELEMENT_BYTES: Final = {"auto": 2, "fp8": 1, "fp8_e4m3": 1, "fp8_e5m2": 1}
_OVERHEAD: Final = 2 * 10**9
_STATUS: Final[Mapping[PlanOutcome, ExitStatus]] = {
    PlanOutcome.WEIGHTS_FIT: ExitStatus.UNKNOWN,
    PlanOutcome.DOES_NOT_FIT: ExitStatus.BAD,
    PlanOutcome.REFUSED: ExitStatus.BAD,
}
"""Exit status of an outcome that is not good."""
_DTYPE: Final = f"data type of its weights: {', '.join(DTYPES)}"
_MODELS: Final = (
    Flag("--model-name", "NAME", "name of the served model, such as Qwen/Qwen3-32B-AWQ: its family decides how a measured cost changes with the load"),
    Flag("--target", "MODEL", "the served model by its size or its config.json: memory is planned too"),
    Flag("--draft", "MODEL", "the draft model by its size or its config.json, for its memory"),
    Flag("--method", "METHOD", f"method of the draft in vLLM's spelling, such as {', '.join(METHODS)} (default: {DRAFT_MODEL} with --draft)"),
    Flag("--parallel-drafting", "", "one pass of the drafter drafts all tokens (vLLM's parallel_drafting)"),
)  # fmt: skip
_MEMORY: Final = (
    Flag("--target.dtype", "DTYPE", _DTYPE, read=reader(dtype_of)),
    Flag("--draft.dtype", "DTYPE", _DTYPE, read=reader(dtype_of)),
    Flag("--gpus", "NUMBER", "number of GPUs (default: 1)", read=whole(1)),
    Flag("--tensor-parallel", "NUMBER", "number of GPUs that share the target, and the draft (default: all)", read=whole(1), also=("--target.tensor-parallel",)),
    Flag("--gpu", "NAME", f"kind of the GPUs, of {', '.join(GPUS)}, or the memory of one, such as 81559MiB; GB are 10^9 bytes (default: {DEFAULT})", read=reader(gpu_of), also=("--gpu-memory",)),
    Flag("--utilisation", "SHARE", "vLLM's --gpu-memory-utilization (default: 0.9)", read=number(1.0, above_zero=True), also=("--utilization",)),
    Flag("--overhead", "SIZE", "memory of one GPU for activations and CUDA graphs (default: 2GB)", read=reader(memory)),
    Flag("--kv-cache-dtype", "DTYPE", "vLLM's --kv-cache-dtype (default: auto, 16 bits)", choices=_ELEMENT_BYTES),
    Flag("--throughput", "RATE", "tokens per second of an engine without speculation", read=number(above_zero=True)),
)  # fmt: skip
"""Flags that need ``--target``."""
_LOAD: Final = (
    Flag("--running", "NUMBER", "concurrent requests, running at the same time (default: 32)", read=number(10.0**9, above_zero=True), also=("--batch",)),
    Flag("--context", "TOKENS", "tokens of a sequence, prompt and output (default with --target: 8192)", read=whole(1)),
)  # fmt: skip
_SPEEDUP: Final = (
    Flag("--tokens", "NUMBER", "number of draft tokens (default: 4)", read=whole(1, MAX_POSITIONS)),
    Flag("--acceptance", "SHARE", "acceptance of a draft token whose predecessors were accepted (default: 0.7)", read=number(1.0)),
    Flag("--acceptance-length", "TOKENS", "or the acceptance length at --tokens: tokens of a step, the target's own included; taken as exact", read=number()),
    Flag("--cost.draft-cost-ratio", "RATIO", "cost of a draft token without the fixed cost, relative to a decode step without speculation", read=number()),
)  # fmt: skip
_FORMAT: Final = Flag("--format", "FORMAT", "format of the report (default: text)", choices=("text", "json"), default="text")  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser, environ: Mapping[str, str]) -> None:
    """Add the arguments of the command; none of them has a variable."""
    del environ
    models, gpus, speedup = map(parser.add_argument_group, ("models", "GPUs and load", "speed-up"))
    add_flags(models, _MODELS)
    add_flags(gpus, (*_LOAD, *_MEMORY))
    add_flags(speedup, _SPEEDUP)
    add_flags(parser, [_FORMAT])


def handle(arguments: argparse.Namespace) -> int:
    """Plan; return the exit status."""
    require_stdout("plan")
    try:
        plan = plan_of(arguments)
    except ModelError as error:
        raise UsageError(str(error)) from None
    is_json = arguments.format == "json"
    write_stdout(as_json(plan) if is_json else as_text(plan, text_style(sys.stdout, os.environ)))
    return _STATUS.get(plan.outcome, ExitStatus.GOOD) if isinstance(plan, DeploymentPlan) else ExitStatus.GOOD


def plan_of(given: argparse.Namespace) -> SpeedupPlan:
    """Return the plan of arguments: with memory if they have a target.

    Raises:
        ModelError: A model is unusable.
        UsageError: The arguments contradict each other.
    """
    if given.target is not None:
        return _deployment_plan(given)
    for flag in _MEMORY:
        if getattr(given, flag.destination) is not None:
            raise UsageError(f"{flag.name} is about memory: add --target, such as 70B")
    if not given.model_name:
        raise UsageError("give --model-name for the speed-up alone, or --target for memory too")
    return SpeedupPlan(model_name=given.model_name, **_common(given))


def _deployment_plan(given: argparse.Namespace) -> DeploymentPlan:
    gpus, gpu = given.gpus or 1, given.gpu or gpu_of(DEFAULT)
    ranks = given.tensor_parallel or gpus
    if gpus % ranks:
        raise UsageError(f"--gpus {gpus} is not a multiple of --tensor-parallel {ranks}")
    common = _common(given)
    target = model_of(given.target, given.target_dtype)
    draft = given.draft and model_of(given.draft, given.draft_dtype)
    config = target.config
    architecture = Architecture.MIXTURE_OF_EXPERTS if config and config.experts else Architecture.DENSE
    return DeploymentPlan(
        model_name=given.model_name or target.name,
        architecture=architecture if config else None,
        target=target,
        draft=drafter_of(common["method"], target, draft, given.draft_dtype),
        gpus=ranks,
        gpu_name=gpu.name,
        gpu_memory_bytes=gpu.memory_bytes,
        gpu_memory_utilisation_ratio=given.utilisation or 0.9,
        overhead_bytes=_OVERHEAD if given.overhead is None else given.overhead,
        kv_cache_element_bytes=_ELEMENT_BYTES[given.kv_cache_dtype or "auto"],
        engines=gpus // ranks,
        throughput=given.throughput,
        **common,
    )


def _common(given: argparse.Namespace) -> dict[str, Any]:
    """Return the values that both kinds of plans have."""
    if given.method and present_name(given.method) not in KNOWN_METHODS:
        raise UsageError(f"--method {given.method} is no method of vLLM: {', '.join(KNOWN_METHODS)}")
    if given.method is None and given.draft is None:
        raise UsageError(NO_DRAFT)
    values = {
        "method": present_name(given.method or DRAFT_MODEL),
        "drafts_in_parallel": given.parallel_drafting,
        "draft_tokens": given.tokens,
        "acceptance": _acceptance(given),
        "running_requests": given.running,
        "context_tokens": given.context,
        "given_cost_ratio": given.cost_draft_cost_ratio,
    }
    return {name: value for name, value in values.items() if value is not None}


def _acceptance(given: argparse.Namespace) -> float | None:
    acceptance: float | None = given.acceptance
    length, tokens = given.acceptance_length, given.tokens
    if length is None:
        return acceptance
    if acceptance is not None:
        raise UsageError("--acceptance and --acceptance-length state the same: omit one of them")
    if tokens is None:
        raise UsageError("--acceptance-length is that of a number of draft tokens: add --tokens")
    if not 1 <= length <= tokens + 1:
        raise UsageError(f"--acceptance-length {length:g} is not from 1 to {tokens + 1}, --tokens and one")
    return token_acceptance(tokens, length)
