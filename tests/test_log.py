from __future__ import annotations

import json

import pytest
import structlog

from exporter.log import configure_log


@pytest.fixture(autouse=True)
def _restore():
    yield
    structlog.reset_defaults()


def test_logfmt_gives_one_line_an_event_with_keys_and_values(capsys):
    configure_log("info", "logfmt")
    structlog.get_logger().info("target_recovered", target="a b", failed_polls=3)
    line = capsys.readouterr().err
    assert line.endswith('level=info event=target_recovered target="a b" failed_polls=3\n')


def test_json_gives_one_object_an_event(capsys):
    configure_log("info", "json")
    structlog.get_logger().bind(target="a").warning("target_failing", reason="refused")
    entry = json.loads(capsys.readouterr().err)
    assert (entry["event"], entry["level"], entry["target"], entry["reason"]) == (
        "target_failing",
        "warning",
        "a",
        "refused",
    )


def test_what_is_less_severe_than_the_level_is_left_out(capsys):
    configure_log("warning", "logfmt")
    structlog.get_logger().info("reloaded")
    assert capsys.readouterr().err == ""


def test_a_logger_that_was_made_before_follows_the_new_level(capsys):
    configure_log("error", "logfmt")
    logger = structlog.get_logger(target="a")
    configure_log("info", "logfmt")
    logger.info("reloaded")
    assert "event=reloaded target=a" in capsys.readouterr().err


@pytest.mark.parametrize("form", ["logfmt", "json"])
def test_a_name_chosen_by_a_stranger_cannot_begin_a_new_line_or_move_the_cursor(capsys, form):
    configure_log("info", form)
    structlog.get_logger().info("engine_found", model_name='x"\n\x1b[2Jlevel=error event=forged')
    text = capsys.readouterr().err
    assert text.count("\n") == 1
    assert "\x1b" not in text


class Broken:
    def write(self, text):
        raise BrokenPipeError

    def flush(self):
        raise OSError(28, "No space left on device")


def test_a_log_that_cannot_be_written_stops_nothing(monkeypatch):
    monkeypatch.setattr("sys.stderr", Broken())
    configure_log("info", "logfmt")
    structlog.get_logger().warning("target_failing")
    monkeypatch.undo()
