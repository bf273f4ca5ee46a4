"""Translate errors of pydantic into plain messages."""

from __future__ import annotations

import difflib
import typing
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from pydantic import BaseModel

from spec_decode_exporter.config.environment import Expanded
from spec_decode_exporter.config.errors import ProblemsError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pydantic_core import ErrorDetails

    from spec_decode_exporter.config.errors import Path

_KEY: Final = "[key]"
"""Step that pydantic appends to the path if the key of a mapping is wrong, not its value."""

_ECHOES: Final = frozenset({"default_factory_not_called"})
"""Errors that follow from another one, which is reported."""

_MAX_SHOWN: Final = 40

_MESSAGES: Final[dict[str, str]] = {
    "missing": "is missing",
    "string_type": "must be a text, not {input}",
    "path_type": "must be the name of a file, not {input}",
    "float_type": "must be a number, not {input}",
    "float_parsing": "must be a number, not {input}",
    "finite_number": "must be a finite number, not {input}",
    "int_type": "must be a whole number, not {input}",
    "int_parsing": "must be a whole number, not {input}",
    "int_parsing_size": "is too large a number",
    "int_from_float": "must be a whole number, not {input}",
    "bool_type": "must be true or false, not {input}",
    "bool_parsing": "must be true or false, not {input}",
    "tuple_type": "must be a list, not {input}; write `- ` before each of its elements",
    "dict_type": "must be a mapping of names to values, not {input}",
    "mapping_type": "must be a mapping of names to values, not {input}",
    "model_type": "must be a mapping of keys to values, not {input}",
    "literal_error": "must be {expected}, not {input}",
    "greater_than": "must be more than {gt:g}",
    "greater_than_equal": "must be at least {ge:g}",
    "less_than": "must be less than {lt:g}",
    "less_than_equal": "must be at most {le:g}",
    "string_unicode": "holds half of a character",
    "string_too_short": "must not be empty",
    "string_too_long": "must be at most {max_length} characters long",
}
"""By pydantic's type of error; ``input`` is the result of ``_shown``."""


def explain(error: ErrorDetails, model: type[BaseModel]) -> Iterator[tuple[Path, str]]:
    """Yield the path and the message of each mistake in one error of pydantic's."""
    path = tuple(step for step in error["loc"] if step != _KEY)
    context = error.get("ctx", {})
    cause = context.get("error")
    if error["type"] in _ECHOES:
        return
    if isinstance(cause, ProblemsError):
        yield from (((*path, *below), message) for below, message in cause.mistakes)
    elif error["type"] == "extra_forbidden":
        yield path, _unknown(str(path[-1]), known_keys(model, path[:-1]))
    elif error["type"] in _MESSAGES:
        yield path, _MESSAGES[error["type"]].format(**{**context, "input": _shown(error["input"])})
    else:
        yield path, str(cause) if cause is not None else f"cannot be used: {error['msg']}"


def _unknown(key: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(key, known, n=1)
    hint = f"did you mean `{near[0]}`?" if near else f"there are {', '.join(f'`{name}`' for name in known)}"
    return f"is not a known key here; {hint}"


def _shown(value: object) -> str:
    """Write a value for a message: short, and never the value of an environment variable."""
    if isinstance(value, Expanded):
        return f"the value of {value.written}"
    if isinstance(value, str):
        return repr(value) if len(value) <= _MAX_SHOWN else repr(value[:_MAX_SHOWN]) + "…"
    return "a list" if isinstance(value, list) else "a mapping"


def known_keys(model: type[BaseModel], path: Path) -> list[str]:
    """Return the keys of the section at ``path`` below ``model``."""
    here: type[BaseModel] | None = model
    inside = False  # in a list or a mapping with free keys: the next step selects an element
    for step in path:
        if inside or here is None:
            inside = False
            continue
        annotation = here.model_fields[str(step)].annotation
        here = next(models_in(annotation), None)
        inside = _is_container(annotation)
    return list(here.model_fields) if here is not None else []


def models_in(annotation: object) -> Iterator[type[BaseModel]]:
    """Yield the sections in a type, at any depth of lists and mappings."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in typing.get_args(annotation):
        yield from models_in(argument)


def _is_container(annotation: object) -> bool:
    return typing.get_origin(annotation) in {tuple, Mapping}
