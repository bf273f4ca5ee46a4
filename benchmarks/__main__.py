"""Run every benchmark but the long ones, one after the other; each prints a Markdown table."""

from __future__ import annotations

import pkgutil
import runpy

import benchmarks

_NOT_HERE = {"clients", "counted", "page_server", "process", "soak", "soak_day"}
"""What others run, and what takes twenty minutes each."""


def main() -> None:
    """Run them in alphabetical order."""
    for module in pkgutil.iter_modules(benchmarks.__path__):
        if not module.name.startswith("_") and module.name not in _NOT_HERE:
            print(f"\n## {module.name}\n", flush=True)
            runpy.run_module(f"benchmarks.{module.name}", run_name="__main__")


if __name__ == "__main__":
    main()
