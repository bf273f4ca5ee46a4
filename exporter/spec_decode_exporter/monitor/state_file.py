"""State file: entries of one JSON line each after a header, replaced atomically.

Damage costs only the entries of the damaged lines.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from secrets import token_hex
from typing import Final, Generic, TypeVar

import structlog

from spec_decode_exporter.core.files import open_plain, read_bounded, replace_file
from spec_decode_exporter.core.recurring import OnceUntilRecovered

VERSION: Final = 2
MAX_BYTES: Final = 32 * 2**20
MAX_ENTRIES: Final = 4096
_MAX_SHOWN: Final = 100
Entry = TypeVar("Entry")
_log = structlog.get_logger(__name__)
_HEAD: Final = re.compile(
    rb'\{"format":"spec-decode-exporter state","version":(\d{1,9})'
    rb'(?:,"writer":"([0-9a-f]{16})","entries":(\d{1,9})\}\n)?'
)
"""Version; identifier of the process that wrote the file, and number of entries, absent in version 1."""
_MAX_HEAD: Final = 128
_SHARED: Final = "Another exporter writes the same state file: each forgets what the other learned."


class StateFile(Generic[Entry]):
    """State file. Errors of the disk raise nothing; their begin and end are logged.

    Both calls block on the disk: call them in a thread, one at a time, and ``load`` first.
    """

    def __init__(self, path: Path, parse: Callable[[bytes], Entry]) -> None:
        """Use the file at ``path``; of a symbolic link, its destination.

        ``parse`` returns the entry of a line, or raises ValueError with a reason.
        """
        self.path = path
        self._parse = parse
        self._writer = token_hex(8).encode()
        self._writers = {self._writer}
        """Expected writers of the present file: this process, and before its first save an earlier one."""
        self._damage = ""
        """Reason to set the present file aside instead of replacing it; empty if there is none."""
        self._failures, self._shared = OnceUntilRecovered(), OnceUntilRecovered()

    @property
    def failure(self) -> str:
        """Reason why the last save failed; empty after a success."""
        return self._failures.reason or ""

    @property
    def problem(self) -> str:
        """Sentence about the file for the page; empty without a problem."""
        if self.failure:
            return f"The state file cannot be written: {self.failure}. After a restart, baselines are lost."
        return _SHARED if self._shared.reason is not None else ""

    def load(self) -> list[Entry]:
        """Return the readable entries.

        A damaged file is renamed to ``<name>.corrupt``, which replaces an earlier one of that name, and the
        readable entries are saved again.
        """
        lines: Sequence[bytes] = ()
        try:
            lines = self._lines(read_bounded(self._place(), MAX_BYTES))
        except FileNotFoundError:
            self.save([])  # a place that cannot be written is logged at the start
        except (OSError, ValueError) as error:
            self._damage = _reason(error)
        valid = dict(self._valid(lines))
        if self._damage:
            self.save(list(valid))
        return list(valid.values())

    def save(self, lines: Sequence[bytes]) -> None:
        """Replace the entries by those of ``lines``."""
        head = b'{"format":"spec-decode-exporter state","version":%d,"writer":"%s","entries":%d}'
        try:
            place = self._place()
            self._note_writer(place)
            self._set_aside(place)
            replace_file(place, b"\n".join([head % (VERSION, self._writer, len(lines)), *lines, b""]))
        except OSError as error:
            reason = _reason(error)
            if self._failures.failed(reason):
                _log.warning("state_file_not_written", file=str(self.path), reason=reason)
            return
        self._writers = {self._writer}
        if self._failures.recovered():
            _log.info("state_file_written_again", file=str(self.path))

    def _place(self) -> Path:
        """Return the resolved path.

        Raises:
            OSError: It is a directory, a device or a pipe.
        """
        place = Path(os.path.realpath(self.path))
        if place.exists() and not place.is_file():
            raise OSError("it is not a plain file")
        return place

    def _lines(self, content: bytes) -> Sequence[bytes]:
        """Return the lines of the entries.

        Raises:
            ValueError: The content is not a state of this version.
        """
        head = _HEAD.match(content)
        if head is None:
            raise ValueError("it is not a state of this exporter")
        version, writer, number = head.groups()
        self._writers.add(writer)
        if int(version) != VERSION or writer is None:
            raise ValueError(f"it has version {int(version)}; this exporter reads version {VERSION}")
        *lines, rest = content[head.end() :].split(b"\n", MAX_ENTRIES)
        if rest or len(lines) != int(number):
            self._damage = f"it has {len(lines)} of {int(number)} entries"
        return lines

    def _valid(self, lines: Sequence[bytes]) -> Iterator[tuple[bytes, Entry]]:
        """Yield the valid lines and their entries; note the first invalid line."""
        for number, line in enumerate(lines, 2):
            try:
                yield line, self._parse(line)
            except ValueError as error:
                shown = line[:_MAX_SHOWN].decode(errors="replace")
                self._damage = self._damage or f"line {number}, {shown!r}: {error}"

    def _set_aside(self, place: Path) -> None:
        """Rename a damaged file, so that its content is not lost."""
        if self._damage:
            aside = place.with_name(f"{place.name}.corrupt")
            with suppress(FileNotFoundError):
                place.replace(aside)
                fields = {"file": str(self.path), "kept_as": str(aside), "reason": self._damage}
                _log.warning("state_file_set_aside", **fields)
            self._damage = ""

    def _note_writer(self, place: Path) -> None:
        """Log once if another process wrote the file since the last save."""
        head = None
        with suppress(OSError), open_plain(place) as file:
            head = _HEAD.match(file.read(_MAX_HEAD))
        if head is None or head[2] in (None, *self._writers):
            self._shared.recovered()
        elif self._shared.failed():
            _log.warning("state_file_shared", file=str(self.path), remedy=_SHARED)


def _reason(error: Exception) -> str:
    return (isinstance(error, OSError) and error.strerror) or str(error)
