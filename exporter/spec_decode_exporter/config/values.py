"""Types of values in a configuration, each with its validation."""

from __future__ import annotations

import re
import stat
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PlainSerializer,
    SecretStr,
    ValidationInfo,
    WithJsonSchema,
)

from spec_decode_exporter.config.environment import Expanded
from spec_decode_exporter.config.units import (
    DURATION_PATTERN,
    PARAMETERS_PATTERN,
    SIZE_PATTERN,
    format_duration,
    format_parameters,
    format_size,
    parse_duration,
    parse_parameters,
    parse_size,
)
from spec_decode_exporter.core.files import read_bounded, size_text
from spec_decode_exporter.core.urls import api_address, normalise, without_query

if TYPE_CHECKING:
    pass

SHOWN_SECRET: Final = "<secret>"  # noqa: S105  a placeholder

_REFERENCE: Final = r"|.*\$\{.*"
"""The JSON Schema accepts any text with a variable, whose value an editor does not know."""

_URL_PATTERN: Final = "^([Hh][Tt][Tt][Pp][Ss]?://[^@#]+" + _REFERENCE + ")$"
_MAX_SECONDS: Final = 366 * 86_400.0
MAX_SECRET_BYTES: Final = 2**20
"""Bytes of a file with a secret, a certificate or a key."""
_MIN_SUMMARY_SECONDS: Final = 1.0


ReadRates: TypeAlias = "Callable[[Path, str | None], dict[int | None, float]]"
"""Reads the acceptance rates by draft tokens of a file and a model; raises ValueError."""


@dataclass(frozen=True, slots=True)
class Context:
    """Context of validation: the directory of the file, metric names, and values of other targets."""

    directory: Path
    read_rates: ReadRates | None = None
    """Reads reference files; without it they are not read."""
    taken: dict[str, set[object]] = field(default_factory=dict)

    def take(self, kind: str, value: object) -> bool:
        """Reserve ``value`` as a ``kind``; return False if it is reserved already."""
        values = self.taken.setdefault(kind, set())
        is_new = value not in values
        values.add(value)
        return is_new


def context_of(info: ValidationInfo) -> Context | None:
    """Return the context of a validation; None outside ``load``."""
    return info.context if isinstance(info.context, Context) else None


def _seconds(value: object) -> float:
    seconds = value if isinstance(value, int | float) else parse_duration(_text(value))
    if seconds > _MAX_SECONDS:
        raise ValueError("is longer than a year")
    return seconds


def _seconds_or_off(value: object) -> float | None:
    seconds = None if value in (None, "off") else _seconds(value)
    if seconds is not None and seconds < _MIN_SUMMARY_SECONDS:
        raise ValueError("is less than a second; write `off`, or at least 1s")
    return seconds


def _bytes(value: object) -> int:
    return value if isinstance(value, int) else parse_size(_text(value))


def _count(value: object) -> float:
    return value if isinstance(value, int | float) else parse_parameters(_text(value))


def _text(value: object) -> str:
    """Return a text; a list or a mapping is as invalid as a text without a unit."""
    return value if isinstance(value, str) else ""


def _file_name(value: Path) -> Path:
    """Reject a directory or a device: writing would replace the device."""
    try:
        mode = value.stat().st_mode
    except FileNotFoundError:
        return value
    except OSError as error:
        raise ValueError(f"names a file that cannot be used: {value}: {error.strerror}") from None
    except ValueError:
        raise ValueError("is not the name of a file") from None
    if stat.S_ISDIR(mode):
        raise ValueError("is a directory; name a file in it")
    if not stat.S_ISREG(mode):
        raise ValueError("is not a plain file; name another")
    return value


def _positive(value: float) -> float:
    if value <= 0:
        raise ValueError("must be more than 0")
    return value


def _secret(value: object, info: ValidationInfo) -> object:
    """Accept a secret from the environment; reject a literal one without repeating it."""
    if isinstance(value, Expanded) and not value:
        raise ValueError(f"is empty: the environment variable in {value.written} holds nothing")
    if isinstance(value, str) and not (isinstance(value, Expanded) and value.whole):
        raise ValueError(
            f"is a secret in plain text; name a file that holds it with `{info.field_name}_file`, "
            "or write `${NAME}` alone to take it from the environment"
        )
    return value


def _public(value: object) -> object:
    if isinstance(value, Expanded):
        raise ValueError(  # noqa: TRY004  pydantic turns only this into a mistake
            "comes from the environment, so it may be a secret; use `authorization` or `basic_auth`"
        )
    return value


def _located(value: Path, info: ValidationInfo) -> Path:
    context = context_of(info)
    return value if context is None else context.directory / value


def _readable(value: Path, info: ValidationInfo) -> Path:
    """Reject an unreadable file at the start rather than at the first poll."""
    if context_of(info) is None:
        return value
    try:
        read_bounded(value, MAX_SECRET_BYTES)
    except OSError as error:
        raise ValueError(f"names a file that cannot be read: {value}: {error.strerror or error}") from None
    except ValueError:
        raise ValueError("is not the name of a file") from None
    return value


