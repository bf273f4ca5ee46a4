"""Command ``spec-decode-exporter middleware``: print the file with which vLLM reports its requests."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from importlib.resources import files


def add_arguments(parser: argparse.ArgumentParser, environ: Mapping[str, str]) -> None:
    """Add no arguments: the file takes its settings from the environment of vLLM."""
    del parser, environ


def handle(arguments: argparse.Namespace) -> int:
    """Print the file."""
    del arguments
    sys.stdout.write(
        files("spec_decode_exporter.vllm_middleware")
        .joinpath("spec_decode_requests.py")
        .read_text(encoding="utf-8")
    )
    return 0
