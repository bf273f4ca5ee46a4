"""Flags that can also come from the environment."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from spec_decode_exporter.config.environment import FromVariable

ENVIRONMENT_PREFIX: Final = "SPEC_DECODE_EXPORTER_"

_SWITCH: Final = {
    **dict.fromkeys(("1", "true", "yes", "on"), True),
    **dict.fromkeys(("", "0", "false", "no", "off"), False),
}


class UsageError(Exception):
    """The flags cannot be used as they are."""


def _as_given(text: str) -> str:
    return text


class Flags:
    """Adds flags that can also come from the environment."""

    def __init__(self, parser: argparse.ArgumentParser, environ: Mapping[str, str]) -> None:
        self._parser = parser
        self._environ = environ

    def one(
        self,
        name: str,
        metavar: str,
        text: str,
        default: str | None = None,
        read: Callable[[str], str] = _as_given,
    ) -> None:
        """Add a flag with one value. A variable that holds nothing is as good as none."""
        default = self._value(name) or default
        self._parser.add_argument(
            name, dest=destination(name), metavar=metavar, default=default, help=text, type=read
        )

    def several(self, name: str, metavar: str, text: str) -> None:
        """Add a flag that may be repeated; given on the command line, it replaces its variable's values."""
        parts = _parts(self._value(name))
        self._parser.add_argument(
            name, dest=destination(name), metavar=metavar, help=text, action=_Replace, default=parts
        )

    def switch(self, name: str, text: str) -> None:
        """Add a flag without a value, and its --no- counterpart."""
        variable = _variable(name)
        text_value = self._environ.get(variable, "").lower()
        if text_value not in _SWITCH:
            raise UsageError(f"{variable} is {text_value!r}; it is a switch, set it to true or false")
        self._parser.add_argument(
            name,
            dest=destination(name),
            action=argparse.BooleanOptionalAction,
            default=_SWITCH[text_value],
            help=text,
        )

    def _value(self, name: str) -> FromVariable | None:
        """Return what the flag's variable holds; None if that is nothing."""
        variable = _variable(name)
        value = self._environ.get(variable)
        return FromVariable.of(value, variable) if value else None


class _Replace(argparse.Action):
    """Collects a flag's values; the first one drops those that came from the environment."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        """Take one more value."""
        del parser, option_string
        given = getattr(namespace, self.dest)
        fresh = given is self.default
        setattr(namespace, self.dest, [*([] if fresh else given), values])


def _parts(value: FromVariable | None) -> list[str]:
    if value is None:
        return []
    return [FromVariable.of(part.strip(), value.variable) for part in value.split(",") if part.strip()]


def _variable(flag: str) -> str:
    return ENVIRONMENT_PREFIX + flag.removeprefix("--").replace(".", "_").replace("-", "_").upper()


def destination(flag: str) -> str:
    """Return the name under which the arguments hold a flag's value."""
    return flag.removeprefix("--").replace(".", "_").replace("-", "_")
