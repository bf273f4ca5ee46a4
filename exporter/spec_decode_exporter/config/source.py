"""Configuration source: the readable part of a file, and the mistakes in it."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pydantic import BaseModel, ValidationError

from spec_decode_exporter.config.environment import FromVariable
from spec_decode_exporter.config.errors import ConfigError, Problem, dotted
from spec_decode_exporter.config.explain import explain
from spec_decode_exporter.config.yaml_tree import TreeReader, YamlError, find, parse, read_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import yaml

    from spec_decode_exporter.config.errors import Path as KeyPath
    from spec_decode_exporter.config.values import Context

FLAGS: Final = "command line"
"""The place of a mistake in a flag. The place of a mistake in a variable is its name."""

_MAX_PROBLEMS: Final = 100
"""Mistakes that are reported; the search for the line of each takes time."""

Model = TypeVar("Model", bound=BaseModel)


@dataclass(slots=True)
class Source:
    """A configuration file, or the part of it that is readable."""

    name: str
    root: yaml.Node | None = None
    data: dict[str, Any] = field(default_factory=dict)
    problems: list[tuple[int, Problem]] = field(default_factory=list)
    broken: set[int] = field(default_factory=set)
    overridden: list[KeyPath] = field(default_factory=list)
    omitted: int = 0

    def add_problem(self, path: KeyPath, message: str, line: int | None = None) -> None:
        """Add a mistake at its line, unless the value already has one."""
        if len(self.problems) >= _MAX_PROBLEMS:
            self.omitted += 1
            return
        flagged = self.name == FLAGS or any(path[: len(known)] == known for known in self.overridden)
        if line is None and flagged:
            self.problems.append((0, Problem(_origin(self.data, path), dotted(path), message)))
            return
        node, node_line = find(self.root, path)
        if line is not None or id(node) not in self.broken:
            place = f"{self.name}:{line or node_line}" if self.root is not None else self.name
            self.problems.append((line or node_line, Problem(place, dotted(path), message)))

    def validated(self, model: type[Model], context: Context) -> Model:
        """Return the data as a ``model``.

        Raises:
            ConfigError: It is not valid.
        """
        try:
            return model.model_validate(self.data, context=context)
        except ValidationError as error:
            details = error.errors(include_url=False)
            self.omitted += len(details[_MAX_PROBLEMS:])
            for detail in details[:_MAX_PROBLEMS]:
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
        if self.omitted:
            ordered.append(Problem(self.name, "", f"and {self.omitted} more mistakes"))
        return ConfigError(dict.fromkeys(ordered))


def _origin(data: object, path: KeyPath) -> str:
    """Return the origin of the value at ``path``, or of the nearest one around it: a variable or a flag."""
    for step in path:
        below = _below(data, step)
        if below is None:
            break
        data = below
    return next(_variables(data), FLAGS)


def _below(data: object, step: str | int) -> object:
    if isinstance(data, dict):
        return data.get(step)
    return data[step] if isinstance(data, list) and isinstance(step, int) else None


def _variables(data: object) -> Iterator[str]:
    """Yield the names of the variables of the values in ``data``."""
    if isinstance(data, FromVariable):
        yield data.variable
    inside = data.values() if isinstance(data, dict) else data if isinstance(data, list) else ()
    for value in inside:
        yield from _variables(value)


def read_source(path: Path, expand: Callable[[str], str] = str) -> Source:
    """Return the content of the file at ``path``, with ``expand`` applied to every text.

    Raises:
        ConfigError: It cannot be read at all.
    """
    source = Source(str(path))
    try:
        source.root = parse(read_file(path))
    except YamlError as error:
        place = f"{path}:{error.line}" if error.line else str(path)
        raise ConfigError([Problem(place, "", str(error))]) from None
    except OSError as error:
        raise ConfigError([Problem(str(path), "", f"cannot be read: {error.strerror}")]) from None
    if source.root is not None:
        _fill(source, TreeReader(expand), source.root)
    return source


def _fill(source: Source, reader: TreeReader, root: yaml.Node) -> None:
    data = reader.read(root)
    source.broken = reader.broken
    for problem in reader.problems:
        source.add_problem(problem.path, problem.message, problem.line)
    if isinstance(data, dict):
        source.data = copy.copy(data)
    elif data is not None:
        source.add_problem((), "must be a mapping of keys to values, such as `poll:`", 1)
