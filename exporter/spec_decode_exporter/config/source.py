"""Read a YAML file with the line of each key, validate it, and explain every mistake in plain words.

Values keep their text until the schema converts them, so that ``1.10`` and ``off`` do not become a number and
a boolean by surprise. Only an empty value, ``~`` and ``null`` are absent.
"""

from __future__ import annotations

import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from spec_decode_exporter.config.mistakes import (
    ConfigError,
    KeyPath,
    Mistake,
    MistakesError,
    Problem,
    dotted,
    near_name,
)
from spec_decode_exporter.config.types import MAX_FILE_BYTES, Context, Expanded
from spec_decode_exporter.core.files import size_text
from spec_decode_exporter.core.numbers import MAX_TEXT

if typing.TYPE_CHECKING:
    from pydantic_core import ErrorDetails

MAX_VALUES: Final = 50_000
"""Keys and values of a file: about 13 MB and 2 s. An alias can make billions of a few bytes: its values count
at each repetition, and each 100 characters of a text or a key as one more."""
FLAGS: Final = "command line or environment"  # the place of a mistake in a flag, or in its variable
MAX_PROBLEMS: Final = 100
"""Mistakes that are reported: of a file, and of the labels and pods that one discovery ever has."""
_NOTHING: Final = frozenset({"", "~", "null", "Null", "NULL"})
_PLAIN_TAGS: Final = frozenset(
    f"tag:yaml.org,2002:{name}" for name in ("str", "int", "float", "bool", "null", "seq", "map")
)
_MESSAGES: Final[dict[str, str]] = {
    "missing": "is missing",
    "string_type": "must be a text, not {input}",
    "path_type": "must be the name of a file, not {input}",
    **dict.fromkeys(("float_type", "float_parsing"), "must be a number, not {input}"),
    "finite_number": "must be a finite number, not {input}",
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), "must be a whole number, not {input}"),
    "int_parsing_size": "is too large a number",
    **dict.fromkeys(("bool_type", "bool_parsing"), "must be true or false, not {input}"),
    "tuple_type": "must be a list, not {input}; write `- ` before each of its elements",
    **dict.fromkeys(("dict_type", "mapping_type"), "must be a mapping of names to values, not {input}"),
    "model_type": "must be a mapping of keys to values, not {input}",
    "literal_error": "must be {expected}, not {input}",
    "greater_than": "must be more than {gt:g}",
    "greater_than_equal": "must be at least {ge:g}",
    "less_than": "must be less than {lt:g}",
    "less_than_equal": "must be at most {le:g}",
    "string_unicode": "holds half of a character",
    "string_too_short": "must not be empty",
    "too_long": "has more than {max_length} entries; remove some",
    "string_too_long": "must be at most {max_length} characters long",
}
"""By pydantic's type of error; ``input`` is the result of ``_shown``."""

Model = TypeVar("Model", bound=BaseModel)


@dataclass(slots=True)
class Source:
    """Content of a file with the line of each value, and the mistakes in it."""

    name: str
    data: Any = field(default_factory=dict)
    lines: dict[KeyPath, int] = field(default_factory=dict)
    empty: list[KeyPath] = field(default_factory=list)
    """Keys without a value; they are absent from ``data``."""
    overridden: list[KeyPath] = field(default_factory=list)
    """Keys whose values are those of flags."""
    broken: set[KeyPath] = field(default_factory=set)
    """Values that have a mistake already."""
    problems: list[tuple[int, Problem]] = field(default_factory=list)
    """Mistakes by their line; 0 for those of flags."""

    def add_problem(self, path: KeyPath, message: str, line: int = 0) -> None:
        """Add a mistake at a line, by default that of the value or of the nearest one around it."""
        if line == 0 and (self.name == FLAGS or any(path[: len(key)] == key for key in self.overridden)):
            self.problems.append((0, Problem(FLAGS, dotted(path), message)))
        elif line or path not in self.broken:
            around = (path[:end] for end in range(len(path), -1, -1))
            line = line or next((self.lines[place] for place in around if place in self.lines), 1)
            place = f"{self.name}:{line}" if self.lines else self.name
            self.problems.append((line, Problem(place, dotted(path), message)))

    def validated(self, model: type[Model], context: Context) -> Model:
        """Return the data as a ``model``.

        Raises:
            ConfigError: It is not valid.
        """
        try:
            return model.model_validate(self.data, context=context)
        except ValidationError as error:
            details = error.errors(include_url=False)
            for detail in details[: MAX_PROBLEMS + 1]:
                for path, message in explain(detail, model):
                    self.add_problem(path, message)
            raise self._error() from None

    def refuse(self) -> None:
        """Raise ConfigError if there is a mistake."""
        if self.problems:
            raise self._error()

    def _error(self) -> ConfigError:
        """Return the mistakes in the order of the file."""
        ordered = [problem for _, problem in sorted(self.problems, key=lambda entry: entry[0])]
        if len(ordered) > MAX_PROBLEMS:
            ordered[MAX_PROBLEMS:] = [Problem(self.name, "", "has more mistakes")]
        return ConfigError(dict.fromkeys(ordered))


