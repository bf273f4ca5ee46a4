"""Command ``spec-decode-exporter plan bench``: print the commands that measure the cost of drafting."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Final

from spec_decode_exporter.cli.flag_values import whole
from spec_decode_exporter.cli.output import write_stdout
from spec_decode_exporter.reports.plan.bench_commands import METHODS, BenchPlan, bench_commands
from spec_decode_exporter.reports.plan.planned_depths import MAX_TOKENS

_DESCRIPTION: Final = """\
Print the commands of vllm bench forward (vLLM 0.33) that measure the cost of
drafting by load, without a second server. They need the idle GPUs of one
engine. Their result is the file of the configuration key cost.bench.
"""
_MAX_LOAD: Final = 4_096
_MAX_LOADS: Final = 32
_MAX_CONTEXT: Final = 10**7
_LOADS: Final = tuple(2**power for power in range(9))
_TOKENS: Final = (2, 4)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.description = _DESCRIPTION
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--target", metavar="MODEL", required=True, help="the served model, as vLLM loads it")
    parser.add_argument(
        "--method", choices=METHODS, required=True, metavar="METHOD", help=f"method: {', '.join(METHODS)}"
    )
    parser.add_argument("--draft", metavar="MODEL", help="the draft model, as vLLM loads it")
    parser.add_argument(
        "--tokens",
        metavar="NUMBERS",
        type=_numbers(MAX_TOKENS),
        default=_TOKENS,
        help="numbers of draft tokens; two tell the cost of a step from that of a token (default: 2,4)",
    )
    parser.add_argument(
        "--loads",
        metavar="NUMBERS",
        type=_numbers(_MAX_LOAD),
        default=_LOADS,
        help=f"running requests (default: {','.join(map(str, _LOADS))})",
    )
    parser.add_argument(
        "--context",
        metavar="TOKENS",
        type=whole(2, _MAX_CONTEXT),
        default=2048,
        help="tokens of a request in the KV cache (default: 2048)",
    )
    parser.add_argument(
        "--target.tensor-parallel",
        dest="ranks",
        metavar="NUMBER",
        type=whole(1, 1024),
        default=1,
        help="number of GPUs that share the target model (default: 1)",
    )


def handle(arguments: argparse.Namespace) -> int:
    """Print the commands; return the exit status."""
    plan = BenchPlan(
        target=arguments.target,
        method=arguments.method,
        draft=arguments.draft,
        tokens=arguments.tokens,
        loads=arguments.loads,
        context=arguments.context,
        ranks=arguments.ranks,
    )
    write_stdout(bench_commands(plan))
    return 0


def _numbers(most: int) -> Callable[[str], tuple[int, ...]]:
    """Return a reader of distinct whole numbers with commas between, ascending."""
    number = whole(1, most)

    def checked(text: str) -> tuple[int, ...]:
        numbers = sorted({number(part.strip()) for part in text.split(",")})
        if len(numbers) > _MAX_LOADS:
            raise argparse.ArgumentTypeError(f"has {len(numbers)} numbers; {_MAX_LOADS} at most")
        return tuple(numbers)

    return checked
