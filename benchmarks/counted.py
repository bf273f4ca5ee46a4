"""The exporter's own program, which answers each line on its standard input by its tasks by kind, as JSON.

python -m benchmarks.counted run --target ...
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from collections.abc import Coroutine
from typing import Any

from spec_decode_exporter.cli import main, run
from spec_decode_exporter.cli.process import Result, run_loop


async def _answering(work: Coroutine[Any, Any, Result]) -> Result:
    asyncio.get_running_loop().add_reader(sys.stdin, _tell)
    return await work


def _tell() -> None:
    if not sys.stdin.readline():
        asyncio.get_running_loop().remove_reader(sys.stdin)
        return
    tasks = Counter(getattr(task.get_coro(), "__qualname__", "?") for task in asyncio.all_tasks())
    print(json.dumps(tasks), flush=True)


if __name__ == "__main__":
    run.run_loop = lambda work: run_loop(_answering(work))  # type: ignore[assignment, attr-defined]
    main.main()
