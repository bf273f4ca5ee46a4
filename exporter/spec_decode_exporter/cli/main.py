"""The command line: ONE table of the commands, and how what goes wrong is told."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Final, NoReturn, Protocol, cast

from spec_decode_exporter.cli.flags import ENVIRONMENT_PREFIX, UsageError
from spec_decode_exporter.config.errors import ConfigError
from spec_decode_exporter.core.version import REVISION, __version__
from spec_decode_exporter.web.server.listen import ListenError


@dataclass(frozen=True, slots=True)
class Command:
    """A command of the program."""

    module: str
    """In ``spec_decode_exporter.cli``; imported on use: a sidecar need not load a simulator."""
    text: str
    """What it does, for the list of the commands."""


class CommandModule(Protocol):
    """What the module of a command has."""

    def add_arguments(self, parser: argparse.ArgumentParser, environ: Mapping[str, str]) -> None:
        """Add the command's arguments; ``environ`` has the values of flags that are not given."""

    def handle(self, arguments: argparse.Namespace) -> int:
        """Do it; return the exit status."""


COMMANDS: Final = {
    "run": Command("run", "watch servers and serve their metrics"),
    "check-config": Command("check_config", "check a configuration file and list every mistake"),
    "observe": Command("observe", "watch servers for a while and say whether speculation pays"),
    "simulate": Command("simulate", "serve a simulated vLLM, for demos, drills and tests"),
    "reference": Command("reference", "measure servers, and compare with it after a change"),
    "plan": Command("plan", "say whether a draft fits beside its target, and when it would pay"),
    "middleware": Command("middleware", "print the file with which vLLM reports its requests"),
}


class Parser(argparse.ArgumentParser):
    """Ends with 1 where the command line cannot be used: commands say more with the other numbers."""

    def error(self, message: str) -> NoReturn:
        """Say what is wrong, and end."""
        self.print_usage(sys.stderr)
        self.exit(1, f"{self.prog}: error: {message}\n")


def main() -> None:
    """Run the command line; the process' exit status is the command's, or 1 for what went wrong."""
    try:
        arguments = parse(sys.argv[1:], os.environ)
        sys.exit(arguments.handle(arguments))
    except ConfigError as error:
        print(error, file=sys.stderr)  # noqa: T201 - one mistake a line, each with its place
        sys.exit(1)
    except (ListenError, UsageError, ValueError) as error:
        print(f"spec-decode-exporter: {error}", file=sys.stderr)  # noqa: T201
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)


def parse(words: Sequence[str], environ: Mapping[str, str]) -> argparse.Namespace:
    """Read the command line; a flag that is not given is taken from its environment variable."""
    first = words[0] if words else "run"
    if first in ("-h", "--help", "--version"):
        return build_parser(environ).parse_args(list(words))
    if first.startswith("-"):
        words = ["run", *words]
    elif first not in COMMANDS:
        raise UsageError(f"there is no command {first!r}; the commands are {', '.join(COMMANDS)}")
    words = words or ["run"]
    return build_parser(environ, words[0]).parse_args(list(words))


def build_parser(environ: Mapping[str, str], asked: str | None = None) -> argparse.ArgumentParser:
    """Return the parser of the program, with the arguments of the command that is ``asked`` for."""
    parser = Parser(
        prog="spec-decode-exporter",
        description="Prometheus exporter that says what vLLM's speculative-decoding counters mean now.",
        epilog="Without a command, run. Each flag of it is also an environment variable: "
        f"--web.listen-address is {ENVIRONMENT_PREFIX}WEB_LISTEN_ADDRESS, with commas between values.",
    )
    version = f"%(prog)s {__version__} (revision {REVISION}, Python {sys.version.split()[0]})"
    parser.add_argument("--version", action="version", version=version)
    commands = parser.add_subparsers(required=True, metavar=f"{{{','.join(COMMANDS)}}}")
    for name, command in COMMANDS.items():
        # The rest keeps its letters, as in vLLM.
        sentence = f"{command.text[0].upper()}{command.text[1:]}."
        own = commands.add_parser(name, help=command.text, description=sentence)
        own.add_argument("--version", action="version", version=version)
        if name == asked:
            _fill(own, command, environ)
    return parser


def _fill(parser: argparse.ArgumentParser, command: Command, environ: Mapping[str, str]) -> None:
    module = cast("CommandModule", import_module(f"spec_decode_exporter.cli.{command.module}"))
    module.add_arguments(parser, environ)
    parser.set_defaults(handle=module.handle)


if __name__ == "__main__":
    main()
