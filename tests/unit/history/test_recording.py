"""Recordings: what was written is read again byte for byte, other files are refused; replays run through live monitors."""

import gzip
import json
from unittest.mock import Mock

import pytest

from spec_decode_exporter.config.batch_schedule import BatchSchedule
from spec_decode_exporter.config.load import load
from spec_decode_exporter.history import recording
from spec_decode_exporter.history.recording import (
    FORMAT,
    Recorder,
    RecordingClock,
    RecordingError,
    new_targets,
    read_recording,
    replay,
)
from spec_decode_exporter.monitor.fleet import Fleet
from spec_decode_exporter.monitor.target_monitor import Shared
from spec_decode_exporter.scrape.poll_record import RawPoll
from spec_decode_exporter.scrape.server_info import ServedSpeculation
from tests.paths import DATA

PAGE = (DATA / "pages/vllm-0.32.0-python-ngram-k4.prom").read_bytes()
SERVED = ServedSpeculation("eagle3", 4, "org/draft", BatchSchedule((1, 32), (4, 0)), "", "standard")
LINE = {"target": "vllm-0:8000", "t": 1.0, "time": 1.8e9, "page": "up 1\n"}


def poll(moment=0.0, page=PAGE, error=None, served=None, target="vllm-0:8000"):
    return RawPoll(target, 100.0 + moment, 1.79e9 + moment, page, error, served)


def record(directory, *polls):
    """Record polls; return the path of the recording."""
    path = directory / "recording.gz"
    with Recorder(path) as recorder:
        for each in polls:
            recorder.take(each)
    return path


def write(directory, *lines):
    """Write lines, texts or JSON values, as a recording; return its path."""
    path = directory / "recording.gz"
    text = "\n".join(
        line if isinstance(line, str) else json.dumps(line) for line in ({"format": FORMAT}, *lines)
    )
    path.write_bytes(gzip.compress(f"{text}\n".encode(), 1))
    return path


def test_a_recording_is_read_as_it_was_written(tmp_path):
    polls = [
        poll(),
        poll(1.0, None, "timeout"),
        poll(1.5, b'up{a="\xff\\n"} 1\n', served=SERVED),
        poll(2.0, served=SERVED),
        poll(3.0),
    ]
    assert list(read_recording(record(tmp_path, *polls))) == polls


def test_its_lines_have_the_documented_fields(tmp_path):
    path = record(tmp_path, poll(served=SERVED), poll(1.0, None, "refused", SERVED))
    first, page, failure = map(json.loads, gzip.decompress(path.read_bytes()).splitlines())
    assert first == {"format": "spec-decode-exporter recording 2"}
    assert page.keys() == {"target", "t", "time", "page", "server_info"}
    assert page["server_info"]["vllm_config"]["speculative_config"]["num_speculative_tokens"] == 4
    assert failure == {"target": "vllm-0:8000", "t": 101.0, "time": 1.79e9 + 1, "error": "refused"}


def test_server_info_as_vllm_answers_it_is_read(tmp_path):
    answer = json.loads((DATA / "pages/server_info/vllm-0.32.0-draft-model.json").read_text())
    path = write(
        tmp_path,
        {**LINE, "server_info": answer},
        {**LINE, "t": 2.0},
        {**LINE, "t": 3.0, "server_info": None},
        {**LINE, "t": 4.0, "server_info": json.dumps(answer)},
    )
    first, second, third, as_text = (each.speculation for each in read_recording(path))
    assert first == second == as_text
    assert (first and first.method) == "draft_model"
    assert third is None


def test_a_recording_that_was_cut_off_ends_at_the_cut(tmp_path):
    path = record(tmp_path, *(poll(float(moment)) for moment in range(50)))
    path.write_bytes(path.read_bytes()[:-40])
    assert 0 < len(list(read_recording(path))) < 50