def read_source(path: Path, expand: Callable[[str], str] = str) -> Source:
    """Return the mapping in the YAML file at ``path``, with ``expand`` applied to every text.

    Raises:
        ConfigError: It cannot be read at all.
    """
    try:
        with path.open("rb") as file:  # or a pipe
            source = source_of(file.read(MAX_FILE_BYTES + 1), str(path), expand)
    except OSError as error:
        raise ConfigError([Problem(str(path), "", f"cannot be read: {error.strerror}")]) from None
    if not isinstance(source.data, dict | None):
        source.add_problem((), "must be a mapping of keys to values, such as `poll:`", 1)
    source.data = source.data if isinstance(source.data, dict) else {}
    return source


def source_of(data: bytes, name: str, expand: Callable[[str], str] = str) -> Source:
    """Return the content of a YAML document; ``name`` is that of its file, for messages.

    Raises:
        ConfigError: It is not one document of YAML in UTF-8, or exceeds a limit.
    """
    source, text, line = Source(name), "", 0
    try:
        if len(data) > MAX_FILE_BYTES:
            raise _BoundError(problem=f"is larger than {size_text(MAX_FILE_BYTES)}")
        text = data.decode("utf-8-sig")
        root = _Loader(text).get_single_node()
        source.data = None if root is None else _Reader(source, expand).value(root, ())
    except UnicodeDecodeError as error:
        line, problem = data.count(b"\n", 0, error.start) + 1, "is not UTF-8 text; save it as UTF-8"
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        problem = f"holds the character {error.character:#x}; remove it"
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, problem = 0 if mark is None else mark.line + 1, _yaml_problem(error)
    except RecursionError:  # of an alias, which may lead into itself
        problem = "is nested too deeply"
    except (yaml.YAMLError, ValueError, OverflowError, LookupError):  # PyYAML raises these for some escapes
        problem = "is not YAML"
    else:
        return source
    raise ConfigError([Problem(f"{name}:{line}" if line else name, "", problem)])


def _yaml_problem(error: yaml.MarkedYAMLError) -> str:
    """Return PyYAML's problem, with the usual cause if there is one."""
    if isinstance(error, _BoundError):
        return str(error.problem)
    if "single document" in (error.context or ""):
        return "is not YAML: there is a second document; remove it and the `---` before it"
    problem = (error.problem or error.context or "cannot be read")[:MAX_TEXT]
    return f"is not YAML: {problem}" + ("; indent with spaces, not with tabs" if r"'\t'" in problem else "")


class _BoundError(yaml.MarkedYAMLError):
    """The document exceeds a limit."""


class _Loader(yaml.BaseLoader):
    """Composes a tree within limits, in Python: other threads run beside it, unlike libyaml's loader."""

    values = 0
    mark: yaml.Mark | None = None

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:  # noqa: ANN401  as PyYAML
        """Compose a node within the limit."""
        self.values += 1
        if self.values > MAX_VALUES:
            problem = f"has more than {MAX_VALUES} values"
            raise _BoundError(problem=problem, problem_mark=self.get_mark())
        return super().compose_node(parent, index)

    def get_mark(self) -> yaml.Mark:
        """Return the position of the next character: one object for all nodes of a line, to save memory."""
        if self.mark is None or self.mark.line != self.line:
            self.mark = super().get_mark()
        return self.mark


