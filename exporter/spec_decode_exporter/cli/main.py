"""Command line: the table of the commands, and the report of errors."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Final, Protocol, cast

from spec_decode_exporter.cli.flags import ENVIRONMENT_PREFIX
from spec_decode_exporter.config.mistakes import ConfigError
from spec_decode_exporter.core.user_errors import USAGE_STATUS, ExporterError, UsageError
from spec_decode_exporter.core.version import REVISION, __version__


@dataclass(frozen=True, slots=True)
class Command:
    """A command of the program."""

    module: str
    """In ``spec_decode_exporter.cli``; imported on use, so that a sidecar does not load a simulator."""
    text: str
    """Its purpose, for the list of the commands."""


COMMANDS: Final = {
    "run": Command("run", "monitor servers and serve their metrics"),
    "check-config": Command("check_config", "check a configuration file and list every mistake"),
    "observe": Command("observe", "monitor servers for a limited time and report whether speculation pays"),
    "recommend": Command("recommend", "print the setting of speculation to paste, by load, and why"),
    "simulate": Command("simulate", "serve a simulated vLLM, for demos, drills and tests"),
    "plan": Command("plan", "calculate whether a draft fits beside its target, and when it pays"),
}


def main() -> None:
    """Run the command line; the exit status is that of the command, 1 after an error, 2 after a wrong one."""
    try:
        arguments = parse(sys.argv[1:], os.environ)
        sys.exit(arguments.handle(arguments))
    except ConfigError as error:
        print(error, file=sys.stderr)  # noqa: T201 - one mistake a line, each with its place
        sys.exit(1)
    except ExporterError as error:
        print(f"spec-decode-exporter: {error}", file=sys.stderr)  # noqa: T201
        sys.exit(USAGE_STATUS if isinstance(error, UsageError) else 1)
    except KeyboardInterrupt:
        sys.exit(130)


def parse(words: Sequence[str], environ: Mapping[str, str]) -> argparse.Namespace:
    """Parse the command line; the environment variable of a flag is its default."""
    first = words[0] if words else "run"
    if first in ("-h", "--help", "--version"):
        return build_parser(environ).parse_args(list(words))
    if first.startswith("-"):
        words = ["run", *words]
    elif first not in COMMANDS:
        raise UsageError(f"unknown command {first!r}; the commands are {', '.join(COMMANDS)}")
    words = words or ["run"]
    return build_parser(environ, words[0]).parse_args(list(words))


def build_parser(environ: Mapping[str, str], command: str | None = None) -> argparse.ArgumentParser:
    """Return the parser of the program, with the arguments of one ``command``."""
    parser = argparse.ArgumentParser(
        prog="spec-decode-exporter",
        description="Prometheus exporter that evaluates vLLM's speculative decoding over sliding windows.",
        epilog="The default command is run. Each of its flags is also an environment variable: "
        f"--web.listen-address is {ENVIRONMENT_PREFIX}WEB_LISTEN_ADDRESS, with commas between values.",
    )
    version = f"%(prog)s {__version__} (revision {REVISION}, Python {sys.version.split()[0]})"
    parser.add_argument("--version", action="version", version=version)
    subparsers = parser.add_subparsers(required=True, metavar=f"{{{','.join(COMMANDS)}}}")
    for name, entry in COMMANDS.items():
        # Not capitalize(): names such as vLLM keep their letters.
        sentence = f"{entry.text[0].upper()}{entry.text[1:]}."
        subparser = subparsers.add_parser(name, help=entry.text, description=sentence)
        subparser.add_argument("--version", action="version", version=version)
        if name == command:
            _fill(subparser, entry, environ)
    return parser


class CommandModule(Protocol):
    """Interface of a command's module."""

    def add_arguments(self, parser: argparse.ArgumentParser, environ: Mapping[str, str]) -> None:
        """Add the command's arguments; ``environ`` has the values of flags that are not set."""

    def handle(self, arguments: argparse.Namespace) -> int:
        """Execute the command; return the exit status."""


def _fill(parser: argparse.ArgumentParser, command: Command, environ: Mapping[str, str]) -> None:
    module = cast("CommandModule", import_module(f"spec_decode_exporter.cli.{command.module}"))
    module.add_arguments(parser, environ)
    parser.set_defaults(handle=module.handle)


if __name__ == "__main__":
    main()
