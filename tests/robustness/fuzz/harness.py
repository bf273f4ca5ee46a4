"""Common parts of the fuzzing harnesses."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from tests.paths import DATA

CORPUS = DATA / "fuzz"
NAMES = sorted(path.name for path in CORPUS.iterdir())
"""Names of the corpora, one for each parser."""
MAX_DEPTH = 9
SCALARS = (None, True, False, 0, 1, -1, 4, 0.5, 1e308, 2**63, 10**400, "", "\ud800", "\0", "x" * 2000)


@dataclass(frozen=True)
class Harness:
    """Parser under attack."""

    check: Callable[[bytes], object]
    """Takes any bytes. Whatever it raises is a finding."""
    words: tuple[str, ...] = ()
    """What the parser looks for, so that it is met more often than chance would have it."""
    json: bool = False
    """Whether documents of these words make good inputs."""

    def attack(self, data: bytes) -> None:
        """Feed the bytes to the parser, and for JSON parsers a document decoded from them."""
        self.check(data)
        if self.json:
            self.check(json.dumps(_document(iter(data), self.words)).encode())


def _document(choices: Iterator[int], words: Sequence[str], depth: int = 0) -> object:
    """Decode bytes into a JSON document: each byte is a choice, and their end ends the document."""
    choice = next(choices, 0)
    kind, size = choice % 6, 1 + choice // 6 % 4
    if depth < MAX_DEPTH and kind == 0 and choice:
        return [_document(choices, words, depth + 1) for _ in range(size)]
    if depth < MAX_DEPTH and kind in (1, 2):
        names = [words[next(choices, 0) % len(words)] for _ in range(size)]
        return {name: _document(choices, words, depth + 1) for name in names}
    if kind == 3:
        return SCALARS[next(choices, 0) % len(SCALARS)]
    return words[next(choices, 0) % len(words)]


def sane(error: Exception, max_characters: int = 4000) -> None:
    """Check that an error text is short and can be encoded."""
    text = str(error)
    assert text
    assert len(text) <= max_characters, text[:max_characters]
    text.encode()


_FOLDER = tempfile.TemporaryDirectory(prefix="fuzz-")


def file_of(data: bytes, name: str) -> Path:
    """Write the bytes to a file in a folder that exists until the process ends."""
    path = Path(_FOLDER.name) / name
    path.write_bytes(data)
    return path


def harness(name: str) -> Harness:
    """Import the parsers, only after coverage is on; return one by the name of its corpus."""
    found: Harness = import_module("tests.robustness.fuzz.parsers").HARNESSES[name]
    return found
