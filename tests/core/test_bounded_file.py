"""Files, read up to a bound."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from spec_decode_exporter.core.bounded_file import read_bounded, size_text


def test_a_file_of_exactly_the_limit_is_read(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"12345")
    assert read_bounded(path, 5) == b"12345"
    with pytest.raises(OSError, match="it is larger than 4 bytes"):
        read_bounded(path, 4)


def test_a_device_or_pipe_is_neither_read_nor_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(OSError, match="it is not a plain file"):
            read_bounded(path, 5)


def test_no_file_stays_open(tmp_path):
    before = os.listdir("/proc/self/fd")  # noqa: PTH208  paths of what is open change while they are listed
    for _ in range(10):
        with pytest.raises(OSError, match="it is not a plain file"):
            read_bounded(tmp_path, 5)
    assert len(os.listdir("/proc/self/fd")) == len(before)  # noqa: PTH208


@pytest.mark.parametrize(
    ("size", "text"), [(5, "5 bytes"), (2**10, "1 KiB"), (1500, "1500 bytes"), (4 * 2**20, "4 MiB")]
)
def test_a_limit_is_written_in_the_largest_unit_that_divides_it(size, text):
    assert size_text(size) == text
