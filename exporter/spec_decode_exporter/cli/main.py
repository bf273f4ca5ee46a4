"""Command line: the table of the commands, and the report of errors."""

from __future__ import annotations

import argparse
import difflib
import gc
import os
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Final, NoReturn

from spec_decode_exporter.cli.flags import ENVIRONMENT_PREFIX, flag_problem
from spec_decode_exporter.config.mistakes import ConfigError, near_name
from spec_decode_exporter.config.source import FLAGS
from spec_decode_exporter.core.log import escaped
from spec_decode_exporter.core.user_errors import USAGE_STATUS, ExporterError, UsageError
from spec_decode_exporter.core.version import REVISION, __version__

COMMANDS: Final = {
    "run": "monitor servers and serve their metrics",
    "check-config": "check a configuration file and list every mistake",
    "observe": "monitor servers for a limited time and report whether speculation pays",
    "recommend": "print the recommended --speculative-config, with reasons",
    "simulate": "serve a simulated vLLM, for demos, drills and tests",
    "plan": "calculate whether a draft model fits in GPU memory with its target, and when it pays",
}
"""Each command, and its purpose.

Its module in ``cli`` has the functions ``add_arguments`` and ``handle``, and perhaps ``DESCRIPTION`` and ``EPILOG``.
"""


def main() -> None:
    """Run the command line; the exit status is that of the command, 1 after an error, 2 after a wrong one."""
    os._exit(_status())  # sys.exit would wait for the thread of a DNS look-up that hangs


def _status() -> int:
    try:
        arguments = parse(sys.argv[1:], os.environ)
        return int(arguments.handle(arguments))
    except ConfigError as error:
        print(escaped("\n".join(map(flag_problem, error.problems))), file=sys.stderr)  # noqa: T201
        return USAGE_STATUS if all(each.place == FLAGS for each in error.problems) else 1
    except ExporterError as error:
        print(f"spec-decode-exporter: {escaped(str(error))}", file=sys.stderr)  # noqa: T201
        return USAGE_STATUS if isinstance(error, UsageError) else 1
    except KeyboardInterrupt:
        return 130


def parse(words: Sequence[str], environ: Mapping[str, str]) -> argparse.Namespace:
    """Parse the command line; the environment variable of a flag is its default."""
    if words[:1] == ["help"]:
        words = [*words[1:], "--help"]
    first = words[0] if words else "run"
    if first in ("-h", "--help", "-V", "--version"):
        return build_parser(environ).parse_args(list(words))
    if first.startswith("-") or not words:
        words = ["run", *words]
    elif first not in COMMANDS:
        raise UsageError(f"{first!r} {near_name(first, [*COMMANDS], 'command')}")
    parser = build_parser(environ, words[0])
    arguments, unknown = parser.parse_known_args(list(words))
    if unknown:
        names = (word.partition("=")[0] for word in unknown)
        similar = [flag for name in names for flag in difflib.get_close_matches(name, arguments.flags, 1)]
        hints = "".join(f"; did you mean {flag}?" for flag in similar)
        help_ = f"(see {parser.prog} {words[0]} --help)"
        raise UsageError(f"unrecognized arguments: {' '.join(unknown)}{hints} {help_}")
    return arguments


class _Parser(argparse.ArgumentParser):
    """Parser whose errors are one line, without the usage of all flags."""

    def error(self, message: str) -> NoReturn:
        """Raise UsageError."""
        raise UsageError(f"{message} (see {self.prog} --help)")


def build_parser(environ: Mapping[str, str], command: str | None = None) -> argparse.ArgumentParser:
    """Return the parser of the program, with the arguments of one ``command``."""
    parser = _Parser(
        prog="spec-decode-exporter",
        description="Prometheus exporter that evaluates vLLM's speculative decoding over sliding windows.",
        epilog="The default command is run. Each of its flags is also an environment variable: "
        f"--web.listen-address is {ENVIRONMENT_PREFIX}WEB_LISTEN_ADDRESS, with commas between values.",
    )
    version = f"%(prog)s {__version__} (revision {REVISION}, Python {sys.version.split()[0]})"
    parser.add_argument("--version", "-V", action="version", version=version)
    subparsers = parser.add_subparsers(required=True, metavar=f"{{{','.join(COMMANDS)}}}")
    for name, text in COMMANDS.items():
        # Not capitalize(): names such as vLLM keep their letters.
        subparser = subparsers.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.")
        subparser.add_argument("--version", "-V", action="version", version=version)
        if name == command:
            gc.disable()  # the objects of modules stay: to look for garbage takes a tenth of the start
            # Imported on use: a sidecar does not load a simulator.
            module = import_module(f"spec_decode_exporter.cli.{name.replace('-', '_')}")
            gc.enable()
            subparser.formatter_class = argparse.RawDescriptionHelpFormatter
            subparser.description = getattr(module, "DESCRIPTION", subparser.description)
            subparser.epilog = getattr(module, "EPILOG", None)
            module.add_arguments(subparser, environ)
            known = [*subparser._option_string_actions]  # noqa: SLF001 - argparse has no public list
            subparser.set_defaults(handle=module.handle, flags=known)
    return parser


if __name__ == "__main__":
    main()
