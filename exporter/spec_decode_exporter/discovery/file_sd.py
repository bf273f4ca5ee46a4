"""Targets from files in the format of Prometheus' ``file_sd_configs``."""

from __future__ import annotations

import asyncio
import os
import stat
from dataclasses import dataclass
from fnmatch import fnmatchcase
from time import thread_time
from typing import TYPE_CHECKING, Final

from spec_decode_exporter.core.bounded_file import read_bounded, size_text
from spec_decode_exporter.core.cooperative_yield import finish
from spec_decode_exporter.discovery.group_reader import MAX_LIST_BYTES, MAX_TARGETS, json_groups, yaml_groups
from spec_decode_exporter.discovery.protocol import DiscoveryError
from spec_decode_exporter.discovery.target_groups import Listing

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from spec_decode_exporter.config.schema import Scrape
    from spec_decode_exporter.discovery.target import Target

REFRESH_SECONDS: Final = 5.0
"""Seconds from one look at the files' times and sizes to the next. Only what changed is read."""

MAX_FILES: Final = 1_000
"""The most files that match one pattern."""
MAX_ENTRIES: Final = 100_000
"""The most entries of the directory of a pattern with wild cards."""
MAX_PATTERN_BYTES: Final = 16 * 2**20
"""The most bytes of all files that match one pattern."""
_REST: Final = 10.0
"""A look that took one second of work is followed by a pause of at least 10 s."""
_MAX_PROBLEMS: Final = 3

_WILD: Final = frozenset("*?[")

Stamp = tuple[int, int, int]
"""A file's modification time, size and inode: if they stay, so did the content."""


@dataclass(frozen=True, slots=True)
class _Listed:
    """What one file held when it was read last; of a file that cannot be read, what it held before."""

    stamp: Stamp | None = None
    targets: tuple[Target, ...] | None = None
    """None until it could be read once."""
    problem: str | None = None


class FileDiscovery:
    """The targets in the files that match one pattern."""

    kind: Final = "file"

    def __init__(self, pattern: Path, scrape: Scrape) -> None:
        """Look for ``pattern``, whose last part may have wild cards."""
        self.name = self.key = f"{self.kind} {pattern}"
        self.refresh = REFRESH_SECONDS
        self._pattern = pattern
        self._listing = Listing(self.name, self.kind, scrape)
        self._files: dict[Path, _Listed] = {}

    async def targets(self) -> Sequence[Target]:
        """Look at the files again, beside the event loop.

        Raises:
            DiscoveryError: No file matches, or one cannot be read: its last targets stay, those of the other
                files are up to date.
        """
        return await asyncio.to_thread(self._look)

    def _look(self) -> Sequence[Target]:
        begin = thread_time()
        try:
            return self._found()
        finally:
            self.refresh = max(REFRESH_SECONDS, _REST * (thread_time() - begin))

    def _found(self) -> Sequence[Target]:
        paths = self._paths()
        before, self._files = self._files, {}
        targets: list[Target] = []
        for path in paths:
            self._files[path] = self._listed(path, before.get(path, _Listed()))
            targets += self._files[path].targets or ()
            if len(targets) > MAX_TARGETS:
                # The files after it are not kept: they could have another list's worth of targets each.
                raise DiscoveryError(f"has more than {MAX_TARGETS} targets; divide it into several patterns")
        if not paths:
            raise DiscoveryError("there is no such file", targets)
        self._check(targets)
        return targets

    def _check(self, targets: Sequence[Target]) -> None:
        """Raise if one of the files cannot be used."""
        problems = [f"{path}: {listed.problem}" for path, listed in self._files.items() if listed.problem]
        if not problems:
            return
        more = len(problems) - _MAX_PROBLEMS
        shown = [*problems[:_MAX_PROBLEMS], *([f"and {more} more files"] if more > 0 else [])]
        # What a file that was never read holds is not known, but an earlier discovery may have known it.
        unknown = any(listed.targets is None for listed in self._files.values())
        raise DiscoveryError("; ".join(shown), None if unknown else targets)

    def _paths(self) -> list[Path]:
        """Return the files that match, sorted, so that the targets' order does not depend on the disk's."""
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

    def _listed(self, path: Path, before: _Listed) -> _Listed:
        stamp = before.stamp
        try:
            stamp = _stamp(path)
            return before if stamp == before.stamp else _Listed(stamp, tuple(self._read(path)))
        except OSError as error:
            return _Listed(None, before.targets, f"cannot be read: {error.strerror or error}")
        except DiscoveryError as error:
            return _Listed(stamp, before.targets, str(error))

    def _read(self, path: Path) -> list[Target]:
        groups = json_groups if path.suffix.lower() == ".json" else yaml_groups
        return finish(self._listing.read(groups(read_bounded(path, MAX_LIST_BYTES))))


def _stamp(path: Path) -> Stamp:
    found = path.stat()
    if not stat.S_ISREG(found.st_mode):
        raise OSError("it is not a plain file")
    if found.st_size > MAX_LIST_BYTES:
        raise DiscoveryError(f"is larger than {size_text(MAX_LIST_BYTES)}")
    return found.st_mtime_ns, found.st_size, found.st_ino


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
