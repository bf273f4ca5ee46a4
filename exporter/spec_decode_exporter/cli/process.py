"""The process of a command: its event loop, signals, standard output and limit of open files."""

from __future__ import annotations

import asyncio
import io
import os
import resource
import select
import signal
import sys
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from math import inf
from typing import Any, Final, TextIO, TypeVar

import structlog

from spec_decode_exporter.core.user_errors import ExporterError

ONE_INTERRUPT: Final = 0.5
"""Seconds within which signals are one interrupt."""
MAX_WAITING: Final = 1_000_000
"""Characters that wait for the thread of an output; more are dropped."""
FLUSH_SECONDS: Final = 1.0
"""Seconds that the last lines may take at the end."""
STOP_SECONDS: Final = 10.0
"""Seconds from a signal to the end: three for open requests, and some to save the state."""

Result = TypeVar("Result")

_log = structlog.get_logger()


class NoOutputError(ExporterError):
    """There is no standard output, or it cannot be written."""


class DetachedThreadPool(ThreadPoolExecutor):
    """Threads that do not delay the end of the program: a DNS look-up may hang for minutes."""

    def shutdown(self, wait: bool = False, *, cancel_futures: bool = True) -> None:  # noqa: FBT001, FBT002
        """Cancel waiting work and return, whatever ``wait`` is."""
        del wait
        super().shutdown(wait=False, cancel_futures=cancel_futures)


def run_loop(coroutine: Coroutine[Any, Any, Result]) -> Result:
    """Run a coroutine in an event loop of its own, and return its result."""

    async def run() -> Result:
        asyncio.get_running_loop().set_default_executor(DetachedThreadPool())
        return await coroutine

    return asyncio.run(run())


def stop_on_signals(stop: asyncio.Event) -> None:
    """Set ``stop`` on SIGINT or SIGTERM; another signal cancels the present task.

    Signals within ``ONE_INTERRUPT`` are one: ``timeout`` signals the process and its group.
    """
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    first = -inf

    def interrupt() -> None:
        nonlocal first
        if loop.time() < first + ONE_INTERRUPT:
            return
        if stop.is_set() and task is not None:
            task.cancel()
        first = loop.time()
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, interrupt)


def end_soon(streams: Iterable[BackgroundStream]) -> None:
    """End the process after ``STOP_SECONDS``, whatever it waits for then."""

    def end() -> None:
        _log.error("stopped_late", seconds=STOP_SECONDS)
        drain(streams)
        os._exit(1)

    timer = threading.Timer(STOP_SECONDS, end)
    timer.daemon = True
    timer.start()


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


class BackgroundStream(io.TextIOBase):
    """Text stream whose thread writes a bounded queue.

    A reader that does not read delays neither the event loop nor a signal. Once the queue is full, all lines
    are dropped until the reader has read. Then a log line has their number.
    """

    def __init__(self, write: Callable[[str], None], limit: int = MAX_WAITING) -> None:
        """Write with ``write``, which may block and must not raise. At most ``limit`` characters wait."""
        super().__init__()
        self.lines_dropped = 0
        self._write, self._limit = write, limit
        self._waiting: list[str] = []
        self._size = self._unreported = 0
        self._is_writing = False
        self._changed = threading.Condition()
        threading.Thread(target=self._run, name="output", daemon=True).start()

    def write(self, text: str, /) -> int:
        """Queue the text, or drop it if the queue is full."""
        with self._changed:
            if self._unreported or self._size + len(text) > self._limit:
                lines = text.count("\n")
                self.lines_dropped += lines
                self._unreported += lines
            else:
                self._waiting.append(text)
                self._size += len(text)
                self._changed.notify_all()
        return len(text)

    def drain(self, seconds: float) -> None:
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


@contextmanager
def background_output() -> Iterator[Sequence[BackgroundStream]]:
    """Replace standard output and standard error within the context; all text is written at its end."""
    former = sys.stdout, sys.stderr
    opened = [_in_background(stream) for stream in former]
    streams = [stream for stream in opened if isinstance(stream, BackgroundStream)]
    sys.stdout, sys.stderr = opened
    try:
        yield streams
    finally:
        drain(streams)
        sys.stdout, sys.stderr = former


def drain(streams: Iterable[BackgroundStream]) -> None:
    """Wait until all text is written, at most ``FLUSH_SECONDS`` for each stream."""
    for stream in streams:
        stream.drain(FLUSH_SECONDS)


def _in_background(stream: TextIO) -> TextIO | BackgroundStream:
    """Return a stream in the background; one that is closed or is no file stays."""
    with suppress(OSError, ValueError, AttributeError):  # Python has None for a closed one
        return BackgroundStream(to_descriptor(stream.fileno()))
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
