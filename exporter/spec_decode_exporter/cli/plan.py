"""Command ``spec-decode-exporter plan``: calculate memory and speed-up of a draft before it is deployed."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from spec_decode_exporter.cli.flag_values import above_zero, memory, ratio, reader, share, whole
from spec_decode_exporter.cli.flags import destination
from spec_decode_exporter.cli.output import require_stdout, write_stdout
from spec_decode_exporter.core.user_errors import UsageError
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
from spec_decode_exporter.reports.terminal import TerminalStyle, terminal_style
from spec_decode_exporter.reports.terminal_report import text_report

FORMATS: Final[Mapping[str, Callable[[DeploymentPlan, TerminalStyle], str]]] = {
    "text": lambda plan, style: text_report(report(plan), style),
    "json": lambda plan, _: as_json(plan),
    "markdown": lambda plan, style: markdown_report(report(plan), style),
}
_DESCRIPTION: Final = """\
Calculate whether a draft fits beside its target, the memory left for the KV
cache, and the acceptance rate above which speculation pays. It downloads
nothing and needs no GPU. A model is a number of parameters, such as 70B, or a
local config.json in the format of Hugging Face, or the folder with it.
"""
_EPILOG: Final = """\
exit status:
  0  it fits, perhaps with fewer sequences than --batch
  1  a file is wrong
  2  the command line is wrong
  3  the weights fit; the memory of a sequence is unknown
  4  it does not fit: no memory is left for the KV cache, or not enough for one
     sequence; or vLLM rejects the combination
"""
_ELEMENT_BYTES: Final = {"auto": 2, "fp8": 1, "fp8_e4m3": 1, "fp8_e5m2": 1}


def add_arguments(parser: argparse.ArgumentParser, environ: Mapping[str, str]) -> None:
    """Add the arguments of the command."""
    del environ  # no flag of this command has a variable
    parser.description, parser.epilog = _DESCRIPTION, _EPILOG
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    _add_models(parser)
    _add_gpus(parser)
    _add_pay(parser)
    parser.add_argument(
        "--format", choices=FORMATS, default="text", help="format of the report (default: text)"
    )


def handle(arguments: argparse.Namespace) -> int:
    """Plan; return the exit status."""
    require_stdout("plan")
    try:
        result = plan(wanted_of(arguments))
    except ModelError as error:
        raise UsageError(str(error)) from None
    write_stdout(FORMATS[arguments.format](result, terminal_style(sys.stdout, os.environ)))
    return PLAN[result.outcome]


def wanted_of(arguments: argparse.Namespace) -> Wanted:
    """Return the inputs of the plan.

    Raises:
        ModelError: A model is unusable.
        UsageError: The arguments contradict each other.
    """
    target_ranks = arguments.target_tensor_parallel or arguments.gpus
    if arguments.gpus % target_ranks:
        raise UsageError(
            f"--gpus {arguments.gpus} is not a multiple of --target.tensor-parallel {target_ranks}"
        )
    target = model_of(arguments.target, arguments.target_dtype, arguments.target_kv_bytes_per_token)
    draft = drafter_of(
        arguments.method, target, arguments.draft, arguments.draft_dtype, arguments.draft_kv_bytes_per_token
    )
    if arguments.measured is not None and (arguments.acceptance, arguments.throughput) != (None, None):
        raise UsageError("--measured holds acceptance and throughput: omit --acceptance and --throughput")
    measured = None if arguments.measured is None else read(arguments.measured)
    tokens = DEFAULT_TOKENS if measured is None else min(measured.tokens, MAX_TOKENS)
    return Wanted(
        target=MemoryPart(target, target_ranks),
        draft=None if draft is None else MemoryPart(draft, target_ranks),
        method=arguments.method,
        gpus=Gpus(target_ranks, arguments.gpu_memory, arguments.utilisation, arguments.overhead),
        engines=arguments.gpus // target_ranks,
        context=arguments.context,
        batch=arguments.batch,
        tokens=arguments.tokens or tokens,
        acceptance=DEFAULT_ACCEPTANCE if arguments.acceptance is None else arguments.acceptance,
        element_bytes=_ELEMENT_BYTES[arguments.kv_cache_dtype],
        throughput=arguments.throughput,
        draft_cost_ratio=arguments.cost_draft_cost_ratio,
        measured=measured,
    )


def _add_models(parser: argparse.ArgumentParser) -> None:
    models = parser.add_argument_group("models")
    models.add_argument("--target", metavar="MODEL", required=True, help="the served model")
    models.add_argument("--draft", metavar="MODEL", help="the draft model")
    models.add_argument(
        "--method",
        metavar="METHOD",
        choices=METHODS,
        default=DRAFT_MODEL,
        help=f"method of the draft: {', '.join(METHODS)} (default: {DRAFT_MODEL})",
    )
    for which in ("target", "draft"):
        _add(
            models,
            f"--{which}.dtype",
            "DTYPE",
            reader(dtype_of),
            f"data type of its weights: {', '.join(DTYPES)}",
        )
        _add(
            models,
            f"--{which}.kv-bytes-per-token",
            "BYTES",
            whole(1),
            "KV cache of a token, over all GPUs; overrides config.json",
        )
    _add(
        models, "--target.tensor-parallel", "NUMBER", whole(1), "number of GPUs that share it, and the draft"
    )


def _add_gpus(parser: argparse.ArgumentParser) -> None:
    gpus = parser.add_argument_group("GPUs and load")
    _add(gpus, "--gpus", "NUMBER", whole(1), "number of GPUs (default: 1)", default=1)
    _add(
        gpus,
        "--gpu-memory",
        "SIZE",
        memory,
        "memory of one GPU as nvidia-smi shows it, such as 81559MiB or 79.6GiB; GB are 10^9 bytes, and an "
        "H100 of 80GB has 7 % more (default: 80GB)",
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
        "memory of one GPU for activations and CUDA graphs (default: 2GB)",
        default=2 * 10**9,
    )
    gpus.add_argument(
        "--kv-cache-dtype",
        choices=_ELEMENT_BYTES,
        default="auto",
        help="vLLM's --kv-cache-dtype (default: auto, 16 bits)",
    )
    _add(
        gpus,
        "--context",
        "TOKENS",
        whole(1),
        "tokens of a sequence, prompt and output (default: 8192)",
        default=8192,
    )
    _add(gpus, "--batch", "NUMBER", whole(1), "concurrent sequences (default: 32)", default=32)


def _add_pay(parser: argparse.ArgumentParser) -> None:
    pay = parser.add_argument_group("speed-up")
    _add(
        pay,
        "--tokens",
        "NUMBER",
        whole(1, MAX_TOKENS),
        "number of draft tokens (default: 4, or as measured)",
    )
    _add(
        pay,
        "--acceptance",
        "SHARE",
        ratio(1.0),
        "acceptance of a draft token whose predecessors were accepted (default: 0.7, or as measured)",
    )
    _add(pay, "--throughput", "RATE", above_zero, "tokens per second of an engine without speculation")
    _add(
        pay,
        "--measured",
        "FILE",
        Path,
        "output of observe --format json for these models: acceptance, throughput, and the cost if known",
    )
    _add(
        pay,
        "--cost.draft-cost-ratio",
        "RATIO",
        ratio(),
        "cost of a draft token without the fixed cost, relative to a decode step without speculation",
    )


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
