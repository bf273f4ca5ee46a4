"""``observe --save`` and ``--against``: keep a measurement, and compare the servers with one."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from spec_decode_exporter.cli.observe_config import read_config
from spec_decode_exporter.core.user_errors import UsageError
from spec_decode_exporter.discovery.target import Target, static_targets
from spec_decode_exporter.reports.exit_status import COMPARISON, ExitStatus
from spec_decode_exporter.reports.markdown import markdown_report
from spec_decode_exporter.reports.observation import ObservedFleet
from spec_decode_exporter.reports.reference.comparison_json import as_json
from spec_decode_exporter.reports.reference.comparison_report import report
from spec_decode_exporter.reports.reference.measure_servers import document_of
from spec_decode_exporter.reports.reference.pairing import Compared, compared
from spec_decode_exporter.reports.reference_document import ReferenceDocument
from spec_decode_exporter.reports.reference_file import check_free, read, write
from spec_decode_exporter.reports.terminal import TerminalStyle
from spec_decode_exporter.reports.terminal_report import text_report

SECONDS: Final = 300.0
"""Default length of a measurement that is saved or compared."""
_ADDRESS: Final = re.compile(r"[^/]*:\d+(/.*)?")
MAX_FALL: Final = 0.05
"""Fall of the acceptance rate that ``--against`` accepts."""
_FORMATS: Final[Mapping[str, Callable[[Compared, TerminalStyle], str]]] = {
    "text": lambda comparison, style: text_report(report(comparison), style),
    "json": lambda comparison, _: as_json(comparison),
    "markdown": lambda comparison, style: markdown_report(report(comparison), style),
}


def add_reference_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags that keep and compare measurements."""
    parser.add_argument("--save", metavar="FILE", type=Path, help="keep the measurement in a new file")
    parser.add_argument(
        "--against",
        metavar="FILE|URL",
        help="compare the servers with a file of --save, or with a server that is measured at the same time",
    )


def check_reference_flags(arguments: argparse.Namespace) -> None:
    """Reject flags that have no meaning together, and read the file of ``--against`` as ``before``.

    Raises:
        UsageError: Flags contradict each other.
        ReferenceFileError: A file cannot be written or read.
    """
    measures = {"--save": arguments.save, "--against": arguments.against}
    for name in (name for name, value in measures.items() if value is not None):
        if arguments.prometheus_url is not None:
            raise UsageError(f"{name} needs a measurement, and --prometheus.url reports the past: use one")
    arguments.before = None
    if arguments.save is not None:
        check_free(arguments.save)
    if arguments.against is None:
        return
    if arguments.save is not None:
        raise UsageError("--save keeps a measurement, and --against compares one: use one")
    if arguments.format not in _FORMATS:
        raise UsageError(f"--format {arguments.format} is not for --against: use {', '.join(_FORMATS)}")
    if arguments.every is not None:
        raise UsageError("--every is not for --against: a comparison is written at the end")
    if arguments.replay is not None and _is_address(arguments.against):
        raise UsageError("--against a server needs servers, and --replay reports a recording: give a file")
    if not _is_address(arguments.against):
        arguments.before = read(Path(arguments.against))


def server_of(arguments: argparse.Namespace, environ: Mapping[str, str]) -> Target | None:
    """Return the server of ``--against``, with the settings of the others; None without one."""
    if arguments.against is None or not _is_address(arguments.against):
        return None
    alone = argparse.Namespace(**{**vars(arguments), "urls": [arguments.against], "simulate": None})
    (target,) = static_targets(read_config(alone, environ))
    return target


def save(path: Path, observed: ObservedFleet) -> ExitStatus:
    """Save a measurement; say so on standard error.

    Raises:
        NotMeasuredError: A server is missing.
        ReferenceFileError: The file cannot be written.
    """
    document = document_of(observed)
    write(path, document)
    _say(f"{path}: saved, {_summary(document)}")
    unbounded = [model.model_name for model in document.models if not model.has_bounds]
    for name in unbounded:
        _say(
            f"{name!r} had too few requests for bounds of its acceptance rate, so nothing can be compared "
            "with it; measure for longer, or under more load"
        )
    return ExitStatus.UNKNOWN if unbounded else ExitStatus.GOOD


def comparison(
    observed: ObservedFleet,
    before: ReferenceDocument | None,
    server: Target | None,
    *,
    form: str,
    style: TerminalStyle,
) -> tuple[str, ExitStatus]:
    """Compare the servers with a document, or with one of them; return the report and the exit status.

    Raises:
        NotMeasuredError: A server is missing.
    """
    if server is not None:
        before = document_of(_part(observed, lambda target: target == server.name))
        observed = _part(observed, lambda target: target != server.name)
    assert before is not None  # noqa: S101  --against is a file or a server
    found = compared(before, document_of(observed), MAX_FALL)
    return _FORMATS[form](found, style).removesuffix("\n") + "\n", COMPARISON[found.outcome]


def _part(observed: ObservedFleet, wanted: Callable[[str], bool]) -> ObservedFleet:
    """Return the observation of some of the targets."""
    return replace(
        observed,
        engines=tuple(engine for engine in observed.engines if wanted(engine[0]["target"])),
        targets=tuple(target for target in observed.targets if wanted(target.target)),
    )


def _is_address(text: str) -> bool:
    """Return whether ``--against`` is a server, and no file."""
    return "://" in text or (_ADDRESS.fullmatch(text) is not None and not Path(text).exists())


def _summary(document: ReferenceDocument) -> str:
    return ", ".join(
        f"{model.model_name!r} accepts "
        + ("nothing" if model.acceptance_ratio is None else f"{model.acceptance_ratio * 100:.1f} %")
        for model in document.models
    )


def _say(text: str) -> None:
    print(f"spec-decode-exporter: {text}", file=sys.stderr)  # noqa: T201
