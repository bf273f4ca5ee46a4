"""Output through a thread: a reader that does not read delays neither the event loop nor a signal."""

from __future__ import annotations

import os
import select
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Self, TextIO, cast

import structlog

MAX_WAITING: Final = 1_000_000
"""Characters that wait for the thread; more are dropped."""

FLUSH_SECONDS: Final = 1.0
"""Seconds that the last lines may take at the end."""

_log = structlog.get_logger()


class BackgroundStream:
    """Text stream for ``sys.stdout`` or ``sys.stderr`` whose thread writes a bounded queue.

    Once the queue is full, all lines are dropped until the reader has read. Then a log line has their number.
    """

    def __init__(self, write: Callable[[str], None], limit: int = MAX_WAITING) -> None:
        """Write with ``write``, which may block and must not raise. At most ``limit`` characters wait."""
        self.dropped = 0
        """Lines dropped so far."""
        self._write = write
        self._limit = limit
        self._waiting: list[str] = []
        self._size = 0
        self._unreported = 0
        self._is_writing = False
        self._changed = threading.Condition()
        threading.Thread(target=self._run, name="output", daemon=True).start()

    def write(self, text: str) -> int:
        """Queue the text, or drop it if the queue is full."""
        with self._changed:
            if self._unreported or self._size + len(text) > self._limit:
                lines = text.count("\n")
                self.dropped += lines
                self._unreported += lines
            else:
                self._waiting.append(text)
                self._size += len(text)
                self._changed.notify_all()
        return len(text)

    def flush(self) -> None:
        """Do nothing: the thread writes at once."""

    def isatty(self) -> bool:
        """Return that this is no terminal."""
        return False

    def close(self, seconds: float) -> None:
        """Wait until all text is written, at most ``seconds``."""
        with self._changed:
            self._changed.wait_for(lambda: not self._waiting and not self._is_writing, seconds)

    def _run(self) -> None:
        while True:
            text, dropped = self._take()
            if dropped:
                _log.warning("log_lines_dropped", lines=dropped)
            self._write(text)

    def _take(self) -> tuple[str, int]:
        """Wait for text; return it, and the number of lines dropped since."""
        with self._changed:
            self._is_writing = False
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._waiting)
            text, dropped = "".join(self._waiting), self._unreported
            self._waiting, self._size, self._unreported, self._is_writing = [], 0, 0, True
        return text, dropped


class BackgroundOutput:
    """Replaces standard output and standard error by streams in the background."""

    def __init__(self) -> None:
        self._former = sys.stdout, sys.stderr
        self._streams: list[BackgroundStream] = []

    @property
    def dropped(self) -> int:
        """Lines dropped so far."""
        return sum(stream.dropped for stream in self._streams)

    def flush(self) -> None:
        """Wait until all text is written, at most ``FLUSH_SECONDS`` for each stream."""
        for stream in self._streams:
            stream.close(FLUSH_SECONDS)

    def __enter__(self) -> Self:
        sys.stdout, sys.stderr = (self._in_background(stream) for stream in self._former)
        return self

    def __exit__(self, *_: object) -> None:
        self.flush()
        sys.stdout, sys.stderr = self._former

    def _in_background(self, stream: TextIO) -> TextIO:
        """Return a stream in the background; one that is closed or is no file stays."""
        with suppress(OSError, ValueError, AttributeError):  # Python has None for a closed one
            background = BackgroundStream(to_descriptor(stream.fileno()))
            self._streams.append(background)
            return cast("TextIO", background)
        return stream


def to_descriptor(descriptor: int) -> Callable[[str], None]:
    """Return a function that writes text to a file descriptor, and ignores a full disk or a closed pipe."""

    def write(text: str) -> None:
        left = memoryview(text.encode(errors="backslashreplace"))
        with suppress(OSError):
            while left:
                try:
                    left = left[os.write(descriptor, left) :]
                except BlockingIOError:  # another process made the pipe non-blocking
                    select.select([], [descriptor], [])

    return write
