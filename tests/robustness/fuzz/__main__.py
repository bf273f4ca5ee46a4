"""Attack the parsers, one after the other: ``python -m tests.robustness.fuzz [--seconds 60] [NAME …]``.

Atheris guides them by code coverage; where it does not install, the tests attack with random inputs alone. Failing
inputs are written to ``.fuzz/``.
"""

# ruff: noqa: T201
from __future__ import annotations

import argparse
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from tests.robustness.fuzz.harness import CORPUS, NAMES, harness

FOUND = Path(".fuzz")
MAX_INPUT = 8192
MAX_CHECK_SECONDS = 10
MAX_MEMORY_MB = 1024


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.robustness.fuzz")
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"one of {', '.join(NAMES)}; all without one"
    )
    parser.add_argument("--seconds", type=int, default=60, help="how long each is attacked")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if not find_spec("atheris"):
        parser.error("atheris is not installed: it has packages for Linux, x86_64 and Python before 3.14")
    if given.here:
        return attack(given.names[0], given.seconds)
    return max(attacked_alone(name, given.seconds) for name in given.names or NAMES)


def attacked_alone(name: str, seconds: int) -> int:
    """Attack in a child process: libFuzzer ends its process, and a parser may crash it."""
    print(f"== {name}", flush=True)
    command = [sys.executable, "-m", "tests.robustness.fuzz", "--here", "--seconds", str(seconds), name]
    # libFuzzer ends without tidying up.
    files = FOUND.absolute() / name / "files"
    files.mkdir(parents=True, exist_ok=True)
    return subprocess.run(command, check=False, env={**os.environ, "TMPDIR": str(files)}).returncode


def attack(name: str, seconds: int) -> int:
    import atheris

    with atheris.instrument_imports(include=["spec_decode_exporter", "shlex"]):
        attacked = harness(name)
    folder = FOUND / name
    (folder / "corpus").mkdir(parents=True, exist_ok=True)
    words = folder / "words"
    words.write_text("".join(f'"{_escaped(word)}"\n' for word in attacked.words))
    options = {
        "max_total_time": seconds,
        "max_len": MAX_INPUT,
        "timeout": MAX_CHECK_SECONDS,
        "rss_limit_mb": MAX_MEMORY_MB,
        "dict": words,
        "artifact_prefix": f"{folder}/",
        "print_final_stats": 1,
        "verbosity": 1,
    }
    arguments = [sys.argv[0], *(f"-{option}={value}" for option, value in options.items())]
    atheris.Setup([*arguments, str(folder / "corpus"), str(CORPUS / name)], attacked.attack)
    atheris.Fuzz()
    return 0


def _escaped(word: str) -> str:
    return "".join(f"\\x{byte:02x}" for byte in word.encode())


if __name__ == "__main__":
    sys.exit(main())
