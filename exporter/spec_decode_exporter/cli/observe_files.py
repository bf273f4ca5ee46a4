"""``observe --save``, ``--against``, ``--record`` and ``--replay``: files of an observation, and comparisons."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from math import ceil
from pathlib import Path
from statistics import median
from typing import Final

from spec_decode_exporter.cli.flags import Flag
from spec_decode_exporter.cli.observe_config import read_config
from spec_decode_exporter.config.types import format_duration
from spec_decode_exporter.core.user_errors import UsageError
from spec_decode_exporter.discovery.target import Target, static_targets
from spec_decode_exporter.history.history_reader import REPORTED_SECONDS
from spec_decode_exporter.history.recording import RecordingClock, RecordingError, new_targets, read_recording
from spec_decode_exporter.reports.comparison import STATUS, as_json, as_text, compared
from spec_decode_exporter.reports.exit_status import ExitStatus
from spec_decode_exporter.reports.observation import MIN_POLLS, Observation
from spec_decode_exporter.reports.observation_view import ModelView, ObservationView
from spec_decode_exporter.reports.saved_snapshot import SavedSnapshot, check_free, read_observation, write
from spec_decode_exporter.reports.text import TextStyle

SECONDS: Final = 300.0  # default length of a measurement that is saved or compared
FILE_FLAGS: Final = (
    Flag("--record", "FILE", "keep the page of every poll in a file, compressed", read=Path),
    Flag("--replay", "FILE", "report a file of --record instead of servers", read=Path),
    Flag("--save", "FILE", "write the observation as JSON into a new file", read=Path),
    Flag("--against", "FILE|URL", "compare the servers with a file of --save or --format json, or with a server that is measured at the same time"),
)  # fmt: skip
_ADDRESS: Final = re.compile(r"[^/]*:\d+(/.*)?")
_FORMATS: Final = ("text", "json")
_GAPS: Final = 1000  # number of polls from which the interval of a recording is taken


def check_reference_flags(arguments: argparse.Namespace) -> None:
    """Read the file of ``--against`` as ``before``; raise UsageError or SavedFileError if that is impossible."""
    arguments.before, against = None, arguments.against
    if arguments.save is not None:
        check_free(arguments.save)
    if against is None:
        return
    if arguments.format not in _FORMATS:
        raise UsageError(f"--format {arguments.format} is not for --against: use {', '.join(_FORMATS)}")
    if not _is_address(against):
        arguments.before = read_observation(Path(against))
    elif arguments.replay is not None:
        raise UsageError("--against a server needs servers, and --replay reports a recording: give a file")


def server_of(arguments: argparse.Namespace, environ: Mapping[str, str]) -> Target | None:
    """Return the server of ``--against``, with the settings of the others; None without one."""
    if arguments.against is None or not _is_address(arguments.against):
        return None
    alone = argparse.Namespace(**{**vars(arguments), "urls": [arguments.against], "simulate": None})
    (target,) = static_targets(read_config(alone, environ))
    return target


def save(path: Path, view: ObservationView) -> ExitStatus:
    """Save a measurement, and say so on standard error; raise SavedFileError if that is impossible."""
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
    view: ObservationView,
    before: SavedSnapshot | None,
    server: Target | None,
    *,
    form: str,
    style: TextStyle,
) -> tuple[str, ExitStatus]:
    """Compare the servers with an observation, or with one of them; return the report and the exit status."""
    if server is not None:
        before = SavedSnapshot.model_validate(_part(view, lambda target: target == server.name))
        view = _part(view, lambda target: target != server.name)
    assert before is not None  # noqa: S101  --against is a file or a server
    result = compared(before, SavedSnapshot.model_validate(view))
    return as_json(result) if form == "json" else as_text(result, style), STATUS[result.outcome]


def _part(view: ObservationView, wanted: Callable[[str], bool]) -> ObservationView:
    """Return the observation of some of the targets; sums over engines are those of these."""
    return ObservationView(
        time=view.time,
        version=view.version,
        engines=tuple(engine for engine in view.engines if wanted(engine.target)),
        seconds=view.seconds,
        targets=tuple(target for target in view.targets if wanted(target.target)),
        events=view.events,
    )


def _is_address(text: str) -> bool:
    return "://" in text or (_ADDRESS.fullmatch(text) is not None and not Path(text).exists())


def _accepted(model: ModelView) -> str:
    rate = model.acceptance
    return f"{model.model_name!r} accepts {'nothing' if rate is None else f'{rate.value * 100:.1f} %'}"


def _say(text: str) -> None:
    print(f"spec-decode-exporter: {text}", file=sys.stderr)  # noqa: T201


def replayed(arguments: argparse.Namespace, environ: Mapping[str, str]) -> Observation:
    """Return the observation of a recording's end.

    Raises:
        RecordingError: It cannot be read, or has fewer than two polls.
    """
    clock, latest, seconds, interval = _contents(arguments.replay)
    if not arguments.seconds:
        arguments.seconds = float(min(max(ceil(seconds), 1), REPORTED_SECONDS))
    if arguments.poll_interval is None:
        arguments.poll_interval = format_duration(interval)
    configured = {}
    if arguments.config_file is not None:  # the settings of its targets apply to recorded ones
        file = read_config(arguments, environ, needs_targets=False)
        configured = {target.name: target for target in static_targets(file)}
    recorded = new_targets(latest)
    arguments.urls = [target.url for target in recorded]
    config = read_config(arguments, environ)
    pairs = zip(static_targets(config), recorded, strict=True)
    targets = [configured.get(its.name) or replace(target, name=its.name) for target, its in pairs]
    observation = Observation(config, clock, targets)
    observation.replay(read_recording(arguments.replay), clock)
    return observation


def _contents(path: Path) -> tuple[RecordingClock, Mapping[str, float], float, float]:
    """Return a clock at the first poll, the last poll of each target, the length, and the usual interval."""
    first = last = None
    latest: dict[str, float] = {}
    gaps: list[float] = []
    for poll in read_recording(path):
        first, last = first or poll, poll
        if poll.target in latest and len(gaps) < _GAPS:
            gaps.append(poll.moment - latest[poll.target])
        latest[poll.target] = poll.moment
    if first is None or last is None or last.moment <= first.moment:
        raise RecordingError(f"{path} has fewer than two polls: there is nothing to report")
    seconds = last.moment - first.moment
    interval = max(min(round(median(gaps), 1), seconds / MIN_POLLS), 0.1) if gaps else 1.0
    return RecordingClock(first.moment, first.wall), latest, seconds, interval
