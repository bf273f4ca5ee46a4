"""``observe --save`` and ``--against``: keep a measurement, and compare the servers with one."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from spec_decode_exporter.cli.flags import Flag
from spec_decode_exporter.core.user_errors import UsageError
from spec_decode_exporter.reports.comparison import Comparison, as_json, as_text, compared
from spec_decode_exporter.reports.exit_status import COMPARISON, ExitStatus
from spec_decode_exporter.reports.observation_view import ModelView, ObservationView
from spec_decode_exporter.reports.saved_snapshot import (
    SavedSnapshot,
    check_free,
    read_observation,
    write,
)
from spec_decode_exporter.reports.text import TextStyle

SECONDS: Final = 300.0
"""Default length of a measurement that is saved or compared."""
MAX_FALL: Final = 0.05
"""Fall of the acceptance rate that ``--against`` accepts."""
REFERENCE_FLAGS: Final = (
    Flag("--save", "FILE", "write the observation as JSON into a new file", read=Path),
    Flag("--against", "FILE", "compare the servers with a file of --save or --format json", read=Path),
)  # fmt: skip
_FORMATS: Final[Mapping[str, Callable[[Comparison, TextStyle], str]]] = {
    "text": as_text,
    "json": lambda comparison, _: as_json(comparison),
}


def check_reference_flags(arguments: argparse.Namespace) -> None:
    """Read the file of ``--against`` as ``before``.

    Raises:
        UsageError: Flags contradict each other.
        SavedFileError: A file cannot be written or read.
    """
    arguments.before, against = None, arguments.against
    if arguments.save is not None:
        check_free(arguments.save)
    if against is None:
        return
    if arguments.format not in _FORMATS:
        raise UsageError(f"--format {arguments.format} is not for --against: use {', '.join(_FORMATS)}")
    arguments.before = read_observation(against)


def save(path: Path, view: ObservationView) -> ExitStatus:
    """Save a measurement; say so on standard error.

    Raises:
        SavedFileError: The file cannot be written.
    """
    write(path, view)
    _say(f"{path}: saved, {', '.join(map(_accepted, view.models))}")
    unbounded = [each for each in view.models if each.acceptance is None or each.acceptance.lower is None]
    for model in unbounded:
        _say(
            f"{model.model_name!r} had too few requests for bounds of its acceptance rate, so nothing can be compared "
            "with it; measure for longer, or under more load"
        )
    return ExitStatus.UNKNOWN if unbounded else ExitStatus.GOOD


def comparison(
    view: ObservationView, before: SavedSnapshot, *, form: str, style: TextStyle
) -> tuple[str, ExitStatus]:
    """Compare the servers with a saved observation; return the report and the exit status."""
    result = compared(before, SavedSnapshot.model_validate(view), MAX_FALL)
    return _FORMATS[form](result, style), COMPARISON[result.outcome]


def _accepted(model: ModelView) -> str:
    rate = model.acceptance
    return f"{model.model_name!r} accepts {'nothing' if rate is None else f'{rate.value * 100:.1f} %'}"


def _say(text: str) -> None:
    print(f"spec-decode-exporter: {text}", file=sys.stderr)  # noqa: T201
