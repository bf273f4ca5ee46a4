"""What is wrong with a configuration: all of it at once, each mistake with its place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

Path = tuple[str | int, ...]
"""Where a value is in the configuration: keys, and numbers of list elements."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake."""

    place: str
    """``exporter.yml:12``, or the file alone where no line is to blame."""
    path: str
    """``targets[0].url``; empty for the file as a whole."""
    message: str
    """What is wrong and what to do about it. It never holds a secret."""

    def __str__(self) -> str:
        return ": ".join(part for part in (self.place, self.path) if part) + f" {self.message}"


class ConfigError(Exception):
    """The configuration cannot be used. ``problems`` lists every mistake, in the order of the file."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(map(str, self.problems)))


def dotted(path: Path) -> str:
    """Write a path as ``targets[0].url``."""
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return text.removeprefix(".")
