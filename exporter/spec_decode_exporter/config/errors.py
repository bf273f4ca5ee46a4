"""Errors of a configuration: all problems at once, each with its place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from spec_decode_exporter.core.user_errors import ExporterError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Path = tuple[str | int, ...]
"""Place of a value in the configuration: keys, and indices of list elements."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake."""

    place: str
    """``exporter.yml:12``, or the file alone if no line is at fault."""
    path: str
    """``targets[0].url``; empty for the file as a whole."""
    message: str
    """The mistake and its remedy. It never holds a secret."""

    def __str__(self) -> str:
        return ": ".join(part for part in (self.place, self.path) if part) + f" {self.message}"


class ConfigError(ExporterError):
    """The configuration cannot be used. ``problems`` lists every mistake, in the order of the file."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(map(str, self.problems)))


class ProblemsError(ValueError):
    """Several mistakes found by one validator, each at its own key; ``Source`` turns them into problems."""

    def __init__(self, mistakes: Sequence[tuple[Path, str]]) -> None:
        """Take pairs of a path below the validated value and the mistake there."""
        super().__init__("; ".join(message for _, message in mistakes))
        self.mistakes = tuple(mistakes)


def dotted(path: Path) -> str:
    """Write a path as ``targets[0].url``."""
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return text.removeprefix(".")
