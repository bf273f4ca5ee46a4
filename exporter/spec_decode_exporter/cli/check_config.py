"""The command ``spec-decode-exporter check-config``: check a configuration file and list every mistake."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from pathlib import Path

from spec_decode_exporter.app.load_config import load_config
from spec_decode_exporter.core.number_formats import plural
from spec_decode_exporter.web.security.load_web_config import read_web_config


def add_arguments(parser: argparse.ArgumentParser, environ: Mapping[str, str]) -> None:
    """Add the arguments of the command to its ``parser``."""
    del environ  # what is checked is a file, whoever asks
    parser.add_argument("file", metavar="FILE", type=Path)
    parser.add_argument("--web", action="store_true", help="FILE is one for --web.config.file")


def handle(arguments: argparse.Namespace) -> int:
    """Say that the file is good; or raise ConfigError, which names every mistake."""
    if arguments.web:
        read_web_config(arguments.file)
        print(f"{arguments.file}: good")  # noqa: T201
        return 0
    config = load_config(arguments.file, environ=os.environ)
    targets = plural(len(config.targets), "target")
    found = " and what discovery finds" if config.discovery.ways else ""
    print(f"{arguments.file}: good, watches {targets}{found}")  # noqa: T201
    return 0
