"""The exporter's own program, which answers each line on its standard input by its tasks by kind, as JSON.

python -m benchmarks.counted run --target ...
"""

from __future__ import annotations

import asyncio
import json
import sys
from argparse import Namespace
from collections import Counter

from spec_decode_exporter.app.service import Options
from spec_decode_exporter.cli import main, run

_serve = run._serve  # noqa: SLF001


async def _answering(arguments: Namespace, options: Options) -> None:
    asyncio.get_running_loop().add_reader(sys.stdin, _tell)
    await _serve(arguments, options)


def _tell() -> None:
    if not sys.stdin.readline():
        asyncio.get_running_loop().remove_reader(sys.stdin)
        return
    tasks = Counter(getattr(task.get_coro(), "__qualname__", "?") for task in asyncio.all_tasks())
    print(json.dumps(tasks), flush=True)


if __name__ == "__main__":
    run._serve = _answering  # noqa: SLF001
    main.main()
