"""Targets from files in the format of Prometheus' ``file_sd_configs``."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from fnmatch import fnmatchcase
from time import thread_time
from typing import TYPE_CHECKING, Final

from spec_decode_exporter.core.cooperative_yield import finish
from spec_decode_exporter.core.files import read_bounded, size_text
from spec_decode_exporter.core.tasks import TARGET_LISTS
from spec_decode_exporter.discovery.group_reader import MAX_LIST_BYTES, MAX_TARGETS, json_groups, yaml_groups
from spec_decode_exporter.discovery.target_discovery import DiscoveryError
from spec_decode_exporter.discovery.target_groups import Listing

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from spec_decode_exporter.config.target_settings import Scrape
    from spec_decode_exporter.discovery.target import Target

REFRESH_SECONDS: Final = 5.0
"""Seconds between two checks of the files' times and sizes. Only changed files are read."""

MAX_FILES: Final = 1_000
"""Maximum files that match one pattern."""
MAX_ENTRIES: Final = 100_000
"""Maximum entries of the directory of a pattern with wild cards."""
MAX_PATTERN_BYTES: Final = 16 * 2**20
"""Maximum bytes of all files that match one pattern."""
_REST: Final = 10.0
"""Seconds of pause after each second of processor time."""
_MAX_PROBLEMS: Final = 3

_WILD: Final = frozenset("*?[")

Stamp = tuple[int, int, int]
"""Modification time, size and inode of a file: equal stamps mean equal content."""


@dataclass(frozen=True, slots=True)
class _ListFile:
    """Last readable content of one file."""

    stamp: Stamp | None = None
    targets: tuple[Target, ...] | None = None
    """None until the first successful reading."""
    problem: str | None = None


class FileDiscovery:
    """Targets in the files that match one pattern."""

    kind: Final = "file"

    def __init__(self, pattern: Path, scrape: Scrape) -> None:
        """Read the files of ``pattern``; its last part may have wild cards."""
        self.name = self.key = f"{self.kind} {pattern}"
        self.refresh = REFRESH_SECONDS
        self._pattern = pattern
        self._listing = Listing(self.name, self.kind, scrape)
        self._files: dict[Path, _ListFile] = {}

    async def targets(self) -> Sequence[Target]:
        """Check the files in a thread.

        Raises:
            DiscoveryError: No file matches, or one is unreadable. Its last targets stay; those of the other
            files
                are up to date.
        """
        return await TARGET_LISTS.run(self._check_files)

    def _check_files(self) -> Sequence[Target]:
        begin = thread_time()
        try:
            return self._read_changed()
        finally:
            self.refresh = max(REFRESH_SECONDS, _REST * (thread_time() - begin))

    def _read_changed(self) -> Sequence[Target]:
        paths = self._paths()
        before, self._files = self._files, {}
        targets: list[Target] = []
        for path in paths:
            self._files[path] = self._updated(path, before.get(path, _ListFile()))
            targets += self._files[path].targets or ()
            if len(targets) > MAX_TARGETS:
                # The files after it are not kept: each could have the maximum of targets.
                raise DiscoveryError(f"has more than {MAX_TARGETS} targets; divide it into several patterns")
        if not paths:
            raise DiscoveryError("there is no such file", targets)
        self._check(targets)
        return targets

    def _check(self, targets: Sequence[Target]) -> None:
        """Raise an error if a file is unusable."""
        problems = [f"{path}: {file.problem}" for path, file in self._files.items() if file.problem]
        if not problems:
            return
        more = len(problems) - _MAX_PROBLEMS
        shown = [*problems[:_MAX_PROBLEMS], *([f"and {more} more files"] if more > 0 else [])]
        # The content of a file that was never readable is unknown, but an earlier discovery may have read it.
        unknown = any(file.targets is None for file in self._files.values())
        raise DiscoveryError("; ".join(shown), None if unknown else targets)

    def _paths(self) -> list[Path]:
        """Return the matching files, sorted: the order of targets must not depend on the file system."""
        if not _WILD & set(self._pattern.name):
            return [self._pattern] if self._pattern.exists() else []
        try:
            names = self._names()
        except OSError as error:
            raise DiscoveryError(f"{self._pattern.parent}: cannot be read: {error.strerror}") from None
        paths = [self._pattern.parent / name for name in sorted(names)]
        if sum(map(_size, paths)) > MAX_PATTERN_BYTES:
            raise DiscoveryError(f"its files have more than {size_text(MAX_PATTERN_BYTES)} together")
        return paths

    def _names(self) -> list[str]:
        names: list[str] = []
        with os.scandir(self._pattern.parent) as entries:
            for number, entry in enumerate(entries):
                if number == MAX_ENTRIES:
                    raise DiscoveryError(f"{self._pattern.parent}: has more than {MAX_ENTRIES} entries")
                if fnmatchcase(entry.name, self._pattern.name):
                    names.append(entry.name)
                if len(names) > MAX_FILES:
                    raise DiscoveryError(f"matches more than {MAX_FILES} files")
        return names

    def _updated(self, path: Path, before: _ListFile) -> _ListFile:
        stamp = before.stamp
        try:
            stamp = _stamp(path)
            return before if stamp == before.stamp else _ListFile(stamp, tuple(self._read(path)))
        except OSError as error:
            return _ListFile(None, before.targets, f"cannot be read: {error.strerror or error}")
        except DiscoveryError as error:
            return _ListFile(stamp, before.targets, str(error))

    def _read(self, path: Path) -> list[Target]:
        groups = json_groups if path.suffix.lower() == ".json" else yaml_groups
        return finish(self._listing.read(groups(read_bounded(path, MAX_LIST_BYTES))))


def _stamp(path: Path) -> Stamp:
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise OSError("it is not a plain file")
    if status.st_size > MAX_LIST_BYTES:
        raise DiscoveryError(f"is larger than {size_text(MAX_LIST_BYTES)}")
    return status.st_mtime_ns, status.st_size, status.st_ino


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
