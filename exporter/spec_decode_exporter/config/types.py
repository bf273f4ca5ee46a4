"""Types of values in a configuration, each with its syntax, its validation and its JSON Schema."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    SecretStr,
    ValidationInfo,
    WithJsonSchema,
    model_validator,
)

from spec_decode_exporter.config.mistakes import Mistake, MistakesError
from spec_decode_exporter.core.files import read_bounded
from spec_decode_exporter.core.numbers import MAX_TEXT
from spec_decode_exporter.core.urls import api_address, normalise, without_query

MAX_FILE_BYTES: Final = 2**20
"""Bytes of a configuration file, and of a file with a secret, a certificate or a key that it names."""
MAX_TARGETS: Final = 10_000  # targets, and engines, of a list, of a recording, and of the exporter
_MAX_SECONDS: Final = 366 * 86_400.0
_MILLISECONDS: Final = {
    "y": 365 * 86_400_000,
    "w": 7 * 86_400_000,
    "d": 86_400_000,
    "h": 3_600_000,
    "m": 60_000,
    "s": 1000,
    "ms": 1,
}
"""Units of a duration from large to small, their order in it."""
_BYTES: Final = {"B": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_COUNTS: Final = {"": 1, "K": 10**3, "M": 10**6, "B": 10**9, "T": 10**12}
DURATION_PATTERN: Final = (
    "^(0|(?=[0-9])" + "".join(f"([0-9]{{1,12}}{unit})?" for unit in _MILLISECONDS) + ")$"
)
_SIZE_PATTERN: Final = "^(0|[0-9]{1,12}(B|[KMGT]i?B))$"
_MATCHER: Final = r'[a-zA-Z_][a-zA-Z0-9_]*\s*(?:=~|!~|!=|=)\s*"(?:[^"\\\n]|\\.)*"'
_MATCHERS: Final = re.compile(rf"(?:\s*{_MATCHER}(?:\s*,\s*{_MATCHER})*\s*,?\s*)?")
MAX_LABELS: Final = 64
"""Labels of one target, and label names of all targets together: each series has every name."""
MAX_LABEL_VALUE: Final = 1_024  # characters of a label's value: every series of a target repeats it
MAX_LABEL_CHARACTERS: Final = 2_048
"""Characters of the names and values of all labels that discovery gives to a target."""
_OWN_LABELS: Final = (
    "action arm baseline basis cause check discovery draft_model effect engine engine_kind experiment "
    "external_url front_end implementation kind label length major method method_source minor model_name "
    "page patchlevel position prompt_tokens python_version quantile reason request_type revision source "
    "state target temperature tokens user verdict version window"
)
RESERVED_LABELS: Final = frozenset(_OWN_LABELS.split())  # labels of this exporter's own metrics
_NAME: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*", re.ASCII)


SettingsPlace = Literal["flags", "file", "chart", "history"]
"""Place into which advice is pasted: the exporter's settings, the chart's values, or the flags of a history."""


class Expanded(str):
    """A value with environment variables in it, or a flag's from its variable. Messages show only ``origin``."""

    __slots__ = ("origin",)
    origin: str
    """The text in the file, or the name of the variable."""

    @classmethod
    def of(cls, value: str, origin: str) -> Self:
        """Return ``value`` with its origin."""
        expanded = cls(value)
        expanded.origin = origin
        return expanded


class Section(BaseModel):
    """A mapping of the configuration: frozen, and an unknown key is a mistake."""

    # Deferred: below the configuration a section needs no validator of its own, which takes memory.
    model_config = ConfigDict(
        frozen=True, extra="forbid", hide_input_in_errors=True, allow_inf_nan=False, defer_build=True
    )

    def mistakes(self) -> Iterator[Mistake]:
        """Yield the mistakes that involve several keys; each key is valid by itself."""
        yield from ()

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if found := list(self.mistakes()):
            raise MistakesError(found)
        return self


ReadRates = Callable[[Path, str | None], dict[int | None, float]]
"""Reads the acceptance rates by draft tokens of a file and a model; raises ValueError."""


@dataclass(frozen=True, slots=True)
class Context:
    """Context of validation: the directory of the file, and a reader of references."""

    directory: Path
    read_rates: ReadRates | None = None
    """Reads reference files; without it they are not read."""
    place: SettingsPlace = "file"


def context_of(info: ValidationInfo) -> Context | None:
    """Return the context of a validation; None outside ``load``."""
    return info.context if isinstance(info.context, Context) else None


