"""Limits of environment variables, and documented limits."""

from __future__ import annotations

import logging

import pytest

from spec_decode_exporter.vllm_middleware import spec_decode_requests as inside
from tests.vllm_middleware.harness import application, json_exchange, run


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


FORM = "SPEC_DECODE_REQUESTS_URL: give http://"


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"BASIC_AUTH_FILE": "a", "BEARER_TOKEN_FILE": "b"}, "exclude each other"),
        *(({"URL": f"http://h/{end}Rumpel"}, "printable characters") for end in ("\n", "\x1b[2J", "\u202e")),
        *(
            ({"URL": url}, FORM)
            for url in ("ftp://x", "http://x:port", "Rumpel", "Rumpel://h/", "http://[Rumpel")
        ),
        *(({"URL": f"https://h/api{end}"}, FORM) for end in ("?token=Rumpel", "#Rumpel")),
        *(({"URL": f"https://{user}@h/"}, FORM) for user in ("Rumpel", "ann:Rumpel")),
    ],
)
async def test_invalid_settings_disable_the_middleware_with_one_log_line_without_secrets(
    settings, caplog, values, why
):
    caplog.set_level(logging.DEBUG)
    settings(**values)
    asked, answered = json_exchange()
    app = inside.Middleware(application(answered))
    assert await run(app, asked) == await run(application(answered), asked)
    (line,) = caplog.records
    assert why in line.getMessage()
    assert "Rumpel" not in caplog.text


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
