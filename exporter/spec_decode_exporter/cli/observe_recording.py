"""``observe --record`` and ``--replay``: keep the pages of an observation, and report them later."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import replace
from math import ceil
from pathlib import Path
from statistics import median
from typing import Final

from spec_decode_exporter.cli.flags import Flag
from spec_decode_exporter.cli.observe_config import read_config
from spec_decode_exporter.config.types import format_duration
from spec_decode_exporter.discovery.target import static_targets
from spec_decode_exporter.history.recording import RecordingClock, RecordingError, new_targets, read_recording
from spec_decode_exporter.reports.observation import MIN_POLLS, Observation

MAX_WINDOW: Final = 86_400.0
"""Longest window of a replay, in seconds; of a longer recording, its end is reported."""
_GAPS: Final = 1000
"""Number of polls from which the interval of a recording is taken."""

RECORDING_FLAGS: Final = (
    Flag("--record", "FILE", "keep the page of every poll in a file, compressed", read=Path),
    Flag("--replay", "FILE", "report a file of --record instead of servers", read=Path),
)


def replayed(arguments: argparse.Namespace, environ: Mapping[str, str]) -> Observation:
    """Return the observation that a recording has; windows end at the last line.

    Raises:
        RecordingError: It cannot be read, or has fewer than two polls.
    """
    clock, latest, seconds, interval = _contents(arguments.replay)
    if not arguments.seconds:
        arguments.seconds = float(min(max(ceil(seconds), 1), MAX_WINDOW))
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
