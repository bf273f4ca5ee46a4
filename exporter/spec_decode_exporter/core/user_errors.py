"""Errors that a user can mend: the command line prints their text, without a traceback."""

from __future__ import annotations

from typing import Final

USAGE_STATUS: Final = 2
"""Exit status of a wrong command line, as of argparse; no command gives it another meaning."""


class ExporterError(Exception):
    """Root of these errors; the text has the cause and, where there is one, the remedy.

    Any other exception that ends a command is a bug and shows its traceback.
    """


class UsageError(ExporterError):
    """The flags contradict each other, or cannot be used."""
