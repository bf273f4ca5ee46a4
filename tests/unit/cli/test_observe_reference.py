"""``--save`` and ``--against`` of observe."""

import pytest

from spec_decode_exporter.cli import observe_files
from spec_decode_exporter.cli.main import parse
from spec_decode_exporter.reports.saved_snapshot import read_observation
from tests.unit.cli.test_observe_recording import RESTART

REPLAY = ("observe", "--replay", RESTART.as_posix())


def test_a_measurement_is_saved_once_and_compared(program, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    status, _, error = program(*REPLAY, "--save", "a.json")
    assert status == 0
    assert "a.json: saved, 'tiny-llama' accepts " in error
    saved = read_observation(tmp_path / "a.json").models
    status, _, error = program(*REPLAY, "--for", "10s", "--save", "a.json")
    assert (status, read_observation(tmp_path / "a.json").models) == (1, saved)
    assert "a.json is there already; name another, or remove it" in error
    assert program(*REPLAY, "--against", "a.json")[0] == 0


def test_a_reference_without_bounds_is_saved_with_a_warning(program, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    status, _, error = program(*REPLAY, "--for", "10s", "--save", "a.json")
    assert status == 3
    assert "had too few requests" in error
    assert program(*REPLAY, "--against", "a.json")[0] == 3


@pytest.mark.parametrize(
    ("text", "is_server"),
    [("http://b/metrics", True), ("b:8000", True), ("b:8000/metrics", True), ("b.json", False), ("/tmp/b:8", False)],
)  # fmt: skip
def test_an_address_is_a_server_and_anything_else_a_file(text, is_server):
    arguments = parse(["observe", "--against", text, "--speculative.method", "mtp", "http://a"], {})
    arguments.seconds = 60.0
    server = observe_files.server_of(arguments, {})
    assert (server is not None) is is_server
    if server is not None:
        assert (server.name.partition("/")[0].partition(":")[0], server.speculative.method) == ("b", "mtp")
