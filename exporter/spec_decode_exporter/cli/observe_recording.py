"""Flags of ``observe`` that write and read recordings."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path
from statistics import median
from typing import Final

from spec_decode_exporter.cli.observe_config import read_config
from spec_decode_exporter.cli.setting_flags import reject_baseline
from spec_decode_exporter.config.types import format_duration
from spec_decode_exporter.core.user_errors import UsageError
from spec_decode_exporter.discovery.target import Target, static_targets
from spec_decode_exporter.history.recording import RecordingError, read_recording
from spec_decode_exporter.history.replay import RecordingClock, new_targets
from spec_decode_exporter.reports.observe.observation_config import MIN_POLLS
from spec_decode_exporter.reports.observe.session import Observation
from spec_decode_exporter.scrape.poll_record import RawPoll

MAX_SECONDS: Final = 86_400.0
"""Longest window of a replay; of a longer recording, its end is reported."""
_GAPS: Final = 1000
"""Number of polls from which the interval of a recording is taken."""


def add_recording_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags about recordings."""
    parser.add_argument(
        "--record", metavar="FILE", type=Path, help="keep the page of every poll in a file, compressed"
    )
    parser.add_argument(
        "--replay", metavar="FILE", type=Path, help="report a file of --record instead of servers"
    )


def check_recording_flags(arguments: argparse.Namespace) -> None:
    """Reject flags that have no meaning together.

    Raises:
        UsageError: There are some.
    """
    if arguments.replay is None:
        if arguments.record is not None and arguments.prometheus_url is not None:
            raise UsageError("--record keeps polls of servers, and --prometheus.url polls none: use one")
        return
    others = {
        "URL": arguments.urls,
        "--simulate": arguments.simulate,
        "--record": arguments.record,
        "--prometheus.url": arguments.prometheus_url,
    }
    for name, value in others.items():
        if value:
            raise UsageError(f"--replay reports a recording, and {name} something else: use one")
    reject_baseline(arguments, "a recording")


@dataclass(frozen=True, slots=True)
class _Contents:
    """Contents of a recording, as far as its configuration depends on them."""

    first: RawPoll
    targets: Sequence[Target]
    seconds: float
    interval: float
    """Usual seconds between two polls of a target."""


def replayed(arguments: argparse.Namespace, environ: Mapping[str, str]) -> tuple[Observation, RecordingClock]:
    """Return the observation that a recording has, and its clock; windows end at the last line.

    Raises:
        RecordingError: It cannot be read, or has fewer than two polls.
    """
    contents = _contents(arguments.replay)
    if not arguments.seconds:
        arguments.seconds = float(min(max(ceil(contents.seconds), 1), MAX_SECONDS))
    if arguments.poll_interval is None:
        arguments.poll_interval = format_duration(contents.interval)
    configured = _configured(arguments, environ)
    arguments.urls = [target.url for target in contents.targets]
    config = read_config(arguments, environ)
    pairs = zip(static_targets(config), contents.targets, strict=True)
    targets = [configured.get(own.name) or replace(target, name=own.name) for target, own in pairs]
    clock = RecordingClock(contents.first.moment, contents.first.wall)
    observation = Observation(config, clock, targets, reads_baselines=False)
    observation.replay(read_recording(arguments.replay), clock)
    return observation, clock


def _configured(arguments: argparse.Namespace, environ: Mapping[str, str]) -> Mapping[str, Target]:
    """Return the targets of the configuration file by name: their settings apply to recorded ones."""
    if arguments.config_file is None:
        return {}
    config = read_config(arguments, environ, needs_targets=False)
    return {target.name: target for target in static_targets(config)}


def _contents(path: Path) -> _Contents:
    first = last = None
    names: dict[str, float] = {}
    gaps: list[float] = []
    for poll in read_recording(path):
        first, last = first or poll, poll
        if poll.target in names and len(gaps) < _GAPS:
            gaps.append(poll.moment - names[poll.target])
        names[poll.target] = poll.moment
    if first is None or last is None or last.moment <= first.moment:
        raise RecordingError(f"{path} has fewer than two polls: there is nothing to report")
    seconds = last.moment - first.moment
    interval = max(min(round(median(gaps), 1), seconds / MIN_POLLS), 0.1) if gaps else 1.0
    return _Contents(first, new_targets(names), seconds, interval)
