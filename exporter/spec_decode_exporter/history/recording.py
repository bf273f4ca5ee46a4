"""Recordings of raw pages, compressed JSON lines, one for each poll; and their replay by live monitors.

The first line has the format. A recording that was cut off is read up to the cut.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from math import inf
from pathlib import Path
from typing import Annotated, Any, Final, Self

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from spec_decode_exporter.config.batch_schedule import SCHEDULE_KEY
from spec_decode_exporter.config.types import MAX_LABEL_VALUE, MAX_TARGETS
from spec_decode_exporter.core.clock import Clock
from spec_decode_exporter.core.files import open_plain, size_text
from spec_decode_exporter.core.numbers import MAX_UNIX, decode
from spec_decode_exporter.core.user_errors import ExporterError
from spec_decode_exporter.discovery.target import Target
from spec_decode_exporter.monitor.fleet import Fleet
from spec_decode_exporter.scrape.errors import PageError, Reason
from spec_decode_exporter.scrape.poll_record import Polled, RawPoll
from spec_decode_exporter.scrape.sample import EngineName, SampleReader
from spec_decode_exporter.scrape.server_info import ServedSpeculation, served_speculation

FORMAT: Final = "spec-decode-exporter recording 2"
MAX_LINE: Final = 16 * 2**20  # maximum bytes of a line: a page of 256 engines with histograms has 9 MB
MAX_LINES: Final = 2_000_000  # maximum polls of a recording: some three weeks of one server each second
_ADDRESS: Final = "http://recording"  # address of recorded targets: a recording has only their names


class RecordingError(ExporterError):
    """A recording cannot be read or written; the text names the file and the reason."""


class _Line(Struct):
    """A poll: its page, or the reason of its failure."""

    target: Annotated[str, Meta(min_length=1, max_length=MAX_LABEL_VALUE)]
    t: Annotated[float, Meta(ge=-MAX_UNIX, le=MAX_UNIX)]  # monotonic time in seconds
    time: Annotated[float, Meta(ge=0, le=MAX_UNIX)]  # Unix time
    page: str | None = None
    error: Reason | None = None
    server_info: Any | UnsetType = UNSET
    """Answer of vLLM's ``/server_info``, as JSON or text; it holds until the next one."""


class Recorder:
    """Writes the polls of an observation into a file. Use it as a context manager."""

    def __init__(self, path: Path) -> None:
        """Replace the file at ``path``, or raise RecordingError."""
        self._path = path
        self._failure: OSError | None = None
        self._reported: dict[str, ServedSpeculation | None] = {}
        """The speculation that was written last, by target."""
        try:
            self._file = gzip.open(path, "wt", compresslevel=6, encoding="ascii")  # noqa: SIM115  see __exit__
        except OSError as error:
            raise self._error(error) from None
        self._write({"format": FORMAT})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._file.close()
        except OSError as error:
            self._failure = self._failure or error
        if self._failure is not None:
            raise self._error(self._failure) from None

    def take(self, poll: RawPoll) -> None:
        """Write a poll; after a failure, none."""
        line: dict[str, Any] = {"target": poll.target, "t": poll.moment, "time": poll.wall}
        if poll.speculation != self._reported.get(poll.target):
            self._reported[poll.target] = poll.speculation
            line["server_info"] = poll.speculation and _server_info(poll.speculation)
        if poll.page is None:
            line["error"] = poll.error
        else:
            # Bytes that are not UTF-8 are read again as they were.
            line["page"] = poll.page.decode(errors="surrogateescape")
        self._write(line)

    def _write(self, line: Mapping[str, Any]) -> None:
        if self._failure is None:
            try:
                self._file.write(json.dumps(line, separators=(",", ":")) + "\n")
            except OSError as error:
                self._failure = error

    def _error(self, error: OSError) -> RecordingError:
        return RecordingError(f"the recording {self._path} cannot be written: {error.strerror or error}")


