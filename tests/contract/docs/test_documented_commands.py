"""Every command line of README and docs/guide is valid, and tests/e2e/test_documented_commands.py runs it."""

import importlib.util

from tests.every import every

from .documented_commands import Way, documented
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
