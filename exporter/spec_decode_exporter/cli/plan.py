"""The command ``spec-decode-exporter plan``: which draft, and how much memory, before anything runs."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Mapping
from io import TextIOWrapper
from pathlib import Path
from typing import Final

from spec_decode_exporter.cli.flags import UsageError, destination
from spec_decode_exporter.cli.plan_values import above_zero, memory, ratio, reader, share, whole
from spec_decode_exporter.reports.exit_status import PLAN
from spec_decode_exporter.reports.markdown import markdown_report
from spec_decode_exporter.reports.plan.checkpoint import model_of
from spec_decode_exporter.reports.plan.deployment_plan import (
    DEFAULT_ACCEPTANCE,
    DEFAULT_TOKENS,
    DeploymentPlan,
    Wanted,
    plan,
)
from spec_decode_exporter.reports.plan.draft_method import DRAFT_MODEL, METHODS, drafter_of
from spec_decode_exporter.reports.plan.gpu_memory import Gpus, MemoryPart, parse_memory
from spec_decode_exporter.reports.plan.model_config import ModelError
from spec_decode_exporter.reports.plan.observed_models import read
from spec_decode_exporter.reports.plan.plan_json import as_json
from spec_decode_exporter.reports.plan.plan_report import report
from spec_decode_exporter.reports.plan.planned_depths import MAX_TOKENS
from spec_decode_exporter.reports.plan.quantization import DTYPES, dtype_of
from spec_decode_exporter.reports.terminal import Paint, paint_for
from spec_decode_exporter.reports.terminal_report import text_report

FORMATS: Final[Mapping[str, Callable[[DeploymentPlan, Paint], str]]] = {
    "text": lambda found, paint: text_report(report(found), paint),
    "json": lambda found, _: as_json(found),
    "markdown": lambda found, paint: markdown_report(report(found), paint),
}
_DESCRIPTION: Final = """\
Say whether a draft fits beside its target, what is left for the KV cache, and
from which acceptance on it pays. Nothing is downloaded and no GPU is needed. A
model is a number of parameters, such as 70B, or a local config.json of Hugging
Face's format, or the folder with it.
"""
_EPILOG: Final = """\
exit status:
  0  it fits, if with fewer sequences at a time than are wanted
  1  the command line or a file is wrong
  2  it does not fit: no KV cache is left, or not enough for one sequence; or
     vLLM refuses it
  3  the weights fit; whether one sequence does beside them is not known
