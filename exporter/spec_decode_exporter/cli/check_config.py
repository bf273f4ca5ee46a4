"""Command ``spec-decode-exporter check-config``: check a configuration file and list every mistake."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from spec_decode_exporter.app.reload import config_warnings, load_config
from spec_decode_exporter.cli.process import require_stdout, write_stdout
from spec_decode_exporter.core.number_formats import plural
from spec_decode_exporter.web.security import read_web_config


def add_arguments(parser: argparse.ArgumentParser, environ: Mapping[str, str]) -> None:
    """Add the arguments of the command."""
    del environ  # no flag of this command has a variable
    parser.add_argument("file", metavar="FILE", type=Path, help="the file to check")
    parser.add_argument("--web", action="store_true", help="FILE is one for --web.config.file")


def handle(arguments: argparse.Namespace) -> int:
    """Print that the file is valid, and its warnings; or raise ConfigError with every mistake."""
    require_stdout("result")
    if arguments.web:
        read_web_config(arguments.file)
        write_stdout(f"{arguments.file}: valid\n")
        return 0
    config = load_config(arguments.file, environ=os.environ)
    discovered = " and those of discovery" if config.discovery.ways else ""
    for key, reason in config_warnings(config):
        print(f"{arguments.file}: warning: {key}: {reason}", file=sys.stderr)  # noqa: T201
    write_stdout(f"{arguments.file}: valid, {plural(len(config.targets), 'target')}{discovered}\n")
    return 0
