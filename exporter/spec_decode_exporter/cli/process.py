"""The process of a command: its event loop, signals, standard output and limit of open files."""

from __future__ import annotations

import asyncio
import io
import os
import resource
import select
import signal
import sys
from contextlib import suppress
from typing import Final

from spec_decode_exporter.core.user_errors import ExporterError

PATIENCE: Final = 0.1  # seconds for which a log line waits for a reader that does not read


class NoOutputError(ExporterError):
    """There is no standard output, or it cannot be written."""


def stop_on_signals(stop: asyncio.Event) -> None:
    """Set ``stop`` on SIGINT or SIGTERM; a second SIGINT cancels the present task."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()

    def interrupt() -> None:
        if stop.is_set() and task is not None:
            task.cancel()
        stop.set()

    loop.add_signal_handler(signal.SIGTERM, stop.set)
    loop.add_signal_handler(signal.SIGINT, interrupt)


def raise_file_limit() -> None:
    """Raise the soft limit of open files to the hard limit, as programs in Go do.

    The soft limit is often 1,024 for programs that use ``select``. This one does not, and a thousand targets
    need more.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # The hard limit of macOS is higher than the system allows.
    with suppress(OSError, ValueError):
        if soft != hard:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def require_stdout(noun: str) -> None:
    """Check that there is a standard output for ``noun``, and let it accept any character.

    Raises:
        NoOutputError: It is closed, as by ``>&-`` of a shell.
    """
    if sys.stdout is None:
        raise NoOutputError(f"there is no standard output to write the {noun} to")
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def write_stdout(text: str) -> None:
    """Write a text; return normally if the reader has gone.

    Raises:
        NoOutputError: It cannot be written, as to a full disk.
    """
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as error:
        # Otherwise the interpreter writes the rest at its end, and reports the failure again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            raise NoOutputError(f"standard output cannot be written: {error.strerror or error}") from None


class DroppingStream(io.TextIOBase):
    """Text stream that drops what cannot be written: a terminal that stands still delays no poll."""

    def __init__(self, descriptor: int) -> None:
        """Write to a file descriptor."""
        super().__init__()
        self._descriptor, self._is_read = descriptor, True
        self.lines_dropped = 0

    def write(self, text: str, /) -> int:
        """Write the text in pieces that a pipe takes at once, or drop it; errors of the system are ignored."""
        content = text.encode(errors="backslashreplace")
        with suppress(OSError):
            for begin in range(0, len(content), select.PIPE_BUF):
                ready = select.select([], [self._descriptor], [], PATIENCE if self._is_read else 0.0)[1]
                self._is_read = bool(ready)
                if not ready:
                    self.lines_dropped += text.count("\n")
                    break
                os.write(self._descriptor, content[begin : begin + select.PIPE_BUF])
        return len(text)


def log_without_waiting() -> DroppingStream | None:
    """Let the log wait for no reader: replace standard error, and return it; None if it is no file."""
    with suppress(OSError, ValueError):
        is_closed = sys.stderr is None  # as by ``2>&-`` of a shell
        descriptor = os.open(os.devnull, os.O_WRONLY) if is_closed else sys.stderr.fileno()
        sys.stderr = stream = DroppingStream(descriptor)
        return stream
    return None
