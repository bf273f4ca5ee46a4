"""``simulate --replay``: serve the pages of a recording."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from spec_decode_exporter.core.clock import Clock
from spec_decode_exporter.history.recorded_page import recorded_page
from spec_decode_exporter.history.recording import read_recording
from spec_decode_exporter.scrape.page.sample import EngineName, Sample
from spec_decode_exporter.simulator.replay_server import ReplayServer, TimedPage


def recorded_targets(path: Path) -> tuple[str, ...]:
    """Return the names of the targets of a recording, in the order of their first pages.

    Raises:
        RecordingError: It cannot be read.
    """
    return tuple(dict.fromkeys(name for name, _, _ in read_recording(path)))


def replay_server(path: Path, speed: float, clock: Clock) -> ReplayServer:
    """Return a server of a recording whose time passes ``speed`` times as fast."""
    return ReplayServer(_pages(path, speed, clock.wall()), clock)


def _pages(path: Path, speed: float, start: float) -> Iterator[TimedPage]:
    """Yield the pages; creation times are as far before the present as they were before the first page.

    Recorded polls without histograms get those of the last poll with them.
    """
    numbers: dict[str, int] = {}
    whole: dict[tuple[str, EngineName], Sample] = {}
    first: float | None = None
    for target, polled, _ in read_recording(path):
        began = first = polled.wall if first is None else first

        def moved(time: float, began: float = began) -> float:
            return start + (time - began) / speed

        samples: dict[EngineName, Sample] = {}
        for name, sample in polled.reading.samples.items():
            samples[name] = whole[target, name] = _completed(sample, whole.get((target, name)))
        number = numbers.setdefault(target, len(numbers))
        yield TimedPage((polled.wall - began) / speed, number, recorded_page(samples, moved))


def _completed(sample: Sample, last: Sample | None) -> Sample:
    """Return a sample with the histograms of the ``last`` one if it has none."""
    if sample.latencies is not None or last is None:
        return sample
    return replace(sample, latencies=last.latencies, answer_lengths=last.answer_lengths)