"""
_ELEMENT_BYTES: Final = {"auto": 2, "fp8": 1, "fp8_e4m3": 1, "fp8_e5m2": 1}


def add_arguments(parser: argparse.ArgumentParser, environ: Mapping[str, str]) -> None:
    """Add the arguments of the command to its ``parser``."""
    del environ  # a plan is of what is asked, wherever
    parser.description, parser.epilog = _DESCRIPTION, _EPILOG
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    _add_models(parser)
    _add_gpus(parser)
    _add_pay(parser)
    parser.add_argument("--format", choices=FORMATS, default="text", help="how to write it (default: text)")


def handle(arguments: argparse.Namespace) -> int:
    """Plan; return the exit status."""
    if sys.stdout is None:  # closed, as the shell's >&- does
        raise UsageError("there is no standard output to write the plan to")
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a folder's name may hold what cannot be written
    try:
        found = plan(wanted_of(arguments))
    except ModelError as error:
        raise UsageError(str(error)) from None
    _say(FORMATS[arguments.format](found, paint_for(sys.stdout, os.environ)))
    return PLAN[found.outcome]


def wanted_of(arguments: argparse.Namespace) -> Wanted:
    """Return what is to be planned.

    Raises:
        ModelError: A model cannot be planned with.
        UsageError: The arguments contradict each other.
    """
    over = arguments.target_tensor_parallel or arguments.gpus
    if arguments.gpus % over:
        raise UsageError(f"--gpus {arguments.gpus} is no multiple of --target.tensor-parallel {over}")
    of_draft = arguments.draft_tensor_parallel or over
    if over % of_draft:
        raise UsageError(f"--draft.tensor-parallel {of_draft} does not divide the target's {over}")
    target = model_of(arguments.target, arguments.target_dtype, arguments.target_kv_bytes_per_token)
    draft = drafter_of(
        arguments.method, target, arguments.draft, arguments.draft_dtype, arguments.draft_kv_bytes_per_token
    )
    if arguments.measured is not None and (arguments.acceptance, arguments.throughput) != (None, None):
        raise UsageError("--measured says acceptance and throughput: leave out --acceptance and --throughput")
    seen = None if arguments.measured is None else read(arguments.measured)
    usual = DEFAULT_TOKENS if seen is None else min(seen.tokens, MAX_TOKENS)
    return Wanted(
        target=MemoryPart(target, over),
        draft=None if draft is None else MemoryPart(draft, of_draft),
        method=arguments.method,
        gpus=Gpus(over, arguments.gpu_memory, arguments.utilisation, arguments.overhead),
        engines=arguments.gpus // over,
        context=arguments.context,
        batch=arguments.batch,
        tokens=arguments.tokens or usual,
        acceptance=DEFAULT_ACCEPTANCE if arguments.acceptance is None else arguments.acceptance,
        element_bytes=_ELEMENT_BYTES[arguments.kv_cache_dtype],
        throughput=arguments.throughput,
        draft_cost_ratio=arguments.cost_draft_cost_ratio,
        fixed_cost_ratio=arguments.cost_fixed_cost_ratio,
        verify_cost_ratio=arguments.cost_verify_cost_ratio,
        measured=seen,
    )


def _add_models(parser: argparse.ArgumentParser) -> None:
    models = parser.add_argument_group("models")
    models.add_argument("--target", metavar="MODEL", required=True, help="the model that is served")
    models.add_argument("--draft", metavar="MODEL", help="the model that drafts")
    models.add_argument(
        "--method",
        metavar="METHOD",
        choices=METHODS,
        default=DRAFT_MODEL,
        help=f"how it drafts: {', '.join(METHODS)} (default: {DRAFT_MODEL})",
    )
    for which in ("target", "draft"):
        _add(models, f"--{which}.dtype", "DTYPE", reader(dtype_of), f"its weights: {', '.join(DTYPES)}")
        _add(models, f"--{which}.tensor-parallel", "NUMBER", whole(1), "over how many GPUs it is divided")
        _add(
            models,
            f"--{which}.kv-bytes-per-token",
            "BYTES",
            whole(1),
            "what a token takes of the KV cache over all GPUs; it overrides config.json",
        )


def _add_gpus(parser: argparse.ArgumentParser) -> None:
    gpus = parser.add_argument_group("GPUs and load")
    _add(gpus, "--gpus", "NUMBER", whole(1), "how many there are (default: 1)", default=1)
    _add(
        gpus,
        "--gpu-memory",
        "SIZE",
        memory,
        "of one, as nvidia-smi says it, such as 81559MiB or 79.6GiB; GB are 10^9 bytes, and an H100 of "
        "80GB has 7 % more (default: 80GB)",
        default=80 * 10**9,
    )
    gpus.add_argument(
        "--utilisation",
        "--utilization",
        metavar="SHARE",
        type=share,
        default=0.9,
        help="vLLM's --gpu-memory-utilization (default: 0.9)",
    )
    _add(
        gpus,
        "--overhead",
        "SIZE",
        reader(parse_memory),
        "of one GPU, beside weights and KV cache: activations, CUDA graphs (default: 2GB)",
        default=2 * 10**9,
    )
    gpus.add_argument(
        "--kv-cache-dtype",
        choices=_ELEMENT_BYTES,
        default="auto",
        help="as vLLM has it (default: auto, 16 bits)",
    )
    _add(
        gpus,
        "--context",
        "TOKENS",
        whole(1),
        "of a sequence, prompt and answer (default: 8192)",
        default=8192,
    )
    _add(gpus, "--batch", "NUMBER", whole(1), "sequences at a time (default: 32)", default=32)


def _add_pay(parser: argparse.ArgumentParser) -> None:
    pay = parser.add_argument_group("what it brings")
    _add(
        pay,
        "--tokens",
        "NUMBER",
        whole(1, MAX_TOKENS),
        "drafted at a time (default: 4, or as was measured)",
    )
    _add(
        pay,
        "--acceptance",
        "SHARE",
        ratio(1.0),
        "of a token, given that those before it were accepted (default: 0.7, or as was measured)",
    )
    _add(pay, "--throughput", "RATE", above_zero, "tokens a second of an engine without speculation")
    _add(
        pay,
        "--measured",
        "FILE",
        Path,
        "what observe --format json wrote of these models: acceptance, throughput, and the cost where "
        "it knows that",
    )
    _add(pay, "--cost.draft-cost-ratio", "RATIO", ratio(), "what a draft token costs, in plain decode steps")
    _add(pay, "--cost.fixed-cost-ratio", "RATIO", ratio(), "what a draft costs besides (default: as usual)")
    _add(pay, "--cost.verify-cost-ratio", "RATIO", ratio(), "of it, verifying a token (default: 0.03)")


def _add(
    group: argparse._ArgumentGroup,
    name: str,
    metavar: str,
    read_as: Callable[[str], object],
    text: str,
    *,
    default: object = None,
) -> None:
    group.add_argument(
        name,
        dest=destination(name),
        metavar=metavar,
        type=read_as,
        help=text.replace("%", "%%"),
        default=default,
    )


def _say(what: str) -> None:
    try:
        sys.stdout.write(what)
        sys.stdout.flush()
    except BrokenPipeError:
        # Who read it has read enough. The interpreter would complain once more at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
