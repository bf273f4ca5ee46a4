"""Environment variables in values: ``${NAME}`` is a variable, ``$$`` a dollar sign."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, Self

MAX_CHARACTERS: Final = 256 * 1024
"""Characters of a value at most; Linux allows 128 KiB in a variable."""

_REFERENCE: Final = re.compile(r"\$(?:\$|\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)\}|(?P<broken>\{))")


class Expanded(str):
    """A value with environment variables in it. Messages show only ``written``: the value may be a secret."""

    __slots__ = ("written",)
    written: str
    """The text in the file."""

    @classmethod
    def of(cls, value: str, written: str) -> Self:
        """Return ``value`` with its text in the file."""
        expanded = cls(value)
        expanded.written = written
        return expanded

    @property
    def whole(self) -> bool:
        """True if the text in the file is one variable and nothing else, as a secret must be."""
        return re.fullmatch(r"\$\{\w+\}", self.written, re.ASCII) is not None


class FromVariable(str):
    """The value of a flag from an environment variable, with the name of the variable."""

    __slots__ = ("variable",)
    variable: str

    @classmethod
    def of(cls, value: str, variable: str) -> Self:
        """Return ``value`` with the name of its ``variable``."""
        named = cls(value)
        named.variable = variable
        return named


def expand(text: str, environ: Mapping[str, str]) -> str:
    """Return ``text`` with its variables replaced; the same text if it names none.

    Raises:
        ValueError: A variable is not set, or a reference is not complete.
    """
    size = len(text) + sum(len(environ.get(match["name"] or "", "")) for match in _REFERENCE.finditer(text))
    if size > MAX_CHARACTERS:
        raise ValueError(f"has more than {MAX_CHARACTERS} characters with its environment variables")
    value, references = _REFERENCE.subn(lambda match: _value(match, environ), text)
    return Expanded.of(value, text) if references else text


def _value(match: re.Match[str], environ: Mapping[str, str]) -> str:
    if match["broken"]:
        raise ValueError("`${` without a variable; write `${NAME}`, or `$${` for these two characters")
    name = match["name"]
    if name is not None and name not in environ:
        raise ValueError(
            f"the environment variable {name} is not set; set it, or write `$${{{name}}}` for the text"
        )
    return "$" if name is None else environ[name]
