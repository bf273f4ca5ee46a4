"""PEM texts for OpenSSL, which reads certificates and keys only from files."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_IN_MEMORY: Final = Path("/dev/shm")  # noqa: S108  a file there is ours alone, and never on a disk


@contextmanager
def as_file(text: str | None, path: Path | None) -> Iterator[str | None]:
    """Give the name of the file at ``path``, or of one with ``text``, in memory where that can be."""
    if path is not None or not text:
        yield str(path) if path is not None else None
        return
    with NamedTemporaryFile(dir=_IN_MEMORY if _IN_MEMORY.is_dir() else None) as file:
        file.write(text.encode())
        file.flush()
        yield file.name
