"""Mistakes in a configuration, each with its place; all are reported at once."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from spec_decode_exporter.core.numbers import MAX_TEXT
from spec_decode_exporter.core.user_errors import ExporterError

KeyPath = tuple[str | int, ...]  # place of a value in the configuration: keys, and indices of list elements
Mistake = tuple[KeyPath, str]  # a place, and the text of what is wrong there with its remedy


@dataclass(frozen=True, slots=True)
class Problem:
    """One reported mistake."""

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


class MistakesError(ValueError):
    """Mistakes that one validator finds, each at its own path below the validated value."""

    def __init__(self, mistakes: Sequence[Mistake]) -> None:
        super().__init__("; ".join(message for _, message in mistakes))
        self.mistakes = tuple(mistakes)


def dotted(path: KeyPath) -> str:
    """Format a path as ``targets[0].url``."""
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step[:MAX_TEXT]}" for step in path)
    return text.removeprefix(".")


def near_name(name: str, known: Sequence[str], kind: str) -> str:
    """Return the mistake of an unknown name of a kind, with the nearest known one, or all."""
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean `{near[0]}`?" if near else f"there are {', '.join(f'`{each}`' for each in known)}"
    return f"is not a {kind}; {hint}"
