from __future__ import annotations

import argparse
import subprocess
import sys

import pytest

from docs.generate.command_line import command_parser
from spec_decode_exporter.cli import main as cli
from spec_decode_exporter.cli.main import COMMANDS, parse
from spec_decode_exporter.cli.process import NoOutputError
from spec_decode_exporter.config.mistakes import ConfigError, Problem
from spec_decode_exporter.core.user_errors import UsageError
from spec_decode_exporter.web.server import ListenError


def run(*words):
    return subprocess.run(
        [sys.executable, "-m", "spec_decode_exporter.cli.main", *words],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


@pytest.mark.parametrize(
    ("flag", "variable"),
    [
        ("--web.listen-address", "WEB_LISTEN_ADDRESS"),
        ("--web.external-url", "WEB_EXTERNAL_URL"),
        ("--web.allowed-hosts", "WEB_ALLOWED_HOSTS"),
        ("--config.file", "CONFIG_FILE"),
        ("--log.level", "LOG_LEVEL"),
        ("--log.format", "LOG_FORMAT"),
    ],
)
def test_every_flag_has_an_environment_variable(flag, variable):
    by_flag = parse(["run", flag, "/x"], {})
    by_variable = parse(["run"], {f"SPEC_DECODE_EXPORTER_{variable}": "/x"})
    assert vars(by_flag) == vars(by_variable)


def test_run_does_not_import_the_simulator():
    code = (
        "import sys, spec_decode_exporter.cli.main as cli; cli.parse(['run'], {});"
        "print('spec_decode_exporter.simulator.simulated_server' in sys.modules)"
    )
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True
    )
    assert found.stdout == "False\n"


def test_an_unknown_command_is_reported_with_the_known_ones():
    with pytest.raises(UsageError, match=r"bogus.*run, check-config, .*observe"):
        parse(["bogus"], {})


def run_with(failure, capsys, monkeypatch):
    """Run a command that raises; return its exit status and what it printed."""

    def handle(_):
        raise failure

    monkeypatch.setattr(cli, "parse", lambda *_: argparse.Namespace(handle=handle))
    with pytest.raises(SystemExit) as ended:
        cli.main()
    return ended.value.code, capsys.readouterr().err


@pytest.mark.parametrize("error", [ListenError, NoOutputError])
def test_an_error_that_the_user_can_mend_is_one_line(error, capsys, monkeypatch):
    assert run_with(error("a cause"), capsys, monkeypatch) == (1, "spec-decode-exporter: a cause\n")


def test_untrusted_text_in_an_error_is_escaped(capsys, monkeypatch):
    found = run_with(ListenError("a\x1b[2Jb"), capsys, monkeypatch)
    assert found == (1, "spec-decode-exporter: a\\x1b[2Jb\n")
    error = ConfigError([Problem("a.yml:1", "x\x1b[2J", "is wrong")])
    assert run_with(error, capsys, monkeypatch) == (1, "a.yml:1: x\\x1b[2J is wrong\n")


def test_the_mistakes_of_a_configuration_are_a_line_each(capsys, monkeypatch):
    error = ConfigError([Problem("a.yml:1", "x", "is wrong"), Problem("a.yml:2", "y", "is missing")])
    assert run_with(error, capsys, monkeypatch) == (1, "a.yml:1: x is wrong\na.yml:2: y is missing\n")


def test_a_bug_is_printed_with_its_traceback_and_status_1():
    code = (
        "import sys, spec_decode_exporter.cli.main as cli\n"
        "def parse(*_): int('x')\n"
        "cli.parse = parse; cli.main()"
    )
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=False
    )
    assert found.returncode == 1
    assert found.stderr.startswith("Traceback (most recent call last):\n")
    assert "in parse" in found.stderr


@pytest.mark.parametrize(("text", "on"), [("true", True), ("1", True), ("false", False), ("", False)])
def test_a_switch_is_set_by_its_environment_variable(text, on):
    arguments = parse([], {"SPEC_DECODE_EXPORTER_WEB_ENABLE_LIFECYCLE": text})
    assert arguments.web_enable_lifecycle is on


def test_the_version_is_printed_without_a_command():
    found = run("--version")
    assert found.returncode == 0
    assert found.stdout.startswith("spec-decode-exporter ")


def test_a_switch_that_is_neither_true_nor_false_is_rejected():
    with pytest.raises(UsageError, match="WEB_ENABLE_LIFECYCLE is 'maybe'"):
        parse([], {"SPEC_DECODE_EXPORTER_WEB_ENABLE_LIFECYCLE": "maybe"})


MAX_FLAGS = 55
"""Limit of distinct flags. Before adding one, remove another: a key of the configuration needs no flag."""


def test_all_commands_have_at_most_so_many_distinct_flags():
    flags = {
        action.option_strings[0]
        for name in COMMANDS
        for action in command_parser(name)._actions
        if action.option_strings
    } - {"-h", "--version"}
    assert len(flags) <= MAX_FLAGS, f"{len(flags)} flags, {MAX_FLAGS} at most: remove one"


@pytest.mark.parametrize(
    ("words", "flag"),
    [
        (["observe", "--duration", "5m"], "--for"),
        (["observe", "--foramt=json"], "--format"),
        (["--web.listen-adress", ":1"], "--web.listen-address"),
        (["run", "--interval=2s"], "--poll.interval"),
    ],
)
def test_an_unknown_flag_is_reported_with_a_similar_one(words, flag, capsys):
    with pytest.raises(SystemExit) as ended:
        parse(words, {})
    assert ended.value.code == 2
    assert f"; did you mean {flag}?" in capsys.readouterr().err
