"""What the exporter remembers over its own restarts: one JSON file, always replaced as a whole."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

import structlog

from spec_decode_exporter.core.bounded_file import read_bounded
from spec_decode_exporter.core.checksummed_file import ChecksummedFile, UnusableError
from spec_decode_exporter.core.once_until_recovered import OnceUntilRecovered

_SEAL: Final = ChecksummedFile("spec-decode-exporter state", version=1, noun="a state")
LARGEST: Final = 20 * 2**20
"""The most bytes of a state: 2,000 engines of 5 kB, and their names."""
MOST_VALUES: Final = 1_200_000
"""The most values of a state: 600 of each engine."""

_log = structlog.get_logger(__name__)


class StateFile:
    """A file that a state is loaded from once and saved to again and again.

    Neither call raises for what is wrong with the disk or the file: the exporter goes on without, and the log
    says so when that begins and when it ends. Both block on the disk, so they belong in a thread; not in two
    at once.
    """

    def __init__(self, path: Path) -> None:
        """Use the file at ``path``; of a symbolic link, the file that it names."""
        self.path = path
        self._in_the_way: str | None = None
        self._failures = OnceUntilRecovered()

    def load(self) -> Mapping[str, Any]:
        """Return what was saved last; nothing, if there is none or it cannot be used.

        A file that cannot be used is kept as ``<name>.corrupt``, in the place of an earlier one of that name.
        """
        try:
            return _SEAL.read(read_bounded(self._place(), LARGEST), MOST_VALUES)
        except FileNotFoundError:
            return {}
        except (OSError, UnusableError) as error:
            self._in_the_way = _reason(error)
        self._attempt(self._set_aside)
        return {}

    def save(self, data: Mapping[str, Any]) -> None:
        """Put ``data`` in the place of what was saved before. After ``load``, which looks what is there.

        Raises:
            TypeError: It holds something that JSON cannot.
            ValueError: It holds a number that JSON cannot, or itself.
        """
        self._attempt(partial(self._replace, _SEAL.written(data)))

    def _attempt(self, work: Callable[[], None]) -> None:
        """Do what may fail; log a failure when it begins or turns into another, not every minute."""
        try:
            work()
        except OSError as error:
            reason = _reason(error)
            if self._failures.failed(reason):
                _log.warning("state_file_not_written", file=str(self.path), reason=reason)
            return
        if self._failures.recovered():
            _log.info("state_file_written_again", file=str(self.path))

    def _place(self) -> Path:
        """Return where the file really is.

        Raises:
            OSError: It is a directory, a device or a pipe, which must be neither read nor replaced.
        """
        place = Path(os.path.realpath(self.path))
        with suppress(FileNotFoundError):
            if not stat.S_ISREG(place.stat().st_mode):
                raise OSError("it is not a plain file")
        return place

    def _set_aside(self) -> None:
        """Rename a file that cannot be used, so that nothing is lost that somebody may want to look at."""
        if self._in_the_way is None:
            return
        place = self._place()
        aside = place.with_name(f"{place.name}.corrupt")
        with suppress(FileNotFoundError):
            place.replace(aside)
            _log.warning(
                "state_file_set_aside", file=str(self.path), kept_as=str(aside), reason=self._in_the_way
            )
        self._in_the_way = None

    def _replace(self, document: bytes) -> None:
        self._set_aside()
        place = self._place()
        beside = place.with_name(f"{place.name}.tmp")
        # One that a crash has left behind, at most: only one exporter writes here.
        beside.unlink(missing_ok=True)
        try:
            _write(beside, document)
            beside.replace(place)
        except OSError:
            with suppress(OSError):
                beside.unlink(missing_ok=True)
            raise
        _sync_directory(place.parent)


def _reason(error: Exception) -> str:
    return (isinstance(error, OSError) and error.strerror) or str(error)


def _write(place: Path, content: bytes) -> None:
    """Write a new file that nobody else may read, and wait until it is on the disk."""
    descriptor = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _sync_directory(directory: Path) -> None:
    """Wait until a name is on the disk too, where the file system can do that."""
    with suppress(OSError):
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
