"""Recordings: what was written is read again, evaluated as it was live, and served as pages."""

from __future__ import annotations

import gzip
import json
from math import inf

import pytest

from spec_decode_exporter.core.cooperative_yield import finish
from spec_decode_exporter.history.anonymiser import Anonymiser
from spec_decode_exporter.history.recorded_page import recorded_page
from spec_decode_exporter.history.recording import Recorder, RecordingError, read_recording
from spec_decode_exporter.scrape.page.sample import PageReading
from spec_decode_exporter.scrape.page.sample_reader import SampleReader
from spec_decode_exporter.scrape.poll.poll_record import Polled
from spec_decode_exporter.scrape.poll.server_info import ServedSpeculation
from tests.conftest import CHECKOUT

PAGE = (CHECKOUT / "tests/pages/vllm-0.32.0-python-ngram-k4.prom").read_bytes()
SERVED = ServedSpeculation("ngram", 4, "secret/draft")


def reading(page=PAGE, *, with_latencies=True):
    return finish(SampleReader().read(page, with_latencies=with_latencies))


def polled(moment=0.0, found=None):
    return Polled(found or reading(), 100.0 + moment, 1_790_000_000.0 + moment, 1.0)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "recording.gz"


def record(path, *polls, anonymiser=None):
    with Recorder(path, anonymiser) as recorder:
        for poll in polls:
            recorder.take("vllm-0:8000", poll, SERVED)


def test_a_recording_is_read_as_it_was_written(path):
    polls = polled(0.0), polled(1.0, reading(with_latencies=False))
    record(path, *polls)
    assert list(read_recording(path)) == [("vllm-0:8000", each, SERVED) for each in polls]


def test_a_recorded_page_has_the_recorded_samples():
    samples = reading().samples
    page = recorded_page(samples, lambda created: created)
    again = reading(page).samples
    assert again == samples


def test_creation_times_are_moved():
    samples = reading().samples
    (moved,) = reading(recorded_page(samples, lambda created: created + 60)).samples.values()
    (sample,) = samples.values()
    assert moved.created == sample.created + 60


def test_names_are_replaced_by_numbers(path):
    record(path, polled(), polled(1.0), anonymiser=Anonymiser())
    text = gzip.decompress(path.read_bytes()).decode()
    (name,) = reading().samples
    for secret in ("vllm-0", name.model_name, "secret"):
        assert secret not in text
    (target, first, served), _ = read_recording(path)
    assert (target, served.draft_model) == ("target-1", "draft-model-1")
    assert [each.model_name for each in first.reading.samples] == ["model-1"]


def test_equal_names_get_equal_numbers():
    anonymiser = Anonymiser()
    lines = [
        anonymiser.anonymised({"target": target, "engines": [{"model": "m", "engine": "0"}]})
        for target in ("a", "b", "a")
    ]
    assert [line["target"] for line in lines] == ["target-1", "target-2", "target-1"]


def test_a_recording_that_was_cut_off_ends_at_the_cut(path):
    record(path, *(polled(float(moment)) for moment in range(50)))
    path.write_bytes(path.read_bytes()[:-40])
    assert 0 < len(list(read_recording(path))) < 50


def lines_of(path, change):
    """Write a recording of one page whose line is changed."""
    record(path, polled())
    first, line = gzip.decompress(path.read_bytes()).decode().splitlines()
    value = json.loads(line)
    change(value)
    with gzip.open(path, "wt") as file:
        file.write(f"{first}\n{json.dumps(value)}\n")


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda line: line["engines"][0].update(counters=[1]), "line 2: engines.0.counters"),
        (lambda line: line["engines"][0]["positions"].append(-1), "line 2: engines.0.positions.4"),
        (lambda line: line.update(moment="x"), "line 2: moment"),
        (lambda line: line.update(wall=inf), "line 2: "),
        (
            lambda line: line["engines"][0]["latencies"].update(queue=[[1.0], [1]]),
            "one count more than bounds",
        ),
        (lambda line: line.update(engines=[line["engines"][0]] * 300), "line 2: engines"),
    ],
)
def test_a_mistake_is_named_with_its_line(path, change, text):
    lines_of(path, change)
    with pytest.raises(RecordingError, match=text):
        list(read_recording(path))


@pytest.mark.parametrize(
    "content",
    [b"", b"plain text", gzip.compress(b"{}\n", mtime=0), gzip.compress(b"x" * 100, mtime=0)],
    ids=("empty", "text", "compressed JSON", "compressed text"),
)
def test_another_file_is_refused(path, content):
    path.write_bytes(content)
    with pytest.raises(RecordingError, match=str(path)):
        list(read_recording(path))


def test_a_missing_file_and_a_missing_directory_are_named(tmp_path):
    with pytest.raises(RecordingError, match="No such file"):
        list(read_recording(tmp_path / "none"))
    with pytest.raises(RecordingError, match="cannot be written: No such file"):
        Recorder(tmp_path / "none" / "recording.gz")


def test_time_that_runs_backwards_is_refused(path):
    record(path, polled(5.0), polled(1.0))
    with pytest.raises(RecordingError, match="older than the line before"):
        list(read_recording(path))


def test_an_empty_page_is_a_page():
    assert reading(recorded_page({}, lambda created: created)) == PageReading("", "", {})
