"""Errors that a user can mend: the command line prints their text, without a traceback."""

from __future__ import annotations


class ExporterError(Exception):
    """Root of these errors; the text has the cause and, where there is one, the remedy.

    Any other exception that ends a command is a bug and shows its traceback.
    """


class UsageError(ExporterError):
    """The flags contradict each other, or cannot be used."""
