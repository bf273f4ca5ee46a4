"""The process of a command: its event loop, signals, standard output and limit of open files."""

from __future__ import annotations

import asyncio
import io
import os
import queue
import resource
import select
import signal
import sys
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from math import inf
from typing import Any, Final, TypeVar

import structlog

from spec_decode_exporter.core.user_errors import ExporterError

ONE_INTERRUPT: Final = 0.5
"""Seconds within which signals are one interrupt."""
MAX_WAITING: Final = 10_000
"""Texts that wait for the thread of an output; more are dropped."""
MAX_TEXT: Final = 20_000
"""Characters of one text, such as a traceback or the report at the start."""
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
        for stream in streams:
            stream.drain()
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
    """Text stream whose thread writes a bounded queue: a reader that does not read delays nothing.

    What does not fit is dropped. Once the reader reads again, a log line has the number of those lines.
    """

    def __init__(self, write: Callable[[str], None], limit: int = MAX_WAITING) -> None:
        """Write with ``write``, which may block and must not raise. At most ``limit`` texts wait."""
        super().__init__()
        self.lines_dropped = self._unreported = 0
        self._write, self._waiting = write, queue.Queue[str](limit)
        threading.Thread(target=self._run, name="output", daemon=True).start()

    def write(self, text: str, /) -> int:
        """Queue the text, or drop it if the queue is full."""
        try:
            self._waiting.put_nowait(text[:MAX_TEXT])
        except queue.Full:
            self.lines_dropped += text.count("\n")
            self._unreported += text.count("\n")
        return len(text)

    def drain(self, seconds: float = FLUSH_SECONDS) -> None:
        """Wait until all text is written, at most ``seconds``."""
        with self._waiting.all_tasks_done:
            self._waiting.all_tasks_done.wait_for(lambda: not self._waiting.unfinished_tasks, seconds)

    def _run(self) -> None:
        while True:
            self._write(self._waiting.get())
            dropped, self._unreported = self._unreported, 0
            if dropped:
                _log.warning("log_lines_dropped", lines=dropped)
            self._waiting.task_done()


@contextmanager
def background_output() -> Iterator[Sequence[BackgroundStream]]:
    """Replace standard output and standard error within the context; all text is written at its end."""
    former, streams = (sys.stdout, sys.stderr), list[BackgroundStream]()
    for name in ("stdout", "stderr"):
        with suppress(OSError, ValueError, AttributeError):  # closed, or no file: it stays
            streams.append(BackgroundStream(partial(_write_to, getattr(sys, name).fileno())))
            setattr(sys, name, streams[-1])
    try:
        yield streams
    finally:
        for stream in streams:
            stream.drain()
        sys.stdout, sys.stderr = former


def _write_to(descriptor: int, text: str) -> None:
    """Write to a file; ignore a full disk and a closed pipe."""
    left = memoryview(text.encode(errors="backslashreplace"))
    with suppress(OSError):
        while left:
            select.select([], [descriptor], [])  # another process may have made a pipe non-blocking
            left = left[os.write(descriptor, left) :]
