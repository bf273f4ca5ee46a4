"""The exporter's own program in a process of its own that tells how long its event loop was blocked.

    python -m benchmarks.blocks run --target ...

A block is the time between two waits of the event loop: all callbacks of a turn. A timer of processor time
takes samples of the stack; a thread would take them where the program lets threads in, as when it sends.
For each line on its standard input the process prints a line of JSON: the longest blocks since the last one.
"""

from __future__ import annotations

import asyncio
import json
import selectors
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, Final, NamedTuple, Self

from spec_decode_exporter.cli import main, run
from spec_decode_exporter.cli.event_loop import Result

LONGEST: Final = 10
"""Number of blocks that are kept."""
SAMPLE_SECONDS: Final = 0.001
"""Seconds of processor time between two samples; the kernel may take them less often."""
FRAMES: Final = 4
"""Innermost functions of the exporter in a shown stack."""


class Block(NamedTuple):
    """A time in which the event loop did not wait."""

    seconds: float
    cpu: float
    """Seconds of processor time; the rest waited for other processes."""
    samples: int
    """Samples of the stack during the block."""
    stack: str
    """The most frequent of them."""
    share: float
    """Its share of the samples."""


class LongestBlocks:
    """Keeps the longest blocks of an event loop."""

    def __init__(self, now: Callable[[], float], processor: Callable[[], float]) -> None:
        """Measure by ``now``, and by ``processor`` of the loop's thread, in seconds."""
        self._now = now
        self._processor = processor
        self._began: tuple[float, float] | None = None
        self._stacks: Counter[str] = Counter()
        self._blocks: list[Block] = []

    def begin(self) -> None:
        """Note that the loop has waited."""
        self._began = self._now(), self._processor()

    def sample(self, stack: str) -> None:
        """Add a sample of the stack to the block under way."""
        if self._began is not None:
            self._stacks[stack] += 1

    def end(self) -> None:
        """Note that the loop is about to wait."""
        if self._began is None:
            return
        began, used = self._began
        seconds, self._began = self._now() - began, None
        stacks, self._stacks = self._stacks, Counter()
        if len(self._blocks) == LONGEST and seconds <= self._blocks[-1].seconds:
            return
        samples = stacks.total()
        stack, number = stacks.most_common(1)[0] if samples else ("", 0)
        block = Block(seconds, self._processor() - used, samples, stack, number / max(1, samples))
        self._blocks = sorted([*self._blocks, block], reverse=True)[:LONGEST]

    def taken(self) -> Sequence[Block]:
        """Return the longest blocks since the last call, the longest first."""
        blocks, self._blocks = self._blocks, []
        return blocks


class Blocked:
    """The process, for as long as the `with` block lasts."""

    def __init__(self, *arguments: str) -> None:
        command = [sys.executable, "-m", "benchmarks.blocks", *arguments]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self.pid = self._process.pid
        assert self._process.stdout
        self._process.stdout.readline()  # where its page is

    def longest(self) -> list[Block]:
        """Return the longest blocks since the last call."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return [Block(*fields) for fields in json.loads(self._process.stdout.readline())]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.communicate(timeout=20)


class _WatchedSelector(selectors.DefaultSelector):
    """Selector that notes when the loop waits."""

    def __init__(self, blocks: LongestBlocks) -> None:
        super().__init__()
        self._blocks = blocks

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self._blocks.end()
        try:
            return super().select(timeout)
        finally:
            self._blocks.begin()


def stack_of(frame: FrameType | None) -> str:
    """Return the innermost functions of the exporter in a stack, the caller first."""
    names: list[str] = []
    while frame is not None and len(names) < FRAMES:
        code = frame.f_code
        if "spec_decode_exporter" in code.co_filename:
            names.append(f"{Path(code.co_filename).stem}.{code.co_name}:{frame.f_lineno}")
        frame = frame.f_back
    return " > ".join(reversed(names)) or "event loop"


async def _answering(work: Coroutine[Any, Any, Result], blocks: LongestBlocks) -> Result:
    asyncio.get_running_loop().add_reader(sys.stdin, _tell, blocks)
    return await work


def _tell(blocks: LongestBlocks) -> None:
    if not sys.stdin.readline():
        asyncio.get_running_loop().remove_reader(sys.stdin)
        return
    print(json.dumps(blocks.taken()), flush=True)


def _run_watched(work: Coroutine[Any, Any, Result]) -> Result:
    blocks = LongestBlocks(time.perf_counter, time.thread_time)
    signal.signal(signal.SIGPROF, lambda _, frame: blocks.sample(stack_of(frame)))
    signal.setitimer(signal.ITIMER_PROF, SAMPLE_SECONDS, SAMPLE_SECONDS)
    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(_WatchedSelector(blocks))) as runner:
        return runner.run(_answering(work, blocks))


if __name__ == "__main__":
    run.run_loop = _run_watched  # type: ignore[assignment, attr-defined]
    main.main()
