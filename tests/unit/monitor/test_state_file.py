"""State file: damage costs no more than the damaged entries, and nothing is overwritten or lost silently."""

import errno
import os
import stat

import pytest
from structlog.testing import capture_logs

from spec_decode_exporter.monitor.state_file import MAX_BYTES, StateFile

LINES = [b'{"a":1}', b'{"b":2}', b'{"c":3}']


def parse(line):
    if not line.startswith(b'{"'):
        raise ValueError("no entry")
    return line


@pytest.fixture
def path(tmp_path):
    return tmp_path / "state.json"


@pytest.fixture
def log():
    with capture_logs() as entries:
        yield entries


@pytest.fixture
def break_disk(monkeypatch):
    """Let a call of the operating system fail until it is mended."""

    def break_call(name, number):
        def fail(*_, **__):
            raise OSError(number, os.strerror(number))

        monkeypatch.setattr(os, name, fail)
        return monkeypatch.undo

    return break_call


def opened(path):
    return StateFile(path, parse)


def saved(path, lines=LINES):
    file = opened(path)
    file.save(lines)
    return file


def events(log):
    return [(entry["event"], entry.get("reason")) for entry in log]


def names(path):
    return sorted(entry.name for entry in path.parent.iterdir())


@pytest.mark.parametrize("lines", [[], LINES, [b'{"x":"%s"}' % (b"x" * 60_000)] * 400])
def test_entries_come_back_as_they_were(path, log, lines):
    saved(path, lines)
    assert opened(path).load() == list(dict.fromkeys(lines))
    assert log == []


def test_only_the_owner_may_read_the_file(path):
    before = os.umask(0)
    try:
        saved(path)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


OLD = b'{"format":"spec-decode-exporter state","version":1,"checksum":"ab","data":{"engines":[]}}\n'
DAMAGES = [
    (lambda content: content[:-9], 1, "it has 1 of 3 entries"),
    (lambda content: content[:-8], 2, "it has 2 of 3 entries"),
    (lambda content: content.replace(b'{"b":2}', b"\xff[[" * 40), 2, "line 3, '" + "\ufffd[[" * 33 + "\ufffd': no entry"),
    (lambda content: content.replace(b'{"b"', b"\n{b"), 2, "it has 4 of 3 entries"),
    (lambda content: content + b"\n" * 10_000, 3, "it has 4096 of 3 entries"),
    (lambda content: b"", 0, "it is not a state of this exporter"),
    (lambda content: b"\xff\xfe\x00", 0, "it is not a state of this exporter"),
    (lambda content: b"[" * 200_000, 0, "it is not a state of this exporter"),
    (lambda content: OLD, 0, "it has version 1; this exporter reads version 2"),
    (lambda content: content.replace(b'"version":2', b'"version":3'), 0, "it has version 3; this exporter reads version 2"),
    (lambda content: content.replace(b'"version":2', b'"version":' + b"9" * 400), 0, "it has version 999999999; this exporter reads version 2"),
    (lambda content: b" " * (MAX_BYTES + 1), 0, "it is larger than 32 MiB"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "readable", "reason"), DAMAGES)
def test_of_a_damaged_file_the_readable_entries_stay_and_the_whole_is_kept(
    path, log, change, readable, reason
):
    saved(path)
    content = change(path.read_bytes())
    path.write_bytes(content)
    entries = opened(path).load()
    assert len(entries) == readable
    assert events(log) == [("state_file_set_aside", reason)]
    assert log[0]["kept_as"] == f"{path}.corrupt"
    assert path.with_name("state.json.corrupt").read_bytes() == content
    assert opened(path).load() == entries
    assert len(log) == 1


def test_a_damaged_file_that_cannot_be_renamed_is_not_overwritten(path, log, break_disk):
    path.write_bytes(b"precious")
    file = opened(path)
    mend = break_disk("replace", errno.EROFS)
    assert file.load() == []
    file.save(LINES)
    assert path.read_bytes() == b"precious"
    assert events(log) == [("state_file_not_written", "Read-only file system")]
    mend()
    file.save(LINES)
    assert path.with_name("state.json.corrupt").read_bytes() == b"precious"
    assert opened(path).load() == LINES
    assert [event for event, _ in events(log)[1:]] == ["state_file_set_aside", "state_file_written_again"]


@pytest.mark.parametrize(
    ("call", "number", "reason"),
    [
        ("open", errno.EROFS, "Read-only file system"),
        ("open", errno.ENOSPC, "No space left on device"),
        ("fsync", errno.EIO, "Input/output error"),
        ("replace", errno.ENOSPC, "No space left on device"),
    ],
)
def test_a_failing_disk_is_logged_once_and_its_recovery_too(path, log, break_disk, call, number, reason):
    file = saved(path)
    content = path.read_bytes()
    mend = break_disk(call, number)
    for _ in range(3):
        file.save([])
    assert file.failure == reason
    assert names(path) == ["state.json"]
    mend()
    assert path.read_bytes() == content
    assert events(log) == [("state_file_not_written", reason)]
    file.save([])
    file.save(LINES[:1])
    assert file.failure == ""
    assert opened(path).load() == LINES[:1]
    assert [entry["event"] for entry in log[1:]] == ["state_file_written_again"]


@pytest.mark.parametrize("make", [lambda path: path.mkdir(), os.mkfifo], ids=["directory", "pipe"])
def test_only_a_plain_file_is_read_or_replaced(path, log, make):
    make(path)
    file = opened(path)
    assert file.load() == []
    file.save(LINES)
    assert not path.is_file()
    assert names(path) == ["state.json"]
    assert events(log) == [("state_file_not_written", "it is not a plain file")]


def test_a_link_stays_and_its_destination_is_replaced(path, tmp_path):
    (tmp_path / "volume").mkdir()
    path.symlink_to(tmp_path / "volume" / "state")
    saved(path)
    assert path.is_symlink()
    assert opened(path).load() == LINES


class TestASecondExporter:
    @pytest.fixture(name="one")
    def one_fixture(self, path):
        return saved(path)

    def test_is_logged_once_by_each_and_named_on_the_page_until_one_ends(self, path, log, one):
        other = opened(path)
        assert other.load() == LINES
        for _ in range(3):
            other.save(LINES)
            one.save(LINES)
        assert events(log) == [("state_file_shared", None)] * 2
        assert "Another exporter" in one.problem
        one.save(LINES)
        assert one.problem == ""


def test_a_place_that_cannot_be_written_is_logged_when_the_file_is_loaded(tmp_path, log):
    file = opened(tmp_path / "nowhere" / "state.json")
    assert file.load() == []
    assert [(event, "No such file" in reason) for event, reason in events(log)] == [
        ("state_file_not_written", True)
    ]
    assert file.problem.startswith("The state file cannot be written")
