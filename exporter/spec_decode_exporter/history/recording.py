"""Recordings of polled samples: compressed JSON lines, one for each page.

The first line has the format. A recording that was cut off is read up to the cut.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Self

from pydantic import Field, TypeAdapter, ValidationError

from spec_decode_exporter.core.bounded_file import open_plain
from spec_decode_exporter.core.user_errors import ExporterError
from spec_decode_exporter.history.anonymiser import Anonymiser
from spec_decode_exporter.scrape.page.engine_table import Counter, Gauge, Latency
from spec_decode_exporter.scrape.page.layout_map import MAX_BUCKETS, MAX_ENGINES, MAX_NAME, MAX_POSITIONS
from spec_decode_exporter.scrape.page.sample import Buckets, EngineName, PageReading, Sample
from spec_decode_exporter.scrape.page.sample_reader import MAX_COUNT
from spec_decode_exporter.scrape.poll.poll_record import Polled
from spec_decode_exporter.scrape.poll.server_info import ServedSpeculation

FORMAT: Final = "spec-decode-exporter recording 1"
MAX_LINE: Final = 8 * 2**20
"""Maximum characters of a line: a page of 256 engines with histograms."""
MAX_LINES: Final = 2_000_000
"""Maximum pages of a recording: some three weeks of one server each second."""
_NANO: Final = 10**9

_Count = Annotated[int, Field(ge=0, lt=2**8 * MAX_COUNT * _NANO)]
_Number = Annotated[float, Field(allow_inf_nan=False)]
_Name = Annotated[str, Field(max_length=MAX_NAME)]
_Buckets = tuple[
    Annotated[list[float], Field(max_length=MAX_BUCKETS)],
    Annotated[list[_Count], Field(max_length=MAX_BUCKETS)],
]


class RecordingError(ExporterError):
    """A recording cannot be read or written; the text names the file and the reason."""


@dataclass(frozen=True, slots=True)
class _EngineLine:
    model: _Name
    engine: _Name
    counters: Annotated[list[_Count | None], Field(min_length=len(Counter), max_length=len(Counter))]
    positions: Annotated[list[_Count], Field(max_length=MAX_POSITIONS)]
    gauges: Annotated[list[_Number | None], Field(min_length=len(Gauge), max_length=len(Gauge))]
    created: _Number | None = None
    latencies: dict[Latency, _Buckets] | None = None
    answers: _Buckets | None = None


@dataclass(frozen=True, slots=True)
class _PageLine:
    target: _Name
    moment: _Number
    wall: Annotated[float, Field(ge=0, le=253_402_300_799)]
    interval: Annotated[float, Field(gt=0, le=1e6)]
    kind: Annotated[str, Field(max_length=32)]
    front_end: Annotated[str, Field(max_length=32)]
    engines: Annotated[list[_EngineLine], Field(max_length=MAX_ENGINES)]
    method: Annotated[str, Field(max_length=64)] = ""
    tokens: Annotated[int, Field(ge=0, le=MAX_POSITIONS)] | None = None
    draft_model: Annotated[str, Field(max_length=256)] = ""


_LINE: Final = TypeAdapter(_PageLine)

RecordedPoll = tuple[str, Polled, ServedSpeculation | None]
"""Name of the target, its page, and the speculation that the server reported."""


class Recorder:
    """Writes the pages of an observation into a file. Use it as a context manager."""

    def __init__(self, path: Path, anonymiser: Anonymiser | None = None) -> None:
        """Replace the file at ``path``; replace names by those of an ``anonymiser``.

        Raises:
            RecordingError: It cannot be written.
        """
        self._path = path
        self._anonymiser = anonymiser
        self._failure: OSError | None = None
        try:
            self._file = gzip.open(path, "wt", encoding="ascii")  # noqa: SIM115  closed by __exit__
            self._write({"format": FORMAT})
        except OSError as error:
            raise self._error(error) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._file.close()
        except OSError as error:
            raise self._error(error) from None

    def take(self, target: str, polled: Polled, speculation: ServedSpeculation | None) -> None:
        """Write a page; after a failure, write no more."""
        if self._failure is not None:
            return
        line = _page_line(target, polled, speculation)
        if self._anonymiser is not None:
            line = self._anonymiser.anonymised(line)
        try:
            self._write(line)
        except OSError as error:
            self._failure = error

    def _write(self, line: dict[str, Any]) -> None:
        self._file.write(json.dumps(line, separators=(",", ":")) + "\n")

    def _error(self, error: OSError) -> RecordingError:
        return RecordingError(f"the recording {self._path} cannot be written: {error.strerror or error}")


def read_recording(path: Path) -> Iterator[RecordedPoll]:
    """Yield the pages of a recording, oldest first; one that was cut off ends at the cut.

    Raises:
        RecordingError: It cannot be read, or is no recording.
    """
    try:
        with open_plain(path) as file, gzip.GzipFile(fileobj=file) as lines:
            yield from _polls(path, lines)
    except EOFError:
        return
    except (OSError, ValueError, zlib.error) as error:
        text = getattr(error, "strerror", None) or error
        raise RecordingError(f"the recording {path} cannot be read: {text}") from None


def _polls(path: Path, lines: gzip.GzipFile) -> Iterator[RecordedPoll]:
    first = lines.readline(MAX_LINE)
    if FORMAT.encode() not in first:
        raise RecordingError(f"{path} is no recording of `observe --record`, or of a newer version")
    wall = 0.0
    for number in range(2, MAX_LINES + 2):
        line = lines.readline(MAX_LINE)
        if not line.endswith(b"\n"):
            if len(line) == MAX_LINE:
                raise RecordingError(f"{path}, line {number}: it has more than {MAX_LINE} bytes")
            return
        try:
            page = _LINE.validate_json(line)
        except ValidationError as error:
            problem = error.errors(include_url=False, include_input=False)[0]
            place = ".".join(map(str, problem["loc"]))
            raise RecordingError(f"{path}, line {number}: {place}: {problem['msg']}") from None
        if page.wall < wall:
            raise RecordingError(f"{path}, line {number}: it is older than the line before")
        wall = page.wall
        yield _polled(page)
    raise RecordingError(f"{path} has more than {MAX_LINES} pages")


def _page_line(target: str, polled: Polled, speculation: ServedSpeculation | None) -> dict[str, Any]:
    reading = polled.reading
    line: dict[str, Any] = {
        "target": target,
        "moment": polled.moment,
        "wall": polled.wall,
        "interval": polled.interval,
        "kind": reading.engine_kind,
        "front_end": reading.front_end,
        "engines": [_engine_line(name, sample) for name, sample in reading.samples.items()],
    }
    if speculation is not None:
        line |= {
            "method": speculation.method,
            "tokens": speculation.tokens,
            "draft_model": speculation.draft_model,
        }
    return line


def _engine_line(name: EngineName, sample: Sample) -> dict[str, Any]:
    line: dict[str, Any] = {
        "model": name.model_name,
        "engine": name.engine,
        "counters": sample.counters,
        "positions": sample.positions,
        "gauges": sample.gauges,
        "created": sample.created,
    }
    if sample.latencies is not None:
        line["latencies"] = {name: _buckets_line(each) for name, each in sample.latencies.items()}
    if sample.answer_lengths is not None:
        line["answers"] = _buckets_line(sample.answer_lengths)
    return line


def _buckets_line(buckets: Buckets) -> tuple[list[float], list[int]]:
    """Return bounds without +Inf, which JSON lacks, and counts with it."""
    return list(buckets.bounds[:-1]), list(buckets.counts)


def _polled(page: _PageLine) -> RecordedPoll:
    samples = {EngineName(each.model, each.engine): _sample(each) for each in page.engines}
    known = bool(page.method or page.tokens or page.draft_model)
    speculation = ServedSpeculation(page.method, page.tokens, page.draft_model) if known else None
    reading = PageReading(page.kind, page.front_end, samples)
    return page.target, Polled(reading, page.moment, page.wall, page.interval), speculation


def _sample(line: _EngineLine) -> Sample:
    return Sample(
        tuple(line.counters),
        tuple(line.positions),
        tuple(line.gauges),
        line.created,
        None if line.latencies is None else {name: _buckets(each) for name, each in line.latencies.items()},
        None if line.answers is None else _buckets(line.answers),
    )


def _buckets(line: _Buckets) -> Buckets:
    bounds, counts = line
    if len(counts) != len(bounds) + 1:
        raise ValueError("a histogram has not one count more than bounds")
    return Buckets((*bounds, float("inf")), tuple(counts))
