import argparse
import subprocess
import sys
from unittest.mock import Mock

import pytest

from docs.generate.command_line import command_parser
from spec_decode_exporter.cli import main as cli
from spec_decode_exporter.cli.main import COMMANDS, parse
from spec_decode_exporter.cli.process import NoOutputError
from spec_decode_exporter.config.mistakes import ConfigError, Problem
from spec_decode_exporter.core.user_errors import UsageError
from spec_decode_exporter.web.server import ListenError

UNUSED = ("bcrypt", "markdown_it", "spec_decode_exporter.simulator.simulated_server")


def test_run_imports_nothing_that_a_sidecar_does_not_need():
    code = "import sys, spec_decode_exporter.cli.main as cli; cli.parse(['run'], {}); print(*sys.modules)"
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert set(found.stdout.split()).isdisjoint(UNUSED)


@pytest.mark.parametrize(
    ("failure", "lines"),
    [
        (ListenError("a cause"), "spec-decode-exporter: a cause\n"),
        (NoOutputError("a cause"), "spec-decode-exporter: a cause\n"),
        (ListenError("a\x1b[2Jb"), "spec-decode-exporter: a\\x1b[2Jb\n"),
        (ConfigError([Problem("a:1", "x\x1b[2J", "is wrong")]), "a:1: x\\x1b[2J is wrong\n"),
        (ConfigError([Problem("a:1", "x", "is wrong"), Problem("a:2", "y", "is missing")]), "a:1: x is wrong\na:2: y is missing\n"),
    ],
)  # fmt: skip
def test_an_error_that_the_user_can_mend_is_a_line_each_with_untrusted_text_escaped(
    program, monkeypatch, failure, lines
):
    handle = Mock(side_effect=failure)
    monkeypatch.setattr(cli, "parse", lambda *_: argparse.Namespace(handle=handle))
    assert program() == (1, "", lines)


@pytest.mark.parametrize(
    ("words", "begin"),
    [
        (["help"], "usage: spec-decode-exporter [-h]"),
        (["help", "plan"], "usage: spec-decode-exporter plan [-h]"),
        (["-V"], "spec-decode-exporter "),
        (["observe", "-V"], "spec-decode-exporter "),
    ],
)
def test_help_is_a_command_too_and_the_version_has_a_short_flag(program, words, begin):
    status, out, error = program(*words)
    assert (status, error) == (0, "")
    assert out.startswith(begin)


@pytest.mark.parametrize(("text", "on"), [("true", True), ("1", True), ("false", False), ("", False)])
def test_a_switch_is_set_by_its_environment_variable(text, on):
    arguments = parse([], {"SPEC_DECODE_EXPORTER_WEB_ENABLE_LIFECYCLE": text})
    assert arguments.web_enable_lifecycle is on


def test_a_switch_that_is_neither_true_nor_false_is_rejected():
    with pytest.raises(UsageError, match="WEB_ENABLE_LIFECYCLE is 'maybe'"):
        parse([], {"SPEC_DECODE_EXPORTER_WEB_ENABLE_LIFECYCLE": "maybe"})


MAX_FLAGS = 58
"""Limit of distinct flags. Before adding one, remove another: a key of the configuration needs no flag.

Of these, 24 are of ``plan``, which has no configuration: its flags say what it knows of a server.
"""


def test_all_commands_have_at_most_so_many_distinct_flags():
    flags = {
        action.option_strings[0]
        for name in COMMANDS
        for action in command_parser(name)._actions
        if action.option_strings
    } - {"-h", "--version"}
    assert len(flags) <= MAX_FLAGS, f"{len(flags)} flags, {MAX_FLAGS} at most: remove one"