def parse_duration(text: object) -> float:
    """Return the seconds in ``text``, such as ``1h30m`` or ``500ms``, or raise ValueError."""
    if isinstance(text, int | float):
        return text
    match = re.fullmatch(DURATION_PATTERN, text) if isinstance(text, str) else None
    if match is None:
        raise ValueError("is not a duration; write a number with its unit, such as 500ms, 30s, 5m or 1h30m")
    parts = zip(match.groups(default="0")[1:], _MILLISECONDS.items(), strict=True)
    return sum(int(part.removesuffix(unit)) * size for part, (unit, size) in parts) / 1000


def format_duration(seconds: float) -> str:
    """Format ``seconds`` in Prometheus' syntax, rounded to a millisecond: ``30s``, ``5m``, ``1h30m``."""
    rest = round(seconds * 1000)
    written = ""
    for unit, size in _MILLISECONDS.items():
        if unit in "ywd" and rest % size:
            continue  # 36h, not 1d12h
        count, rest = divmod(rest, size)
        written += f"{count}{unit}" if count else ""
    return written or "0s"


def parse_size(text: object) -> int:
    """Return the bytes in ``text``, or raise ValueError: ``16MiB`` and ``16MB`` are 16 * 2**20."""
    if isinstance(text, int):
        return text
    if not isinstance(text, str) or not re.fullmatch(_SIZE_PATTERN, text):
        raise ValueError("is not a size; write a whole number with its unit, such as 512KiB or 16MiB")
    number = text.rstrip("KMGTiB")
    return int(number) * _BYTES[text.removeprefix(number)[:1] or "B"]


def format_size(size: int) -> str:
    """Format ``size`` bytes in the largest unit that leaves no remainder: ``16MiB``."""
    unit = next((unit for unit, factor in reversed(_BYTES.items()) if size and size % factor == 0), None)
    return f"{size // _BYTES[unit]}{unit if unit == 'B' else unit + 'iB'}" if unit else "0"


def parse_parameters(text: str) -> float:
    """Return the number in ``text``, such as ``8B`` or ``1.5b``, or raise ValueError."""
    if not re.fullmatch(r"[0-9]{1,15}(\.[0-9]{1,15})?[KMBTkmbt]?", text):
        raise ValueError("is not a number of parameters; write it as 500M, 1.5B or 8000000000")
    number = text.rstrip("KMBTkmbt")
    return float(Decimal(number) * _COUNTS[text.removeprefix(number).upper()])


def label_matchers(text: str) -> str:
    """Return the matchers of a selector, such as ``job="vllm"``, without braces, or raise ValueError."""
    inner = text.strip().removeprefix("{").removesuffix("}").strip().removesuffix(",")
    if not _MATCHERS.fullmatch(inner):
        raise ValueError(
            """is not a list of label matchers; write for example 'job="vllm",namespace=~"prod-.*"'"""
        )
    return inner


def label_problem(name: str) -> str | None:
    """Return the mistake in a label's name and the remedy; None if it is valid."""
    if len(name) > MAX_TEXT:
        return f"has a name of more than {MAX_TEXT} characters; choose a shorter one"
    if not _NAME.fullmatch(name):
        return "is not a label name; use letters, digits and underscores, and no digit first"
    if name.startswith("__"):
        return "begins with two underscores, which Prometheus reserves; choose another name"
    if name in {"instance", "job", "le"}:
        return "is a label that Prometheus sets; choose another name"
    if name in RESERVED_LABELS:
        return "is a label of the exporter's own metrics; choose another name"
    return None


def value_problem(value: str) -> str | None:
    """Return the mistake in a label's value and the remedy; None if it is valid."""
    if len(value) > MAX_LABEL_VALUE:
        return f"has a value of more than {MAX_LABEL_VALUE:,} characters; shorten it"
    # Half a surrogate pair is not printable either: it cannot be encoded.
    if not value.isprintable():
        return "has a value with a character that cannot be printed, such as a line break; remove it"
    return None


def _duration(value: object) -> float:
    seconds = parse_duration(value)
    if seconds > _MAX_SECONDS:
        raise ValueError("is longer than a year")
    return seconds


def _duration_or_off(value: object) -> float | None:
    seconds = None if value in (None, "off") else _duration(value)
    if seconds is not None and seconds < 1:
        raise ValueError("is less than a second; write `off`, or at least 1s")
    return seconds


def _secret(value: object, info: ValidationInfo) -> object:
    """Accept a secret from the environment; reject a literal one without repeating it."""
    if isinstance(value, Expanded) and not value:
        raise ValueError(f"is empty: the environment variable in {value.origin} holds nothing")
    origin = value.origin if isinstance(value, Expanded) else ""
    if isinstance(value, str) and not re.fullmatch(r"\$\{\w+\}", origin, re.ASCII):
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


def named_file(path: Path) -> bytes:
    """Return the content of a file that the configuration names, such as a secret, within the limit."""
    return read_bounded(path, MAX_FILE_BYTES)


