"""Environment variables in values: ``${NAME}`` is a variable, ``$$`` a dollar sign."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, Self

_REFERENCE: Final = re.compile(r"\$(?:\$|\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)\}|(?P<broken>\{))")


class _Sourced(str):
    __slots__ = ("origin",)
    origin: str

    @classmethod
    def of(cls, value: str, origin: str) -> Self:
        """Return ``value`` with its origin."""
        sourced = cls(value)
        sourced.origin = origin
        return sourced


class Expanded(_Sourced):
    """A value with environment variables in it. Messages show only its text in the file, ``origin``."""

    @property
    def is_one_variable(self) -> bool:
        """True if the text in the file is one variable and nothing else, as a secret must be."""
        return re.fullmatch(r"\$\{\w+\}", self.origin, re.ASCII) is not None


class FromVariable(_Sourced):
    """The value of a flag from an environment variable, whose name is ``origin``."""


def expand(text: str, environ: Mapping[str, str]) -> str:
    """Return ``text`` with its variables replaced; the same text if it names none.

    Raises:
        ValueError: A variable is not set, or a reference is not complete.
    """
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
