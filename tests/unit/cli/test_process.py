"""The process of a command: a reader that does not read delays nothing, and what is dropped is counted."""

import resource
import threading

import pytest
from structlog.testing import capture_logs

from spec_decode_exporter.cli.process import BackgroundStream, raise_file_limit

CEILING = 60.0


class Reader:
    """A reader that reads nothing until it is told to."""

    def __init__(self):
        self.text = ""
        self.is_waiting = threading.Event()
        self.may_read = threading.Event()

    def read(self, text):
        self.is_waiting.set()
        assert self.may_read.wait(CEILING)
        self.text += text


@pytest.fixture
def reader():
    reader = Reader()
    yield reader
    reader.may_read.set()


def blocked(reader, limit):
    """Return a stream whose thread waits for the reader with its first line."""
    stream = BackgroundStream(reader.read, limit)
    stream.write("first\n")
    assert reader.is_waiting.wait(CEILING)
    return stream


def test_a_full_queue_drops_and_counts_until_the_reader_reads_and_then_one_line_says_how_many(reader):
    stream = blocked(reader, limit=1)
    stream.write("second\n")
    stream.write("third\n")
    stream.write("4\n")
    assert stream.lines_dropped == 2
    stream.drain(0.0)  # the end does not wait for a reader that does not read
    assert reader.text == ""
    with capture_logs() as logs:
        reader.may_read.set()
        stream.drain(CEILING)
        stream.write("fifth\n")
        stream.drain(CEILING)
    assert reader.text == "first\nsecond\nfifth\n"
    assert logs == [{"event": "log_lines_dropped", "lines": 2, "log_level": "warning"}]
    assert stream.lines_dropped == 2


def test_the_soft_limit_becomes_the_hard_limit(monkeypatch):
    limits = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, 524_288))
    monkeypatch.setattr(resource, "setrlimit", lambda _, found: limits.append(found))
    raise_file_limit()
    assert limits == [(524_288, 524_288)]