def _readable(value: Path, info: ValidationInfo) -> Path:
    """Reject an unreadable file at the start rather than at the first poll."""
    try:
        if context_of(info) is not None:
            named_file(value)
    except (OSError, ValueError) as error:
        raise ValueError(
            f"names a file that cannot be read: {value}: {getattr(error, 'strerror', None) or error}"
        ) from None
    return value


def excludes(other: str) -> AfterValidator:
    """Return the check that a key is not given together with ``other``, which must be declared before it."""

    def check(value: Any, info: ValidationInfo) -> Any:  # noqa: ANN401  whatever the field holds
        if info.data.get(other) not in (None, ()):
            raise ValueError(f"cannot stand beside `{other}`; remove one of the two")
        return value

    return AfterValidator(check)


def refuses(problem: Callable[[Any], str | None]) -> AfterValidator:
    """Return the check that ``problem`` finds no mistake; it returns the mistake of a value."""

    def check(value: Any) -> Any:  # noqa: ANN401  whatever the field holds
        if mistake := problem(value):
            raise ValueError(mistake)
        return value

    return AfterValidator(check)


def matches(pattern: str, otherwise: str) -> AfterValidator:
    """Return the check that a text matches ``pattern`` as a whole; ``otherwise`` is the complaint."""
    expression = re.compile(pattern, flags=re.ASCII)
    return refuses(lambda value: None if expression.fullmatch(value) else otherwise)


def written_as(pattern: str, **more: object) -> WithJsonSchema:
    """Return the JSON Schema of a text, or of one with a variable, whose value an editor does not know."""
    return WithJsonSchema({"type": "string", "pattern": rf"{pattern}|.*\$\{{.*", **more})


def _shown(write: Callable[[Any], str]) -> PlainSerializer:
    return PlainSerializer(write, return_type=str, when_used="json")


# fmt: off
_URL_TEXT: Final = (_shown(without_query), written_as("^[Hh][Tt][Tt][Pp][Ss]?://[^@#]+$", title="URL"))
Duration = Annotated[float, BeforeValidator(_duration), Field(gt=0), _shown(format_duration), written_as(DURATION_PATTERN, title="duration", examples=["500ms", "30s", "1h30m"])]
"""Seconds, written as Prometheus does, more than 0."""
DurationOrOff = Annotated[float | None, BeforeValidator(_duration_or_off), _shown(lambda seconds: "off" if seconds is None else format_duration(seconds)), written_as(f"^off$|{DURATION_PATTERN}", title="`off`, duration", examples=["off", "10s", "1m"])]
"""Interval in seconds, at least one; None is never."""
Size = Annotated[int, BeforeValidator(parse_size), Field(gt=0), _shown(format_size), written_as(_SIZE_PATTERN, title="size", examples=["512KiB", "16MiB"])]
"""Bytes, written as Prometheus does, more than 0."""
PageUrl = Annotated[str, AfterValidator(normalise), *_URL_TEXT]
"""The URL of a page; without a path it gets ``/metrics``."""
Endpoint = Annotated[str, AfterValidator(lambda url: normalise(url, path="/")), *_URL_TEXT]
"""The URL of something else than a page."""
ApiAddress = Annotated[str, AfterValidator(api_address), *_URL_TEXT]
"""The URL of a Prometheus, with the prefix of its proxy if there is one."""
Secret = Annotated[SecretStr, BeforeValidator(_secret), _shown(lambda _: "<secret>"), WithJsonSchema({"type": "string", "pattern": r"^\$\{[A-Za-z_][A-Za-z0-9_]*\}$", "title": "secret"})]
"""Never a literal in the file, never shown."""
NotEmpty = refuses(lambda value: None if value else "must not be empty")
"""The check that a list has an element."""
Share = Annotated[float, Field(ge=0, le=1)]  # a part of a whole
Quantity = Annotated[float, Field(ge=0)]  # a number that is not negative
Public = BeforeValidator(_public)  # the check that a value stands in the file as it is
LocatedPath = Annotated[Path, AfterValidator(_located), WithJsonSchema({"type": "string", "title": "path"})]
"""Relative to the directory of the configuration file."""
ReadableFile = Annotated[LocatedPath, AfterValidator(_readable)]
"""A file that could be read when the configuration was; it may change later."""
Printable = refuses(value_problem)  # the check that a text can be the value of a label
LabelName = Annotated[str, refuses(label_problem)]
LabelValue = Annotated[str, Printable, WithJsonSchema({"type": ["string", "number", "boolean"], "maxLength": MAX_LABEL_VALUE, "title": "text"})]
"""Printable text. A number in YAML keeps its text: 1.10 stays 1.10."""
Labels = Annotated[Mapping[LabelName, LabelValue], Field(max_length=MAX_LABELS)]
# fmt: on
