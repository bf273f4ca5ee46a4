"""Limits of environment variables, and documented limits."""

from __future__ import annotations

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
