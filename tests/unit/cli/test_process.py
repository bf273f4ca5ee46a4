"""The process of a command: a reader that does not read delays nothing, and what is dropped is counted."""

import os
import resource
import sys
from pathlib import Path

import pytest
import structlog

from spec_decode_exporter.cli import process
from spec_decode_exporter.cli.process import DroppingStream, log_without_waiting, raise_file_limit
from spec_decode_exporter.core.log import configure_log


@pytest.fixture
def pipe(monkeypatch):
    """A pipe whose reader has not read what it holds: its two ends."""
    monkeypatch.setattr(process, "PATIENCE", 0.0)
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    while writing:
        try:
            os.write(writing, bytes(4096))
        except BlockingIOError:
            break
    yield reading, writing
    os.close(reading)
    os.close(writing)


def test_a_line_that_the_reader_does_not_take_is_dropped_and_counted(pipe):
    reading, writing = pipe
    stream = DroppingStream(writing)
    assert stream.write("first\n") == 6
    stream.write("second\nthird\n")
    assert stream.lines_dropped == 3
    os.read(reading, 1 << 20)
    stream.write("fourth: \ud800\n")
    stream.write("fifth\n")
    assert os.read(reading, 1 << 20) == b"fourth: \\ud800\nfifth\n"
    assert stream.lines_dropped == 3


def test_a_log_that_cannot_be_written_is_no_error(monkeypatch):
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as gone, Path("/dev/full").open("w") as full:
        for stream in (gone, full, None):
            monkeypatch.setattr("sys.stderr", stream)
            log = log_without_waiting()
            assert sys.stderr is log
            configure_log("info", "logfmt")
            structlog.get_logger().warning("target_failing")
            assert log.lines_dropped == 0
    structlog.reset_defaults()


def test_the_soft_limit_becomes_the_hard_limit(monkeypatch):
    limits = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, 524_288))
    monkeypatch.setattr(resource, "setrlimit", lambda _, found: limits.append(found))
    raise_file_limit()
    assert limits == [(524_288, 524_288)]
