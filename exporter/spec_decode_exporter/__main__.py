"""Where the program begins: a request to stop is heeded while the rest is still being imported."""

from __future__ import annotations

import os
import signal
from types import FrameType


def main() -> None:
    """Run the command line, which sets its own handlers once it serves."""
    # The first process of a container is ended by no signal that it does not handle, and the imports take
    # half a second: a pod that is deleted just then would be waited for until its grace period is over.
    signal.signal(signal.SIGTERM, _end)
    from spec_decode_exporter.cli.main import main as run

    run()


def _end(number: int, frame: FrameType | None) -> None:
    """End as a shell says that a program ended by this signal did."""
    del frame
    os._exit(128 + number)


if __name__ == "__main__":
    main()
