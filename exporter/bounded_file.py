"""Read files up to a bound of bytes, without waiting for a pipe that is empty."""

from __future__ import annotations

import os
import stat
from pathlib import Path


def read_bounded(path: Path, most_bytes: int) -> bytes:
    """Return the content of a plain file.

    Raises:
        OSError: It cannot be read, is not a plain file, or is larger than ``most_bytes``.
        ValueError: ``path`` is not the name of a file.
    """
    # Without O_NONBLOCK, open() waits until another process writes to a pipe: perhaps for ever.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError("it is not a plain file")
        content = file.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise OSError(f"it is larger than {size_text(most_bytes)}")
    return content


def size_text(size: int) -> str:
    """Write a bound in bytes for people, such as ``4 MiB``."""
    for unit, name in ((2**20, "MiB"), (2**10, "KiB")):
        if size >= unit and size % unit == 0:
            return f"{size // unit} {name}"
    return f"{size} bytes"
