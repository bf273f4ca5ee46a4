"""Command ``spec-decode-exporter plan``: calculate memory and speed-up of a draft before it is deployed."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Callable, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Final

from spec_decode_exporter.cli.flags import Flag, add_flags, number, reader, whole
from spec_decode_exporter.cli.process import require_stdout, write_stdout
from spec_decode_exporter.core.user_errors import UsageError
from spec_decode_exporter.reports.exit_status import PLAN
from spec_decode_exporter.reports.plan.checkpoint import DRAFT_MODEL, METHODS, drafter_of, model_of
from spec_decode_exporter.reports.plan.deployment_plan import MAX_TOKENS, DeploymentPlan
from spec_decode_exporter.reports.plan.model_sizes import DTYPES, ModelError, dtype_of
from spec_decode_exporter.reports.plan.observed_model import read
from spec_decode_exporter.reports.plan.plan_report import as_json, as_text
from spec_decode_exporter.reports.text import TextStyle, text_style

FORMATS: Final[Mapping[str, Callable[[DeploymentPlan, TextStyle], str]]] = {
    "text": as_text,
    "json": lambda plan, _: as_json(plan),
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
  1  the plan cannot be written
  2  the command line is wrong, or a file that it names
  3  the weights fit; the memory of a sequence is unknown
  4  it does not fit: no memory is left for the KV cache, or not enough for one
     sequence; or vLLM rejects the combination
"""
_ELEMENT_BYTES: Final = {"auto": 2, "fp8": 1, "fp8_e4m3": 1, "fp8_e5m2": 1}
_MEMORY: Final = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,9})?)\s?([KMGT]?)(i?)B", flags=re.ASCII)


def memory(text: str) -> int:
    """Return the bytes in ``text``: ``80GB`` is 80 · 10^9, ``143771MiB`` is 143771 · 2^20.

    Raises:
        ValueError: The text is no amount of memory; the message has examples.
    """
    match = _MEMORY.fullmatch(text.strip())
    if text == "0":
        return 0
    if match is None or (match[3] and not match[2]):
        raise ValueError(f"{text!r} is no amount of memory; write it as 80GB, 79.6GiB or 81559MiB")
    return int(Fraction(match[1]) * (1024 if match[3] else 1000) ** " KMGT".index(match[2] or " "))


def _gpu_memory(text: str) -> int:
    size = memory(text)
    if not size:
        raise ValueError(f"a GPU has more memory than {text!r}")
    return size


