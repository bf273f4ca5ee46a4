"""Plain files: read up to a limit of bytes, notice changes, replace atomically."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

Stamp = tuple[int, int, int, int]
"""Times of change, size and inode of a file: equal stamps mean equal content."""


@contextmanager
def open_plain(path: Path) -> Iterator[BinaryIO]:
    """Open a plain file to read it.

    Raises:
        OSError: It cannot be opened, or is not a plain file.
        ValueError: ``path`` is not the name of a file.
    """
    # Without O_NONBLOCK, open() of a pipe blocks until another process writes to it.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError("it is not a plain file")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            yield file
    finally:
        os.close(descriptor)


def read_bounded(path: Path, max_bytes: int) -> bytes:
    """Return the content of a plain file.

    Raises:
        OSError: It cannot be read, is not a plain file, or is larger than ``max_bytes``.
        ValueError: ``path`` is not the name of a file.
    """
    with open_plain(path) as file:
        content = file.read(max_bytes + 1)
    if len(content) > max_bytes:
        raise OSError(f"it is larger than {size_text(max_bytes)}")
    return content


def stamps(paths: Iterable[Path]) -> tuple[Stamp | None, ...]:
    """Return the stamp of each file, of a symbolic link that of its destination; None for a missing one."""
    return tuple(map(_stamp, paths))


def _stamp(path: Path) -> Stamp | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino


def replace_file(path: Path, content: bytes) -> None:
    """Replace a file atomically by one that only its owner may read, and whose content is on the disk.

    Raises:
        OSError: It cannot be written; an earlier file is unchanged.
    """
    beside = path.with_name(f"{path.name}.tmp")
    try:
        beside.unlink(missing_ok=True)  # of a process that crashed
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except OSError:
        with suppress(OSError):
            beside.unlink(missing_ok=True)
        raise


def size_text(size: int) -> str:
    """Format a limit in bytes, such as ``4 MiB``."""
    for unit, name in ((2**20, "MiB"), (2**10, "KiB")):
        if size >= unit and size % unit == 0:
            return f"{size // unit} {name}"
    return f"{size} bytes"
