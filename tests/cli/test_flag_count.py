"""Number of flags over all commands."""

from __future__ import annotations

from typing import Final

from docs.generate.command_line import command_parser
from spec_decode_exporter.cli.main import COMMANDS

MAX_FLAGS: Final = 55
"""Limit of distinct flags. Before adding one, remove another: a key of the configuration needs no flag."""


def test_all_commands_have_at_most_so_many_distinct_flags():
    flags = {
        action.option_strings[0]
        for name in COMMANDS
        for action in command_parser(name)._actions
        if action.option_strings
    } - {"-h", "--version"}
    assert len(flags) <= MAX_FLAGS, f"{len(flags)} flags, {MAX_FLAGS} at most: remove one"
