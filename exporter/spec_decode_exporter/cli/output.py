"""Standard output of the commands that write a report."""

from __future__ import annotations

import os
import sys
from io import TextIOWrapper

from spec_decode_exporter.core.user_errors import ExporterError


class NoOutputError(ExporterError):
    """There is no standard output."""


def require_stdout(noun: str) -> None:
    """Check that there is a standard output for ``noun``, and let it accept any character.

    Raises:
        NoOutputError: It is closed, as by ``>&-`` of a shell.
    """
    if sys.stdout is None:
        raise NoOutputError(f"there is no standard output to write the {noun} to")
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def write_stdout(text: str) -> None:
    """Write a text; return normally if the reader has gone."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        # Otherwise the interpreter reports the closed pipe at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