def test_a_line_that_is_compressed_to_next_to_nothing_is_bounded(tmp_path):
    path = write(tmp_path, " " * (recording.MAX_LINE + 1))
    assert path.stat().st_size < 100_000
    with pytest.raises(RecordingError, match="line 2: it has more than 16 MiB"):
        list(read_recording(path))


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("{", "Expecting property name"),
        ("[1]", "Expected `object`, got `array`"),
        ("[" * 100_000, "nested too deeply"),
        ({**LINE, "target": "a\nb"}, "target: it is not printable"),
        ({**LINE, "target": "a" * 1025}, r"length <= 1024 - at `\$.target`"),
        ({**LINE, "t": "1"}, r"got `str` - at `\$.t`"),
        ({**LINE, "t": float("nan")}, r"got `null` - at `\$.t`"),
        ({**LINE, "t": 1e13}, r"<= 253402300799.0 - at `\$.t`"),
        ({**LINE, "time": -1}, r">= 0.0 - at `\$.time`"),
        ({**LINE, "page": None}, "either a page or an error"),
        ({**LINE, "error": "refused"}, "either a page or an error"),
        ({**LINE, "page": None, "error": "bored"}, "bored"),
        ('{"target":"a","t":1,"time":1,"page":"\\ud800"}', "surrogates not allowed"),
        ({**LINE, "t": 0.5}, "t: it is earlier than in the line before"),
    ],
)  # fmt: skip
def test_a_mistake_is_named_with_its_line(tmp_path, line, text):
    path = write(tmp_path, LINE, line)
    with pytest.raises(RecordingError, match=f"line 3: .*{text}"):
        list(read_recording(path))


@pytest.mark.parametrize(
    ("name", "limit", "text"),
    [
        ("MAX_LINE", 60, "line 2: it has more than 60 bytes"),
        ("MAX_LINES", 5, "has more than 5 polls"),
        ("MAX_TARGETS", 5, "line 7: target: the recording has more than 5 targets"),
    ],
)
def test_a_recording_is_bounded_as_a_whole(tmp_path, monkeypatch, name, limit, text):
    path = write(tmp_path, *({**LINE, "target": f"vllm-{number}"} for number in range(10)))
    assert len(list(read_recording(path))) == 10
    monkeypatch.setattr(recording, name, limit)
    with pytest.raises(RecordingError, match=text):
        list(read_recording(path))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"plain text",
        gzip.compress(b"{}\n", mtime=0),
        gzip.compress(b"[" * 100_000, mtime=0),
        gzip.compress(b'{"format":"spec-decode-exporter recording 1"}\n', mtime=0),
    ],
    ids=("empty", "text", "compressed JSON", "nested", "another version"),
)
def test_another_file_is_refused(tmp_path, content):
    path = tmp_path / "recording.gz"
    path.write_bytes(content)
    with pytest.raises(RecordingError, match=str(path)):
        list(read_recording(path))


def test_a_missing_file_and_a_missing_directory_are_named(tmp_path):
    with pytest.raises(RecordingError, match="No such file"):
        list(read_recording(tmp_path / "none"))
    with pytest.raises(RecordingError, match="cannot be written: No such file"):
        Recorder(tmp_path / "none" / "recording.gz")


def test_a_full_disk_ends_the_recording_with_an_error(tmp_path, monkeypatch):
    recorder = Recorder(tmp_path / "recording.gz")
    full = Mock(side_effect=OSError(28, "No space left on device"))
    monkeypatch.setattr(recorder._file, "write", full)
    recorder.take(poll())
    recorder.take(poll(1.0))
    with pytest.raises(RecordingError, match="No space left"):
        recorder.__exit__()


# Replay


async def test_failures_and_unreadable_pages_are_failed_polls():
    clock = RecordingClock(100.0, 1.79e9)
    fleet = Fleet(load(None, environ={}), Shared(clock, spread=False))
    fleet.watch(new_targets(["vllm-0:8000", "b"]))
    polls = [poll(), poll(1.0, None, "timeout"), poll(2.0, b"vllm:spec_decode_num_drafts_total{ 1\n")]
    list(replay(polls, fleet, clock))
    first, second = (monitor.status().record for monitor in fleet)
    assert (first.up, first.failures, first.polls) == (False, {"timeout": 1, "malformed": 1}, 3)
    assert (second.up, second.polls) == (None, 0)


async def test_a_recording_whose_every_page_has_new_engines_is_bounded_as_a_whole(monkeypatch):
    """200 pages with 256 new engines each would take minutes."""
    monkeypatch.setattr(recording, "MAX_TARGETS", 5)
    clock = RecordingClock(100.0, 1.79e9)
    fleet = Fleet(load(None, environ={}), Shared(clock, spread=False))
    fleet.watch(new_targets(["a", "b"]))
    pages = [PAGE.replace(b'engine="0"', b'engine="%d"' % number) for number in range(10)]
    polls = [poll(float(moment), page, target="a") for moment, page in enumerate(2 * pages[:3])]
    polls += [poll(float(moment), page, target="b") for moment, page in enumerate(pages, 6)]
    replayed = replay(polls, fleet, clock)
    assert [next(replayed).target for _ in range(8)] == ["a"] * 6 + ["b"] * 2
    with pytest.raises(RecordingError, match="more than 5 engines"):
        next(replayed)