def check_file(path: Path) -> None:
    """Refuse what would not end when it is read, or is no secret file by its size.

    Raises:
        OSError: It does not exist, is not a plain file or is larger than 1 MiB.
    """
    found = path.stat()
    if not stat.S_ISREG(found.st_mode):
        raise OSError("it is not a plain file")
    if found.st_size > MAX_SECRET_BYTES:
        raise OSError(f"it is larger than {size_text(MAX_SECRET_BYTES)}")


def _written(kind: str, pattern: str, **more: object) -> WithJsonSchema:
    """Describe a text of a ``kind`` for the JSON Schema and the documentation."""
    return WithJsonSchema({"type": "string", "title": kind, "pattern": pattern, **more})


def excludes(other: str) -> AfterValidator:
    """Return the check that a key is not given together with ``other``, which must be declared before it."""

    def check(value: Any, info: ValidationInfo) -> Any:  # noqa: ANN401  whatever the field holds
        if info.data.get(other):
            raise ValueError(f"cannot stand beside `{other}`; remove one of the two")
        return value

    return AfterValidator(check)


def _not_empty(value: tuple[object, ...]) -> tuple[object, ...]:
    if not value:
        raise ValueError("must not be empty")
    return value


def matches(pattern: str, otherwise: str) -> AfterValidator:
    """Return the check that a text matches ``pattern`` as a whole; ``otherwise`` is the complaint."""
    expression = re.compile(pattern, flags=re.ASCII)

    def check(value: str) -> str:
        if not expression.fullmatch(value):
            raise ValueError(otherwise)
        return value

    return AfterValidator(check)


def written_as(pattern: str) -> WithJsonSchema:
    """Return what ``matches`` is in the JSON Schema, where a text may refer to the environment too."""
    return WithJsonSchema({"type": "string", "pattern": f"^({pattern}{_REFERENCE})$"})


def _shown(write: Callable[[Any], str]) -> PlainSerializer:
    return PlainSerializer(write, return_type=str, when_used="json")


Duration = Annotated[
    float,
    BeforeValidator(_seconds),
    AfterValidator(_positive),
    _shown(format_duration),
    _written("duration", DURATION_PATTERN + _REFERENCE, examples=["500ms", "30s", "1h30m"]),
]
"""Seconds, written as Prometheus does, more than 0."""

DurationOrOff = Annotated[
    float | None,
    BeforeValidator(_seconds_or_off),
    _shown(lambda seconds: "off" if seconds is None else format_duration(seconds)),
    _written("`off`, duration", f"^off$|{DURATION_PATTERN}{_REFERENCE}", examples=["off", "10s", "1m"]),
]
"""Interval in seconds, at least one; None is never."""

Size = Annotated[
    int,
    BeforeValidator(_bytes),
    AfterValidator(_positive),
    _shown(format_size),
    _written("size", SIZE_PATTERN + _REFERENCE, examples=["512KiB", "16MiB"]),
]
"""Bytes, written as Prometheus does, more than 0."""

Parameters = Annotated[
    float,
    BeforeValidator(_count),
    AfterValidator(_positive),
    _shown(format_parameters),
    WithJsonSchema(
        {
            "type": ["string", "number"],
            "title": "parameters",
            "pattern": f"({PARAMETERS_PATTERN}){_REFERENCE}",
            "exclusiveMinimum": 0,
            "examples": ["500M", "1.5B"],
        }
    ),
]
"""Number of parameters of a model, written as model names do, more than 0."""

Url = Annotated[str, AfterValidator(normalise), _shown(without_query), _written("URL", _URL_PATTERN)]
"""The address of a page; without a path it gets ``/metrics``."""

Endpoint = Annotated[
    str,
    AfterValidator(lambda url: normalise(url, path="/")),
    _shown(without_query),
    _written("URL", _URL_PATTERN),
]
"""The address of something else than a page."""

ApiAddress = Annotated[str, AfterValidator(api_address), _shown(without_query), _written("URL", _URL_PATTERN)]
"""The address of a Prometheus, with the prefix of its proxy if there is one."""

Secret = Annotated[
    SecretStr,
    BeforeValidator(_secret),
    _shown(lambda _: SHOWN_SECRET),
    _written("secret", r"^\$\{[A-Za-z_][A-Za-z0-9_]*\}$"),
]
"""Never a literal in the file, never shown."""

NotEmpty = AfterValidator(_not_empty)
"""The check that a list has an element."""

Share = Annotated[float, Field(ge=0, le=1)]
"""A part of a whole."""

Quantity = Annotated[float, Field(ge=0, allow_inf_nan=False)]
"""A number that is not negative."""

Public = BeforeValidator(_public)
"""The check that a value stands in the file as it is."""

LocatedPath = Annotated[Path, AfterValidator(_located), WithJsonSchema({"type": "string", "title": "path"})]
"""Relative to the directory of the configuration file."""

LocatedFile = Annotated[LocatedPath, AfterValidator(_file_name)]
"""A file that need not exist yet."""

ReadableFile = Annotated[LocatedPath, AfterValidator(_readable)]
"""A file that could be read when the configuration was; it may change later."""
