"""Entry point: handles SIGTERM also while the rest of the program is imported."""

from __future__ import annotations

import os
import signal
from types import FrameType


def main() -> None:
    """Run the command line, which sets its own handlers once it serves."""
    # The first process of a container ignores signals that it does not handle, and the imports take half a
    # second: a pod that is deleted during that time would run until the end of its grace period.
    signal.signal(signal.SIGTERM, _end)
    from spec_decode_exporter.cli.main import main as run

    run()


def _end(number: int, frame: FrameType | None) -> None:
    """Exit with the status of a shell for a program that this signal ended."""
    del frame
    os._exit(128 + number)


if __name__ == "__main__":
    main()