_DTYPE: Final = f"data type of its weights: {', '.join(DTYPES)}"
_KV_BYTES: Final = "KV cache of a token, over all GPUs; overrides config.json"
_MODELS: Final = (
    Flag("--draft", "MODEL", "the draft model"),
    Flag("--method", "METHOD", f"method of the draft: {', '.join(METHODS)} (default: {DRAFT_MODEL})", choices=METHODS, default=DRAFT_MODEL),
    Flag("--target.dtype", "DTYPE", _DTYPE, read=reader(dtype_of)),
    Flag("--target.kv-bytes-per-token", "BYTES", _KV_BYTES, read=whole(1)),
    Flag("--draft.dtype", "DTYPE", _DTYPE, read=reader(dtype_of)),
    Flag("--draft.kv-bytes-per-token", "BYTES", _KV_BYTES, read=whole(1)),
    Flag("--target.tensor-parallel", "NUMBER", "number of GPUs that share it, and the draft", read=whole(1)),
)  # fmt: skip
_GPUS: Final = (
    Flag("--gpus", "NUMBER", "number of GPUs (default: 1)", read=whole(1), default=1),
    Flag("--gpu-memory", "SIZE", "memory of one GPU as nvidia-smi shows it, such as 81559MiB or 79.6GiB; GB are 10^9 bytes, and an H100 of 80GB has 7 % more (default: 80GB)", read=reader(_gpu_memory), default=80 * 10**9),
    Flag("--overhead", "SIZE", "memory of one GPU for activations and CUDA graphs (default: 2GB)", read=reader(memory), default=2 * 10**9),
    Flag("--kv-cache-dtype", "DTYPE", "vLLM's --kv-cache-dtype (default: auto, 16 bits)", choices=_ELEMENT_BYTES, default="auto"),
    Flag("--context", "TOKENS", "tokens of a sequence, prompt and output (default: 8192)", read=whole(1), default=8192),
    Flag("--batch", "NUMBER", "concurrent sequences (default: 32)", read=whole(1), default=32),
)  # fmt: skip
_SPEEDUP: Final = (
    Flag("--tokens", "NUMBER", "number of draft tokens (default: 4, or as measured)", read=whole(1, MAX_TOKENS)),
    Flag("--acceptance", "SHARE", "acceptance of a draft token whose predecessors were accepted (default: 0.7, or as measured)", read=number(1.0)),
    Flag("--throughput", "RATE", "tokens per second of an engine without speculation", read=number(above_zero=True)),
    Flag("--measured", "FILE", "output of observe --format json for these models: acceptance, throughput, and the cost if known", read=Path),
    Flag("--cost.draft-cost-ratio", "RATIO", "cost of a draft token without the fixed cost, relative to a decode step without speculation", read=number()),
)  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser, environ: Mapping[str, str]) -> None:
    """Add the arguments of the command; none of them has a variable."""
    del environ
    parser.description, parser.epilog = _DESCRIPTION, _EPILOG
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    models, gpus, speedup = map(parser.add_argument_group, ("models", "GPUs and load", "speed-up"))
    models.add_argument("--target", metavar="MODEL", required=True, help="the served model")
    gpus.add_argument(
        "--utilisation", "--utilization", metavar="SHARE", type=number(1.0, above_zero=True), default=0.9,
        help="vLLM's --gpu-memory-utilization (default: 0.9)",
    )  # fmt: skip
    for group, table in ((models, _MODELS), (gpus, _GPUS), (speedup, _SPEEDUP)):
        add_flags(group, table)
    parser.add_argument(
        "--format", choices=FORMATS, default="text", help="format of the report (default: text)"
    )


def handle(arguments: argparse.Namespace) -> int:
    """Plan; return the exit status."""
    require_stdout("plan")
    try:
        plan = plan_of(arguments)
    except ModelError as error:
        raise UsageError(str(error)) from None
    write_stdout(FORMATS[arguments.format](plan, text_style(sys.stdout, os.environ)))
    return PLAN[plan.outcome]


def plan_of(arguments: argparse.Namespace) -> DeploymentPlan:
    """Return the plan of arguments.

    Raises:
        ModelError: A model is unusable.
        UsageError: The arguments contradict each other.
    """
    its = arguments
    ranks = its.target_tensor_parallel or its.gpus
    if its.gpus % ranks:
        raise UsageError(f"--gpus {its.gpus} is not a multiple of --target.tensor-parallel {ranks}")
    target = model_of(its.target, its.target_dtype, its.target_kv_bytes_per_token)
    draft = drafter_of(its.method, target, its.draft, its.draft_dtype, its.draft_kv_bytes_per_token)
    if its.measured is not None and (its.acceptance, its.throughput) != (None, None):
        raise UsageError("--measured holds acceptance and throughput: omit --acceptance and --throughput")
    observed = None if its.measured is None else read(its.measured)
    given = {"draft_tokens": its.tokens, "acceptance": its.acceptance}
    if observed is not None and its.tokens is None:
        given["draft_tokens"] = min(observed.draft_tokens, MAX_TOKENS)
    return DeploymentPlan(
        target_model=target,
        draft_model=draft,
        method=its.method,
        gpus=ranks,
        gpu_memory_bytes=its.gpu_memory,
        gpu_memory_utilisation_ratio=its.utilisation,
        overhead_bytes=its.overhead,
        kv_cache_element_bytes=_ELEMENT_BYTES[its.kv_cache_dtype],
        engines=its.gpus // ranks,
        context_tokens=its.context,
        wanted_sequences=its.batch,
        throughput=its.throughput,
        given_cost_ratio=its.cost_draft_cost_ratio,
        observed=observed,
        **{name: value for name, value in given.items() if value is not None},
    )
