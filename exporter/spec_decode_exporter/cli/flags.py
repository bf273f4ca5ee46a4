"""Flags that may also be set by environment variables."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from spec_decode_exporter.config.environment import FromVariable
from spec_decode_exporter.core.user_errors import UsageError

ENVIRONMENT_PREFIX: Final = "SPEC_DECODE_EXPORTER_"

_SWITCH: Final = {
    **dict.fromkeys(("1", "true", "yes", "on"), True),
    **dict.fromkeys(("", "0", "false", "no", "off"), False),
}


def unchanged(text: str) -> str:
    """Return the text of a flag as it is."""
    return text


class Flags:
    """Adds flags that may also be set by environment variables."""

    def __init__(self, parser: argparse.ArgumentParser, environ: Mapping[str, str]) -> None:
        self._parser = parser
        self._environ = environ

    def one(
        self,
        name: str,
        metavar: str,
        text: str,
        default: str | None = None,
        read: Callable[[str], str] = unchanged,
    ) -> None:
        """Add a flag with one value. An empty variable counts as absent."""
        default = self._value(name) or default
        self._parser.add_argument(
            name, dest=destination(name), metavar=metavar, default=default, help=text, type=read
        )

    def several(self, name: str, metavar: str, text: str) -> None:
        """Add a flag that may be repeated; flags replace the values of the variable."""
        parts = _parts(self._value(name))
        self._parser.add_argument(
            name, dest=destination(name), metavar=metavar, help=text, action=_Replace, default=parts
        )

    def switch(self, name: str, text: str) -> None:
        """Add a flag without a value, and its --no- counterpart."""
        variable = _variable(name)
        value = self._environ.get(variable, "").lower()
        if value not in _SWITCH:
            raise UsageError(f"{variable} is {value!r}; it is a switch, set it to true or false")
        self._parser.add_argument(
            name,
            dest=destination(name),
            action=argparse.BooleanOptionalAction,
            default=_SWITCH[value],
            help=text,
        )

    def _value(self, name: str) -> FromVariable | None:
        """Return the value of the flag's variable; None if it is empty or not set."""
        variable = _variable(name)
        value = self._environ.get(variable)
        return FromVariable.of(value, variable) if value else None


class _Replace(argparse.Action):
    """Collects the values of a flag; the first one drops those of the variable."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        """Append a value."""
        del parser, option_string
        collected = getattr(namespace, self.dest)
        is_default = collected is self.default
        setattr(namespace, self.dest, [*([] if is_default else collected), values])


def _parts(value: FromVariable | None) -> list[str]:
    if value is None:
        return []
    return [FromVariable.of(part.strip(), value.origin) for part in value.split(",") if part.strip()]


def _variable(flag: str) -> str:
    return ENVIRONMENT_PREFIX + destination(flag).upper()


def destination(flag: str) -> str:
    """Return the name under which the arguments hold the value of a flag."""
    return flag.removeprefix("--").replace(".", "_").replace("-", "_")
