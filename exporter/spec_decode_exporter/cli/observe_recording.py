"""Flags of ``observe`` that write and read recordings."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path
from typing import Final

from spec_decode_exporter.cli.observe_config import read_config
from spec_decode_exporter.cli.setting_flags import reject_baseline
from spec_decode_exporter.core.user_errors import UsageError
from spec_decode_exporter.discovery.target import static_targets
from spec_decode_exporter.history.anonymiser import Anonymiser
from spec_decode_exporter.history.recording import RecordedPoll, Recorder, RecordingError, read_recording
from spec_decode_exporter.reports.observe.session import Observation, ObservedFleet

MAX_SECONDS: Final = 86_400.0
"""Longest window of a replay; of a longer recording, its end is reported."""


def add_recording_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags about recordings."""
    parser.add_argument(
        "--record", metavar="FILE", type=Path, help="keep the samples of all polls in a file, compressed"
    )
    parser.add_argument(
        "--anonymise", action="store_true", help="replace the names of servers and models in that file"
    )
    parser.add_argument(
        "--replay", metavar="FILE", type=Path, help="report a file of --record instead of servers"
    )


def check_recording_flags(arguments: argparse.Namespace) -> None:
    """Reject flags that have no meaning together.

    Raises:
        UsageError: There are some.
    """
    if arguments.anonymise and arguments.record is None:
        raise UsageError("--anonymise needs --record, the file to write")
    if arguments.replay is None:
        if arguments.record is not None and arguments.prometheus_url is not None:
            raise UsageError("--record keeps polls of servers, and --prometheus.url polls none: use one")
        return
    others = {
        "URL": arguments.urls,
        "--simulate": arguments.simulate,
        "--requests": arguments.requests,
        "--record": arguments.record,
        "--prometheus.url": arguments.prometheus_url,
    }
    for name, value in others.items():
        if value:
            raise UsageError(f"--replay reports a recording, and {name} something else: use one")
    reject_baseline(arguments, "a recording")


def recorder_of(arguments: argparse.Namespace) -> Recorder | None:
    """Return the recorder of ``--record``; None without.

    Raises:
        RecordingError: The file cannot be written.
    """
    if arguments.record is None:
        return None
    return Recorder(arguments.record, Anonymiser() if arguments.anonymise else None)


class ReplayClock:
    """Clock of a recording: it stands at the page that was read last."""

    def __init__(self, first: RecordedPoll) -> None:
        self.follow(first)

    def follow(self, poll: RecordedPoll) -> None:
        """Move to a page."""
        self._polled = poll[1]

    def monotonic(self) -> float:
        """Return the monotonic time of the page."""
        return self._polled.moment

    def wall(self) -> float:
        """Return the Unix time of the page."""
        return self._polled.wall

    def processor(self) -> float:
        """Return 0: nothing is polled."""
        return 0.0

    async def sleep_until(self, moment: float) -> None:
        """Return at once: nothing is polled."""


@dataclass(frozen=True, slots=True)
class _Contents:
    """Contents of a recording, as far as its configuration depends on them."""

    first: RecordedPoll
    names: tuple[str, ...]
    seconds: float


def replayed(arguments: argparse.Namespace, environ: Mapping[str, str]) -> ObservedFleet:
    """Return the result of the observation that a recording has.

    Raises:
        RecordingError: It cannot be read, or has fewer than two pages.
    """
    contents = _contents(arguments.replay)
    arguments.urls = [f"http://recording/{number}" for number in range(len(contents.names))]
    arguments.seconds = float(min(max(ceil(contents.seconds), 1), MAX_SECONDS))
    arguments.poll_interval = None
    config = read_config(arguments, environ)
    pairs = zip(static_targets(config), contents.names, strict=True)
    targets = [replace(target, name=name) for target, name in pairs]
    clock = ReplayClock(contents.first)
    observation = Observation(config, clock, targets)
    observation.replay(_following(clock, arguments.replay))
    return observation.observed()


def _contents(path: Path) -> _Contents:
    first = last = None
    names: dict[str, None] = {}
    for poll in read_recording(path):
        first, last = first or poll, poll
        names.setdefault(poll[0])
    if first is None or last is None or last[1].moment <= first[1].moment:
        raise RecordingError(f"{path} has fewer than two pages: there is nothing to report")
    return _Contents(first, tuple(names), last[1].moment - first[1].moment)


def _following(clock: ReplayClock, path: Path) -> Iterator[RecordedPoll]:
    for poll in read_recording(path):
        clock.follow(poll)
        yield poll