@dataclass(slots=True)
class _Reader:
    """Converts a tree into mappings, lists and texts with their lines, and collects its mistakes."""

    source: Source
    expand: Callable[[str], str]
    count: int = 0

    def value(self, node: yaml.Node, path: KeyPath, line: int = 0) -> object:
        """Return a node's value; None if it has none, or a mistake. ``line`` is that of its key."""
        self.source.lines[path] = line or node.start_mark.line + 1
        self.count += 1 + len(node.value) // 100
        if self.count > MAX_VALUES:
            problem = f"is repeated by aliases until there are more than {MAX_VALUES} values"
            raise _BoundError(problem=problem, problem_mark=node.start_mark)
        if flaw := _flaw(node):
            self.flaw(node, path, flaw)
            return None
        if isinstance(node, yaml.MappingNode):
            return self.mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            return [self.value(item, (*path, index)) for index, item in enumerate(node.value)]
        if node.value in _NOTHING and getattr(node, "style", None) is None:
            return None
        try:
            return self.expand(node.value)
        except ValueError as error:
            self.flaw(node, path, str(error))
            return str(node.value)

    def mapping(self, node: yaml.MappingNode, path: KeyPath) -> dict[str, object]:
        """Return the keys that have a value. Own keys replace those of ``<<``, of which the first counts."""
        values: dict[str, object] = {}
        merged = (value for key, value in reversed(node.value) if key.value == "<<")
        for one in merged:
            for part in reversed(one.value) if isinstance(one, yaml.SequenceNode) else [one]:
                found = self.value(part, path, self.source.lines[path])
                values |= found if isinstance(found, dict) else {}
        own: dict[str, object] = {}
        for key, value in node.value:
            name, place, line = key.value, (*path, key.value), key.start_mark.line + 1
            self.count += len(name) // 100
            if not isinstance(key, yaml.ScalarNode) or not _encodable(name):
                self.source.add_problem(path, "has a key that is not a plain text", line)
            elif name in own:
                twice = f"is there twice, first in line {self.source.lines[place]}; remove one of the two"
                self.source.add_problem(place, twice, line)
            elif name != "<<":
                own[name] = self.value(value, place, line)
        self.source.empty += [(*path, name) for name, value in own.items() if value is None]
        return {name: value for name, value in (values | own).items() if value is not None}

    def flaw(self, node: yaml.Node, path: KeyPath, message: str) -> None:
        """Add a mistake of a value that leaves the rest of the file readable."""
        self.source.add_problem(path, message, node.start_mark.line + 1)
        self.source.broken.add(path)


def _flaw(node: yaml.Node) -> str | None:
    """Return what a node may not have: a tag, or half of a character."""
    if node.tag not in _PLAIN_TAGS:
        return f"has the tag {node.tag[:MAX_TEXT]}, which is not supported; remove it"
    is_text = isinstance(node, yaml.ScalarNode)
    return "holds half of a character; write it in full" if is_text and not _encodable(node.value) else None


def _encodable(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)


def explain(error: ErrorDetails, model: type[BaseModel]) -> Iterator[Mistake]:
    """Yield the mistakes in one error of pydantic's, in plain words."""
    path = tuple(step for step in error["loc"] if step != "[key]")  # pydantic's step for a wrong key
    context = error.get("ctx", {})
    cause = context.get("error")
    if error["type"] == "default_factory_not_called":
        return  # it follows from another one
    if isinstance(cause, MistakesError):
        yield from (((*path, *below), message) for below, message in cause.mistakes)
    elif error["type"] == "extra_forbidden":
        yield path, near_name(str(path[-1]), _known_keys(model, path[:-1]), "known key here")
    elif error["type"] in _MESSAGES:
        yield path, _MESSAGES[error["type"]].format(**{**context, "input": _shown(error["input"])})
    else:
        yield path, str(cause) if cause is not None else f"cannot be used: {error['msg']}"


def _shown(value: object) -> str:
    """Format a value for a message: short, and never the value of an environment variable."""
    if isinstance(value, Expanded):
        return f"the value of {value.origin}"
    if isinstance(value, str):
        return repr(value[:MAX_TEXT]) + ("…" if len(value) > MAX_TEXT else "")
    return "a list" if isinstance(value, list) else "a mapping"


def _known_keys(model: type[BaseModel], path: KeyPath) -> list[str]:
    """Return the keys of the section at ``path`` below ``model``."""
    here: type[BaseModel] | None = model
    is_inside = False  # in a list or a mapping with free keys: the next step selects an element
    for step in path:
        if is_inside or here is None:
            is_inside = False
            continue
        annotation = here.model_fields[str(step)].annotation
        here = next(models_in(annotation), None)
        is_inside = typing.get_origin(annotation) in {tuple, Mapping}
    return list(here.model_fields) if here is not None else []


def models_in(annotation: object) -> Iterator[type[BaseModel]]:
    """Yield the sections in a type, at any depth of lists and mappings."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in typing.get_args(annotation):
        yield from models_in(argument)
