"""Targets from files in the format of Prometheus' ``file_sd_configs``."""

from __future__ import annotations

import asyncio
import json
import stat
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final

from exporter.config.tree import Reader, YamlError, parse, read_file
from exporter.targets.groups import Listing
from exporter.targets.protocol import DiscoveryError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from exporter.config.schema import Scrape
    from exporter.targets.target import Target

REFRESH: Final = 5.0
"""Seconds from one look at the files' times and sizes to the next. Only what changed is read."""

_LARGEST: Final = 16 * 2**20
"""Bytes, as of a list that a server gives."""

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
        self.refresh = REFRESH
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
        paths = self._paths()
        self._files = {path: self._listed(path) for path in paths}
        targets = [target for listed in self._files.values() for target in listed.targets or ()]
        problems = [f"{path}: {listed.problem}" for path, listed in self._files.items() if listed.problem]
        if not paths:
            raise DiscoveryError("there is no such file", targets)
        if problems:
            # What a file that was never read holds is not known, but an earlier discovery may have known it.
            unknown = any(listed.targets is None for listed in self._files.values())
            raise DiscoveryError("; ".join(problems), None if unknown else targets)
        return targets

    def _paths(self) -> list[Path]:
        """Return the files that match, sorted, so that the targets' order does not depend on the disk's."""
        if not _WILD & set(self._pattern.name):
            return [self._pattern] if self._pattern.exists() else []
        try:
            beside = sorted(self._pattern.parent.iterdir())
        except OSError as error:
            raise DiscoveryError(f"{self._pattern.parent}: cannot be read: {error.strerror}") from None
        return [path for path in beside if fnmatchcase(path.name, self._pattern.name)]

    def _listed(self, path: Path) -> _Listed:
        before = self._files.get(path, _Listed())
        stamp = before.stamp
        try:
            stamp = _stamp(path)
            return before if stamp == before.stamp else _Listed(stamp, tuple(self._read(path)))
        except OSError as error:
            return _Listed(None, before.targets, f"cannot be read: {error.strerror or error}")
        except DiscoveryError as error:
            return _Listed(stamp, before.targets, str(error))

    def _read(self, path: Path) -> list[Target]:
        decode = decode_json if path.suffix.lower() == ".json" else _decode_yaml
        try:
            data = read_file(path, _LARGEST)
        except YamlError as error:
            raise DiscoveryError(str(error)) from None
        return self._listing.targets(decode(data))


def _stamp(path: Path) -> Stamp:
    found = path.stat()
    if not stat.S_ISREG(found.st_mode):
        raise OSError("it is not a plain file")
    return found.st_mtime_ns, found.st_size, found.st_ino


def decode_json(data: bytes) -> object:
    """Return what a JSON document holds.

    Raises:
        DiscoveryError: It is not JSON.
    """
    try:
        return json.loads(data)
    except json.JSONDecodeError as error:
        raise DiscoveryError(f"line {error.lineno} is not JSON: {error.msg}") from None
    except (ValueError, RecursionError):
        raise DiscoveryError("is not JSON in UTF-8, or is nested too deeply") from None


def _decode_yaml(data: bytes) -> object:
    try:
        root = parse(data)
    except YamlError as error:
        raise DiscoveryError(f"line {error.line or 1} {error}") from None
    reader = Reader()
    groups = [] if root is None else reader.read(root)
    if reader.flaws:
        raise DiscoveryError("; ".join(f"line {flaw.line} {flaw.message}" for flaw in reader.flaws[:3]))
    return groups
