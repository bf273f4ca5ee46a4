"""Every command line of README and docs/guide is valid, and tests/e2e/test_documented_commands.py runs it."""

from __future__ import annotations

import importlib.util

import pytest

from tests.every import every

from .documented_commands import PROGRAM, Documented, Way, command_lines, documented
from .documents import wrong_command

COMMANDS = documented()


def test_most_documented_commands_are_valid_and_are_run():
    assert len(COMMANDS) > 30
    unknown = [str(command) for command in COMMANDS if command.way is None]
    assert unknown == [], "add a way to WAYS in documented_commands.py"
    assert sum(command.way is Way.PARSED for command in COMMANDS) < len(COMMANDS) / 4


@every(COMMANDS)
def test_every_documented_command_is_valid(command):
    if command.line.startswith("python"):
        assert importlib.util.find_spec(command.words[2]) is not None
    else:
        assert wrong_command(command.line) is None


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (
            "```console\n$ spec-decode-exporter observe a \\\n  b > c\n$ # d\n```",
            ["spec-decode-exporter observe a b"],
        ),
        ("1. a\n   ```sh\n   x; spec-decode-exporter run | y\n   ```", ["spec-decode-exporter run"]),
        ("```sh\nA=b spec-decode-exporter && c\n```", ["spec-decode-exporter"]),
        ("    $ spec-decode-exporter plan\n", ["spec-decode-exporter plan"]),
        ("```sh\npython -m benchmarks.page  # e\n```", ["python -m benchmarks.page"]),
        ("```yaml\nspec-decode-exporter run\n```\n`spec-decode-exporter run`", []),
    ],
)
def test_command_lines_are_found(text, lines):
    assert command_lines(text) == lines


@pytest.mark.parametrize("words", ["dance", "observes", "--version"])
def test_a_command_that_nobody_classified_has_no_way(words):
    assert Documented("a.md", f"{PROGRAM} {words}").way is None
