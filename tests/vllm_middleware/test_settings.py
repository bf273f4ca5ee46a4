"""Limits of environment variables, and documented limits."""

from __future__ import annotations

from pathlib import Path

import pytest

from spec_decode_exporter.vllm_middleware import spec_decode_requests as inside


@pytest.mark.parametrize(
    ("name", "most"),
    [
        ("URL", inside.SETTING_CHARACTERS),
        ("TARGET", inside.SETTING_CHARACTERS),
        ("TYPE_FIELD", inside.NAME_CHARACTERS),
        ("USER_HEADER", inside.NAME_CHARACTERS),
    ],
)
def test_a_setting_has_a_limit_of_characters(settings, caplog, name, most):
    value = ("http://h/" if name == "URL" else "") + "a" * (most + 1)
    settings(**{name: value[:most]})
    assert inside.Middleware(None)._reporter is not None
    settings(**{name: value[: most + 1]})
    assert inside.Middleware(None)._reporter is None
    assert f"{inside.PREFIX}{name}: give at most {most} printable characters" in caplog.text


@pytest.mark.parametrize("value", ["http://h/\nINFO all is well", "http://h/\x1b[2J", "http://h/\u202ecod"])
def test_an_unprintable_setting_is_not_logged(settings, caplog, value):
    settings(URL=value)
    assert inside.Middleware(None)._reporter is None
    assert "printable characters" in caplog.text
    assert value[9:] not in caplog.text


def test_the_first_unknown_settings_are_logged(monkeypatch, caplog):
    for number in range(inside.LOGGED_NAMES + 3):
        monkeypatch.setenv(f"{inside.PREFIX}SERVICE_{number}_{'X' * 1000}", "10.0.0.1")
    assert inside.Middleware(None)._reporter is not None
    assert "and 3 more" in caplog.text
    assert len(caplog.text) < 2 * inside.LOGGED_NAMES * inside.NAME_CHARACTERS


def test_the_name_of_an_unknown_setting_cannot_add_a_log_line(monkeypatch, caplog):
    monkeypatch.setenv(f"{inside.PREFIX}X\nERROR vLLM: \x1b[2J\u202efake", "")
    assert inside.Middleware(None)._reporter is not None
    assert "there is no setting SPEC_DECODE_REQUESTS_XERROR vLLM: [2Jfake" in caplog.text


def test_the_documented_limits_are_those_of_the_file():
    text = (Path(__file__).parents[2] / "docs" / "guide" / "requests-inside.md").read_text()
    for limit in (
        f"| {inside.REQUEST_SECONDS * 1e3:g} ms |",
        f"| {inside.RESPONSE_SECONDS * 1e3:g} ms |",
        f"| {inside.STEPS:,} |",
        f"| {inside.KEY_MATCHES} |",
        f"| {inside.BODY_MESSAGES:,} |",
        f"| {inside.HEADERS}, the default of vLLM",
        f"| {inside.SLICE_SECONDS * 1e3:g} ms and one step of up to {inside.CHUNK_BYTES >> 10} KiB, then a rest of",
        f"| {inside.CORE_SHARE * inside.ROUND_SECONDS * 1e3:g} ms of each second: {inside.CORE_SHARE * 100:g} % of a core |",
        f"| requests wait in the queue of {inside.EXCHANGE_BYTES >> 20} MiB and {inside.EXCHANGES:,} entries;",
        f"| {inside.REPLY_BYTES >> 10} KiB, {inside.REPLY_PIECES} pieces, {inside.TIMEOUT_SECONDS:g} s |",
        f"| {inside.SETTING_CHARACTERS:,} printable characters; {inside.NAME_CHARACTERS} for names",
    ):
        assert limit in text
