"""State file: one checksummed JSON file, always replaced atomically."""

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
MAX_BYTES: Final = 32 * 2**20
"""Maximum size: 2,000 engines of 9 kB, 512 baselines of 6 kB, and labels of at most 3 kB each."""
MAX_VALUES: Final = 1_600_000
"""Maximum number of values: 600 for each engine, and 700 for each baseline."""

_log = structlog.get_logger(__name__)


class StateFile:
    """File that a state is loaded from once and saved to repeatedly.

    Errors of the disk or of the file raise nothing. The exporter continues without the file, and logs the
    begin and the end of the failure. Both calls block on the disk: call them in a thread, one at a time.
    """

    def __init__(self, path: Path) -> None:
        """Use the file at ``path``; of a symbolic link, its destination."""
        self.path = path
        self._in_the_way: str | None = None
        self._failures = OnceUntilRecovered()

    def load(self) -> Mapping[str, Any]:
        """Return the last saved state; empty without a valid file.

        An invalid file is renamed to ``<name>.corrupt``; it replaces an earlier one of that name.
        """
        try:
            return _SEAL.read(read_bounded(self._place(), MAX_BYTES), MAX_VALUES)
        except FileNotFoundError:
            return {}
        except (OSError, UnusableError) as error:
            self._in_the_way = _reason(error)
        self._attempt(self._set_aside)
        return {}

    def save(self, data: Mapping[str, Any]) -> None:
        """Replace the saved state by ``data``; call ``load`` first.

        Raises:
            TypeError: JSON cannot represent a value.
            ValueError: JSON cannot represent a number, or ``data`` contains itself.
        """
        self._attempt(partial(self._replace, _SEAL.written(data)))

    def _attempt(self, work: Callable[[], None]) -> None:
        """Run ``work``; log its failure when it begins or its reason changes, not every minute."""
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
        """Return the resolved path.

        Raises:
            OSError: It is a directory, a device or a pipe.
        """
        place = Path(os.path.realpath(self.path))
        with suppress(FileNotFoundError):
            if not stat.S_ISREG(place.stat().st_mode):
                raise OSError("it is not a plain file")
        return place

    def _set_aside(self) -> None:
        """Rename an invalid file, so that its content is not lost."""
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
        # A file of a crashed exporter; only one exporter writes here.
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
    """Write a new file that only its owner may read, and wait until it is on the disk."""
    descriptor = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _sync_directory(directory: Path) -> None:
    """Wait until the file name is on the disk, if the file system supports it."""
    with suppress(OSError):
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
