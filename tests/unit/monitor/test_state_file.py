"""State file: one document that is whole or discarded, and nothing is overwritten or lost silently."""

import errno
import os
from unittest.mock import Mock

import pytest

from spec_decode_exporter.costs.learned import DraftingMethod, LearnedState
from spec_decode_exporter.monitor import state
from spec_decode_exporter.monitor.state import (
    MAX_BYTES,
    RememberedEngine,
    StateDocument,
    StateFile,
    document,
    entry_json,
    parsed_state,
)


def engine(target="chat", **learned):
    return RememberedEngine(target, "llama", "0", 1_790_000_000.0, LearnedState(4, **learned))


ENGINES = [engine("a"), engine("b"), engine("c")]
DOCUMENT = document([text for each in ENGINES for text in entry_json(each)], [])
EMPTY, ONE = document([], []), document(entry_json(engine()), [])


@pytest.fixture
def path(tmp_path):
    return tmp_path / "state.json"


def events(logs):
    return [(entry["event"], entry.get("reason")) for entry in logs]


def test_the_state_comes_back_as_it_was(path, logs):
    StateFile(path).save(DOCUMENT)
    assert StateFile(path).load() == StateDocument(engines=ENGINES)
    assert logs == []


SEEN, HUGE = b"1790000000.0", b"1" + b"0" * 400
DAMAGES = {
    "empty": (b"", "Invalid JSON: EOF"),
    "no text": (b"\xff\xfe\x00", "Invalid JSON"),
    "list": (b"[" * 200_000, "Invalid JSON"),
    "too large": (b" " * (MAX_BYTES + 1), "it is larger than 32 MiB"),
    "version 2": (b'{"format":"spec-decode-exporter state","version":2,"writer":"00","entries":0}\n', "version: Input should be 3"),
    "version 4": (EMPTY.replace(b'"version":3', b'"version":4'), "version: Input should be 3"),
    "cut off": (DOCUMENT[:-40], "Invalid JSON: EOF while parsing"),
    "no engine": (ONE.replace(b'"target"', b'"tarkett"'), "engines.0.target: Field required"),
    "NaN": (ONE.replace(SEEN, b"NaN"), "engines.0.seen"),
    "infinite": (ONE.replace(SEEN, b"1e999"), "engines.0.seen"),
    "huge integer": (ONE.replace(SEEN, HUGE), "engines.0.seen"),
    "more digits than Python reads": (ONE.replace(SEEN, HUGE * 20), ""),
    "negative time": (ONE.replace(SEEN, b"-1.0"), "engines.0.seen"),
    "half a surrogate": (ONE.replace(b'"chat"', b'"\\ud800"'), "Invalid JSON"),
    "nested": (EMPTY.replace(b"[]", b"[" * 60_000, 1), "Invalid JSON"),
    "a bomb": (EMPTY.replace(b"[]", b"[" + b"[]," * 500_000 + b"[]]", 1), "it has more than 500000 lists and objects"),
    "impossible K": (ONE.replace(b'"tokens":4', b'"tokens":1000000000'), "engines.0.learned.tokens"),
}  # fmt: skip


@pytest.mark.parametrize(("content", "reason"), DAMAGES.values(), ids=DAMAGES)
def test_a_file_that_does_not_validate_is_set_aside_whole_with_its_reason(path, logs, content, reason):
    path.write_bytes(content)
    assert StateFile(path).load() == StateDocument()
    ((event, text),) = events(logs)
    assert event == "state_file_set_aside"
    assert text.startswith(reason)
    assert 5 <= len(text) <= 100
    assert logs[0]["kept_as"] == f"{path}.corrupt"
    assert path.with_name("state.json.corrupt").read_bytes() == content
    assert StateFile(path).load() == StateDocument()
    assert len(logs) == 1


@pytest.mark.parametrize("method", ["\ud800", "x" * 70_000], ids=["surrogate", "long"])
def test_an_entry_that_cannot_be_read_again_is_not_written(method):
    assert entry_json(engine(drafter=DraftingMethod(method))) == []


def test_of_more_engines_than_the_file_may_hold_the_last_ones_are_written(monkeypatch):
    text = entry_json(engine())[0]
    monkeypatch.setattr(state, "MAX_BYTES", 2**20 + 150 * len(text))
    assert len(parsed_state(document([text] * 220, [])).engines) == 120


def test_a_damaged_file_that_cannot_be_renamed_is_not_overwritten(path, logs, monkeypatch):
    path.write_bytes(b"precious")
    file = StateFile(path)
    with monkeypatch.context() as disk:
        disk.setattr(os, "replace", Mock(side_effect=OSError(errno.EROFS, "Read-only file system")))
        assert file.load() == StateDocument()
        file.save(DOCUMENT)
    assert path.read_bytes() == b"precious"
    assert events(logs) == [("state_file_not_written", "Read-only file system")]
    file.save(DOCUMENT)
    assert path.with_name("state.json.corrupt").read_bytes() == b"precious"
    assert StateFile(path).load().engines == ENGINES
    assert [event for event, _ in events(logs)[1:]] == ["state_file_set_aside", "state_file_written_again"]


@pytest.mark.parametrize(
    ("call", "number", "reason"),
    [
        ("open", errno.EROFS, "Read-only file system"),
        ("fsync", errno.EIO, "Input/output error"),
        ("replace", errno.ENOSPC, "No space left on device"),
    ],
)
def test_a_failing_disk_is_logged_once_and_its_recovery_too(path, logs, monkeypatch, call, number, reason):
    file = StateFile(path)
    file.save(DOCUMENT)
    content = path.read_bytes()
    with monkeypatch.context() as disk:
        disk.setattr(os, call, Mock(side_effect=OSError(number, reason)))
        for _ in range(3):
            file.save(EMPTY)
    assert reason in file.problem
    assert [*path.parent.iterdir()] == [path]
    assert path.read_bytes() == content
    assert events(logs) == [("state_file_not_written", reason)]
    for _ in range(2):
        file.save(document(entry_json(engine("d")), []))
    assert file.problem == ""
    assert StateFile(path).load().engines == [engine("d")]
    assert [entry["event"] for entry in logs[1:]] == ["state_file_written_again"]


@pytest.mark.parametrize("make", [lambda path: path.mkdir(), os.mkfifo], ids=["directory", "pipe"])
def test_only_a_plain_file_is_read_or_replaced(path, logs, make):
    make(path)
    file = StateFile(path)
    assert file.load() == StateDocument()
    file.save(DOCUMENT)
    assert not path.is_file()
    assert [*path.parent.iterdir()] == [path]
    assert events(logs) == [("state_file_not_written", "it is not a plain file")]


def test_a_link_stays_and_its_destination_is_replaced(path, tmp_path):
    (tmp_path / "volume").mkdir()
    path.symlink_to(tmp_path / "volume" / "state")
    StateFile(path).save(DOCUMENT)
    assert path.is_symlink()
    assert StateFile(path).load().engines == ENGINES


@pytest.mark.parametrize(
    ("name", "reason"), [("nowhere/state.json", "No such file or directory"), ("a\0", "embedded null")]
)
def test_a_place_that_cannot_be_written_is_logged_when_the_file_is_loaded(tmp_path, logs, name, reason):
    file = StateFile(tmp_path / name)
    assert file.load() == StateDocument()
    ((event, said),) = events(logs)
    assert event == "state_file_not_written"
    assert reason in said  # versions of Python say more of such a character
    assert file.problem.startswith("The state file cannot be written")
