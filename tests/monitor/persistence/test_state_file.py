from __future__ import annotations

import errno
import os
import stat

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from spec_decode_exporter.monitor.persistence.state_file import MAX_BYTES, MAX_VALUES, StateFile

STATE = {"chat": {"m": 2.1, "drafts": 2**60, "positions": [0.1, 1 / 3], "model": "é\ud800"}, "none": None}


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


def events(log):
    return [(entry["event"], entry.get("reason")) for entry in log]


def names(path):
    return sorted(entry.name for entry in path.parent.iterdir())


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(st.text(), below, max_size=3),
    max_leaves=10,
)


@given(st.dictionaries(st.text(), json_values, max_size=4))
def test_any_state_comes_back_as_it_was(tmp_path_factory, state):
    path = tmp_path_factory.mktemp("state") / "state.json"
    StateFile(path).save(state)
    assert StateFile(path).load() == state


def test_only_the_owner_may_read_the_file(path):
    before = os.umask(0)
    try:
        StateFile(path).save(STATE)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def damaged(path, change):
    StateFile(path).save(STATE)
    path.write_bytes(change(path.read_bytes()))
    return path.read_bytes()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda content: content[:-9], "it is not JSON"),
        (lambda content: b"", "it is not JSON"),
        (lambda content: b"\xff\xfe\x00", "it is not JSON"),
        (lambda content: b"[" * 200_000, "it is not JSON"),
        (lambda content: content.replace(b"2.1", b"1e999"), "it is not JSON"),
        (lambda content: content.replace(b"2.1", b"2.2"), "it was changed or damaged: its checksum does not match"),
        (lambda content: b'{"format": "spec-decode-exporter state", "version": 1}', "it was changed or damaged: its checksum does not match"),
        (lambda content: content.replace(b'"version":1', b'"version":2'), "it has version 2; this exporter reads 1"),
        (lambda content: b'{"a": 1}', "it is not a state of this exporter"),
        (lambda content: b"[]", "it is not a state of this exporter"),
        (lambda content: b" " * (MAX_BYTES + 1), "it is larger than 32 MiB"),
        (lambda content: b"[" + b"{}," * MAX_VALUES, "it has more than 1600000 values"),
    ],
)  # fmt: skip
def test_an_invalid_file_is_renamed_and_logged(path, log, change, reason):
    content = damaged(path, change)
    file = StateFile(path)
    assert file.load() == {}
    assert events(log) == [("state_file_set_aside", reason)]
    assert log[0]["kept_as"] == str(path) + ".corrupt"
    file.save({"a": 1})
    assert path.with_name("state.json.corrupt").read_bytes() == content
    assert StateFile(path).load() == {"a": 1}


def test_a_file_that_cannot_be_renamed_is_not_overwritten(path, log, break_disk):
    content = damaged(path, lambda content: b"precious")
    file = StateFile(path)
    mend = break_disk("replace", errno.EROFS)
    assert file.load() == {}
    file.save({"a": 1})
    assert path.read_bytes() == content
    assert events(log) == [("state_file_not_written", "Read-only file system")]
    mend()
    file.save({"a": 2})
    assert path.with_name("state.json.corrupt").read_bytes() == content
    assert StateFile(path).load() == {"a": 2}
    assert [event for event, _ in events(log)[1:]] == ["state_file_set_aside", "state_file_written_again"]


def test_a_file_that_is_gone_before_it_is_set_aside_is_no_loss(path, log, break_disk):
    damaged(path, lambda content: b"precious")
    file = StateFile(path)
    mend = break_disk("replace", errno.EROFS)
    file.load()
    mend()
    path.unlink()
    file.save({"a": 1})
    assert [event for event, _ in events(log)] == ["state_file_not_written", "state_file_written_again"]
    assert names(path) == ["state.json"]


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
    file = StateFile(path)
    file.save({"a": 1})
    content = path.read_bytes()
    mend = break_disk(call, number)
    for minute in range(3):
        file.save({"a": minute})
    assert names(path) == ["state.json"]
    assert path.read_bytes() == content
    assert events(log) == [("state_file_not_written", reason)]
    mend()
    file.save({"a": 9})
    file.save({"a": 10})
    assert StateFile(path).load() == {"a": 10}
    assert [entry["event"] for entry in log[1:]] == ["state_file_written_again"]


def test_another_reason_is_logged_too(path, log, break_disk):
    file = StateFile(path)
    for number in (errno.ENOSPC, errno.EROFS, errno.EROFS):
        break_disk("replace", number)
        file.save({})
    assert [reason for _, reason in events(log)] == ["No space left on device", "Read-only file system"]


def test_a_missing_directory_is_logged(tmp_path, log):
    file = StateFile(tmp_path / "nowhere" / "state.json")
    assert file.load() == {}
    file.save({})
    assert events(log) == [("state_file_not_written", "No such file or directory")]


@pytest.mark.parametrize("make", [lambda path: path.mkdir(), os.mkfifo], ids=["directory", "pipe"])
def test_only_a_regular_file_is_read_or_replaced(path, log, make):
    make(path)
    file = StateFile(path)
    assert file.load() == {}
    file.save(STATE)
    assert not path.is_file()
    assert names(path) == ["state.json"]
    assert events(log) == [("state_file_not_written", "it is not a plain file")]


@pytest.mark.parametrize(
    ("state", "error"), [({"a": object()}, TypeError), ({"a": float("nan")}, ValueError)]
)
def test_values_that_json_cannot_represent_raise_and_change_nothing(path, state, error):
    file = StateFile(path)
    file.save({"a": 1})
    with pytest.raises(error):
        file.save(state)
    assert StateFile(path).load() == {"a": 1}
