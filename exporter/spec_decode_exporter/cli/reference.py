"""Command ``spec-decode-exporter reference``: measure servers, and compare them after a change."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from spec_decode_exporter.cli.event_loop import run_loop
from spec_decode_exporter.cli.flags import Flags
from spec_decode_exporter.cli.measurement import configured_servers, measurement_time
from spec_decode_exporter.cli.observe_config import add_settings
from spec_decode_exporter.cli.output import write_stdout
from spec_decode_exporter.cli.setting_flags import GENERAL_FLAGS
from spec_decode_exporter.core.clock import Clock, SystemClock
from spec_decode_exporter.core.log import configure_log
from spec_decode_exporter.core.user_errors import UsageError
from spec_decode_exporter.reports.exit_status import COMPARISON, ExitStatus
from spec_decode_exporter.reports.markdown import markdown_report
from spec_decode_exporter.reports.reference.comparison_json import as_json
from spec_decode_exporter.reports.reference.comparison_report import report
from spec_decode_exporter.reports.reference.measure_servers import NotMeasuredError, take
from spec_decode_exporter.reports.reference.pairing import Compared, compared
from spec_decode_exporter.reports.reference_document import ReferenceDocument
from spec_decode_exporter.reports.reference_file import ReferenceFileError, check_free, read, write
from spec_decode_exporter.reports.terminal import TerminalStyle, terminal_style
from spec_decode_exporter.reports.terminal_report import text_report

FORMATS: Final[Mapping[str, Callable[[Compared, TerminalStyle], str]]] = {
    "text": lambda comparison, style: text_report(report(comparison), style),
    "json": lambda comparison, _: as_json(comparison),
    "markdown": lambda comparison, style: markdown_report(report(comparison), style),
}


def add_arguments(parser: argparse.ArgumentParser, environ: Mapping[str, str]) -> None:
    """Add the arguments of the command; ``environ`` has the values of flags that are not set."""
    actions = parser.add_subparsers(dest="action", metavar="{save,compare}")
    save = actions.add_parser(
        "save",
        help="measure servers and save the result to a file",
        description="Measure servers and save the result to FILE.",
    )
    _add_common(save, "a new file", environ)
    save.add_argument("--force", action="store_true", help="replace FILE if it exists")
    compare = actions.add_parser(
        "compare",
        help="measure servers and compare them with a file",
        description="Measure servers and compare them with FILE. The exit status is 0 if the acceptance rate"
        " did not fall by more than the threshold, 4 if it did, 3 if that is uncertain, 1 if nothing could be"
        " measured.",
    )
    _add_common(compare, "a file from save", environ)
    compare.add_argument(
        "--threshold",
        type=_points,
        default=5.0,
        metavar="POINTS",
        help="percentage points by which the acceptance rate may fall (default: 5)",
    )
    compare.add_argument(
        "--format", choices=FORMATS, default="text", help="format of the report (default: text)"
    )


def handle(arguments: argparse.Namespace) -> int:
    """Save or compare; return the exit status."""
    configure_log("error", "logfmt")
    if arguments.action is None:
        raise UsageError("an action is missing: reference save FILE URL…, or reference compare FILE URL…")
    try:
        return _save(arguments) if arguments.action == "save" else _compare(arguments)
    except (ReferenceFileError, NotMeasuredError) as error:
        print(f"spec-decode-exporter: {error}", file=sys.stderr)  # noqa: T201
        return ExitStatus.FAILED


def _add_common(parser: argparse.ArgumentParser, file: str, environ: Mapping[str, str]) -> None:
    parser.add_argument("file", metavar="FILE", type=Path, help=file)
    parser.add_argument(
        "urls", metavar="URL", nargs="*", help="metrics pages of servers (default: localhost:8000)"
    )
    parser.add_argument(
        "--for",
        dest="seconds",
        type=measurement_time,
        default=300.0,
        metavar="DURATION",
        help="length of the measurement (default: 5m)",
    )
    parser.add_argument(
        "--simulate", metavar="SCENARIO", help="measure an embedded simulated vLLM instead of real servers"
    )
    parser.set_defaults(simulated=None)
    add_settings(Flags(parser, environ))


def _save(arguments: argparse.Namespace) -> int:
    check_free(arguments.file, overwrite=arguments.force)
    document = _measure(arguments)
    write(arguments.file, document, overwrite=arguments.force)
    write_stdout(f"{arguments.file}: saved, {_summary(document)}\n")
    unbounded = [model.model_name for model in document.models if not model.has_bounds]
    for name in unbounded:
        print(  # noqa: T201
            f"spec-decode-exporter: {name!r} had too few requests for bounds of its acceptance rate, so "
            "nothing can be compared with it; measure for longer, or under more load",
            file=sys.stderr,
        )
    return ExitStatus.UNKNOWN if unbounded else ExitStatus.GOOD


def _compare(arguments: argparse.Namespace) -> int:
    before = read(arguments.file)
    comparison = compared(before, _measure(arguments), arguments.threshold / 100)
    write_stdout(
        FORMATS[arguments.format](comparison, terminal_style(sys.stdout, os.environ)).removesuffix("\n")
        + "\n"
    )
    return COMPARISON[comparison.outcome]


def _measure(arguments: argparse.Namespace) -> ReferenceDocument:
    return run_loop(_measured(arguments, SystemClock()))


async def _measured(arguments: argparse.Namespace, clock: Clock) -> ReferenceDocument:
    async with configured_servers(arguments, "measuring", GENERAL_FLAGS) as config:
        return await take(config, arguments.seconds, clock)


def _summary(document: ReferenceDocument) -> str:
    return ", ".join(
        f"{model.model_name!r} accepts "
        + ("nothing" if model.acceptance_ratio is None else f"{model.acceptance_ratio * 100:.1f} %")
        for model in document.models
    )


def _points(text: str) -> float:
    try:
        points = float(text)
    except ValueError:
        points = -1.0
    if not 0 <= points <= 100:  # noqa: PLR2004  per cent
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of percentage points, from 0 to 100")
    return points
