"""Replay of a recording: its polls run through the live monitors of a fleet, by the recording's clock."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Final

from spec_decode_exporter.discovery.target import Target
from spec_decode_exporter.history.recording import RecordingError
from spec_decode_exporter.monitor.fleet import Fleet
from spec_decode_exporter.monitor.target_monitor import TargetMonitor
from spec_decode_exporter.scrape.errors import PageError
from spec_decode_exporter.scrape.poll_record import Polled, RawPoll
from spec_decode_exporter.scrape.sample import EngineName, SampleReader

MAX_RECORDED_ENGINES: Final = 10_000
"""Engines of a recording, by name: as many as ``limits.engines`` may be. Each new one takes milliseconds."""
_ADDRESS: Final = "http://recording"
"""Address of recorded targets: a recording has only their names."""


class RecordingClock:
    """Clock of a recording: it stands at the poll that was read last."""

    def __init__(self, moment: float, wall: float) -> None:
        """Begin at ``moment`` (monotonic) and ``wall`` (Unix time)."""
        self._moment, self._wall = moment, wall

    def follow(self, poll: RawPoll) -> None:
        """Move to a poll."""
        self._moment, self._wall = poll.moment, poll.wall

    def monotonic(self) -> float:
        """Return the monotonic time of the poll."""
        return self._moment

    def wall(self) -> float:
        """Return the Unix time of the poll."""
        return self._wall

    def processor(self) -> float:
        """Return 0: replays measure no processor time."""
        return 0.0

    async def sleep_until(self, moment: float) -> None:
        """Return immediately: a replay does not wait."""


def new_targets(names: Iterable[str]) -> Sequence[Target]:
    """Return recorded targets with these names."""
    return [Target(f"{_ADDRESS}/{number}", name) for number, name in enumerate(names)]


def replay(polls: Iterable[RawPoll], fleet: Fleet, clock: RecordingClock) -> Iterator[RawPoll]:
    """Run each poll through the monitor of its target in ``fleet``, then yield it.

    ``fleet`` watches the targets of the recording; its clock is ``clock``.

    Raises:
        RecordingError: The recording has too many engines.
    """
    players = {monitor.target.name: _Player(monitor) for monitor in fleet}
    poll_config, engines = fleet.config.poll, 0
    for poll in polls:
        clock.follow(poll)
        player = players[poll.target]
        engines -= len(player.names)
        player.take(poll, poll_config.interval, poll_config.histogram_interval)
        engines += len(player.names)
        if engines > MAX_RECORDED_ENGINES:
            raise RecordingError(f"the recording has more than {MAX_RECORDED_ENGINES} engines")
        yield poll


@dataclass(slots=True)
class _Player:
    """Reads the recorded pages of one target for its monitor."""

    monitor: TargetMonitor
    reader: SampleReader = field(default_factory=SampleReader)
    names: set[EngineName] = field(default_factory=set)
    """Engines of all pages so far."""
    histograms_at: float = -inf
    """Moment of the last page that was read with histograms (monotonic)."""

    def take(self, poll: RawPoll, interval: float, histogram_interval: float) -> None:
        """Read the page of a poll, if it has one."""
        if poll.page is None:
            self.monitor.take_failure(poll.error or "malformed")
            return
        with_latencies = poll.moment - self.histograms_at >= histogram_interval
        try:
            reading = self.reader.read(poll.page, with_latencies=with_latencies)
        except PageError:
            self.monitor.take_failure("malformed")
            return
        self.names.update(reading.samples)
        if with_latencies:
            self.histograms_at = poll.moment
        polled = Polled(reading, poll.moment, poll.wall, interval)
        self.monitor.take(polled, len(poll.page), poll.speculation)
