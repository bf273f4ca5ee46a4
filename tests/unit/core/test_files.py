"""Plain files: bounded reading, notice of changes, atomic replacement."""

import os

import pytest

from spec_decode_exporter.core.files import read_bounded, replace_file, size_text, stamps


@pytest.fixture(name="file")
def fixture_file(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"12345")
    return path


@pytest.mark.parametrize(
    ("size", "text"), [(5, "5 bytes"), (2**10, "1 KiB"), (1500, "1500 bytes"), (4 * 2**20, "4 MiB")]
)
def test_a_limit_is_written_in_the_largest_unit_that_divides_it(size, text):
    assert size_text(size) == text


def test_a_file_up_to_the_limit_is_read_and_a_larger_one_or_another_kind_is_refused(file):
    assert read_bounded(file, 5)
    with pytest.raises(OSError, match="it is larger than 4 bytes"):
        read_bounded(file, 4)
    os.mkfifo(file.with_name("pipe"))
    for other in (file.parent, file.with_name("pipe")):
        with pytest.raises(OSError, match="it is not a plain file"):
            read_bounded(other, 5)
    with pytest.raises(FileNotFoundError):
        read_bounded(file.with_name("none"), 5)


@pytest.mark.parametrize(
    "change",
    [
        lambda path: path.write_bytes(b"longer content"),
        lambda path: replace_file(path, b"54321"),
        lambda path: path.unlink(),
        lambda path: os.utime(path, ns=(1, 1)),
    ],
    ids=["other size", "replaced by the same size", "removed", "other time"],
)
def test_a_change_is_seen_also_behind_a_symbolic_link(file, change):
    link = file.with_name("link")
    link.symlink_to(file)
    before = stamps([link, file.with_name("none")])
    assert stamps([link, file.with_name("none")]) == before
    change(file)
    assert stamps([link, file.with_name("none")]) != before


def test_a_replaced_file_is_private_and_complete_or_unchanged(file):
    file.with_name("file.tmp").write_bytes(b"of a process that crashed")
    replace_file(file, b"new")
    assert (file.read_bytes(), file.stat().st_mode & 0o777) == (b"new", 0o600)
    file.with_name("file.tmp").mkdir()
    with pytest.raises(OSError):
        replace_file(file, b"newer")
    assert file.read_bytes() == b"new"
