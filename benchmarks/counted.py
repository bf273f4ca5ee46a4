"""The exporter's own program in a process of its own that tells how many tasks its event loop has.

    python -m benchmarks.counted run --target ...

For each line on its standard input it prints a line: `tasks`, and how many there are of each kind, as JSON.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Coroutine
from typing import Any, Final, Self

from spec_decode_exporter.cli import main, run
from spec_decode_exporter.cli.event_loop import Result, run_loop

_PREFIX: Final = "tasks "
"""Begin of an answer."""


class Counted:
    """The process, for as long as the `with` block lasts."""

    def __init__(self, *arguments: str) -> None:
        command = [sys.executable, "-m", "benchmarks.counted", *arguments]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.pid = self._process.pid
        assert self._process.stdout
        self._process.stdout.readline()  # the begin of its report, once it serves

    def tasks(self) -> dict[str, int]:
        """Return how many tasks there are of each kind."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        # The report of the start may come before.
        line = next(line for line in self._process.stdout if line.startswith(_PREFIX))
        tasks: dict[str, int] = json.loads(line.removeprefix(_PREFIX))
        return tasks

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.communicate(timeout=20)


async def _answering(work: Coroutine[Any, Any, Result]) -> Result:
    asyncio.get_running_loop().add_reader(sys.stdin, _tell)
    return await work


def _tell() -> None:
    if not sys.stdin.readline():
        asyncio.get_running_loop().remove_reader(sys.stdin)
        return
    tasks = Counter(getattr(task.get_coro(), "__qualname__", "?") for task in asyncio.all_tasks())
    print(f"{_PREFIX}{json.dumps(tasks)}", flush=True)


def _run_counted(work: Coroutine[Any, Any, Result]) -> Result:
    return run_loop(_answering(work))


if __name__ == "__main__":
    run.run_loop = _run_counted  # type: ignore[assignment, attr-defined]
    main.main()