def read_recording(path: Path) -> Iterator[RawPoll]:
    """Yield the polls of a recording, oldest first; one that was cut off ends at the cut.

    Raises:
        RecordingError: It cannot be read, or is no recording; the text has the number of the line.
    """
    try:
        with open_plain(path) as file, gzip.GzipFile(fileobj=file) as lines:
            yield from _polls(path, lines)
    except EOFError:
        return
    except (OSError, ValueError, zlib.error) as error:
        text = getattr(error, "strerror", None) or error
        raise RecordingError(f"the recording {path} cannot be read: {text}") from None


def _polls(path: Path, lines: gzip.GzipFile) -> Iterator[RawPoll]:
    if FORMAT.encode() not in lines.readline(MAX_LINE):
        raise RecordingError(f"{path} is no recording of `observe --record`, or of another version")
    reported: dict[str, ServedSpeculation | None] = {}
    moment = -MAX_UNIX
    for number in range(2, MAX_LINES + 2):
        line = lines.readline(MAX_LINE)
        if not line:
            return
        try:
            poll = _poll(line, reported, moment)
        except ValueError as error:
            raise RecordingError(f"{path}, line {number}: {error}") from None
        moment = poll.moment
        yield poll
    raise RecordingError(f"{path} has more than {MAX_LINES} polls")


def _poll(line: bytes, reported: dict[str, ServedSpeculation | None], earliest: float) -> RawPoll:
    """Return the poll of a line, or raise ValueError; ``reported`` takes the speculation of each target."""
    if len(line) == MAX_LINE and not line.endswith(b"\n"):
        raise ValueError(f"it has more than {size_text(MAX_LINE)}")
    # msgspec itself reads no page with bytes that are not UTF-8. The line is bounded: a page has many commas.
    poll = msgspec.convert(decode(line, len(line)), _Line)
    if poll.t < earliest:
        raise ValueError("t: it is earlier than in the line before")
    if not poll.target.isprintable():
        raise ValueError("target: it is not printable")
    if (poll.page is None) == (poll.error is None):
        raise ValueError("it has either a page or an error")
    reported.setdefault(poll.target)
    if len(reported) > MAX_TARGETS:
        raise ValueError(f"target: the recording has more than {MAX_TARGETS} targets")
    if poll.server_info is not UNSET:
        answer = poll.server_info if isinstance(poll.server_info, str) else json.dumps(poll.server_info)
        reported[poll.target] = served_speculation(answer.encode())
    page = None if poll.page is None else poll.page.encode(errors="surrogateescape")
    return RawPoll(poll.target, poll.t, poll.time, page, poll.error, reported[poll.target])


def _server_info(speculation: ServedSpeculation) -> Mapping[str, object]:
    """Return what vLLM's ``/server_info`` says of speculation; the rest of that page is not recorded."""
    settings = {
        "method": speculation.method,
        "model": speculation.draft_model,
        "num_speculative_tokens": speculation.tokens,
        SCHEDULE_KEY: speculation.schedule.ranges or None,
        "rejection_sample_method": speculation.rejection_method,
    }
    return {"vllm_config": {"speculative_config": {key: each for key, each in settings.items() if each}}}


class RecordingClock(Clock):
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

    ``fleet`` watches its targets by ``clock``; a recording with too many engines raises RecordingError.
    """
    monitors = {monitor.target.name: monitor for monitor in fleet}
    readers = {name: SampleReader() for name in monitors}
    engines, histograms_at = set[tuple[str, EngineName]](), dict.fromkeys(monitors, -inf)
    for poll in polls:
        clock.follow(poll)
        monitor, config = monitors[poll.target], fleet.config.poll
        with_latencies = poll.moment - histograms_at[poll.target] >= config.histogram_interval
        reading = None
        if poll.page is not None:
            with suppress(PageError):
                reading = readers[poll.target].read(poll.page, with_latencies=with_latencies)
        if poll.page is None or reading is None:
            monitor.take_failure(poll.error or "malformed")
        else:
            if with_latencies:
                histograms_at[poll.target] = poll.moment
            polled = Polled(reading, poll.moment, poll.wall, config.interval)
            monitor.take(polled, len(poll.page), poll.speculation)
            engines.update((poll.target, name) for name in reading.samples)
        if len(engines) > MAX_TARGETS:
            raise RecordingError(f"the recording has more than {MAX_TARGETS} engines")
        yield poll
