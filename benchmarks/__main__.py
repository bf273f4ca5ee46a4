"""Run every benchmark but the long ones, one after the other; each prints a Markdown table.

Ends with status 1 if a benchmark misses a goal, or lacks a program or a package.
"""

from __future__ import annotations

import pkgutil
import runpy
import sys
from collections.abc import Iterator

import benchmarks

_NOT_HERE = {
    "clients",
    "counted",
    "hostile",
    "inside_limits",
    "page_server",
    "process",
    "soak",
    "soak_day",
    "truth",
}
"""Parts of other benchmarks, and benchmarks that take 20 minutes or more each."""


def main() -> int:
    """Run them in alphabetical order."""
    failed = list(_failed())
    print(f"\n{len(failed)} benchmarks failed." + "".join(f"\n- {reason}" for reason in failed))
    return 1 if failed else 0


def names() -> list[str]:
    """Return the names of all benchmarks that this module runs."""
    found = [module.name for module in pkgutil.iter_modules(benchmarks.__path__)]
    return [name for name in found if not name.startswith("_") and name not in _NOT_HERE]


def _failed() -> Iterator[str]:
    """Run each benchmark; yield the name of one that fails, and the reason."""
    for name in names():
        print(f"\n## {name}\n", flush=True)
        try:
            runpy.run_module(f"benchmarks.{name}", run_name="__main__")
        except SystemExit as ended:
            if ended.code:
                yield f"{name}: {ended.code}"
        except ModuleNotFoundError as error:
            yield f"{name}: {error}"


if __name__ == "__main__":
    sys.exit(main())
