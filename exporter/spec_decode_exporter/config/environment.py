"""Environment variables in values: ``${NAME}`` is a variable, ``$$`` a dollar sign."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from collections.abc import Mapping

_REFERENCE: Final = re.compile(r"\$(?:\$|\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)\}|(?P<broken>\{))")
_WHOLE: Final = re.compile(r"\$\{[A-Za-z_][A-Za-z0-9_]*\}")


MAX_CHARACTERS: Final = 256 * 1024
"""Characters of a value at most; Linux allows 128 KiB in a variable."""


class Expanded(str):
    """A value with environment variables in it, and its original text.

    A secret must be one variable and nothing else (``whole``). Messages show only ``written``, because the
    value of a variable may be a secret.
    """

    __slots__ = ("whole", "written")

    written: str
    whole: bool

    @classmethod
    def of(cls, value: str, written: str) -> Self:
        """Return ``value`` with its original text."""
        expanded = cls(value)
        expanded.written = written
        expanded.whole = _WHOLE.fullmatch(written) is not None
        return expanded


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
    if name is None:
        return "$"
    if name not in environ:
        raise ValueError(
            f"the environment variable {name} is not set; set it, or write `$${{{name}}}` for the text"
        )
    return environ[name]
