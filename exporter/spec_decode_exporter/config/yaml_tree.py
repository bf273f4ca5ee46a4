"""YAML as a tree with the line of every value.

Values keep their text: ``1.10`` is the text ``1.10`` and ``off`` the text ``off`` until the schema converts
them, so that no value becomes a number or a boolean by surprise. Only an empty value, ``~`` and ``null`` are
absent.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import yaml

from spec_decode_exporter.config.yaml_loader import BoundedLoader, BoundError
from spec_decode_exporter.core.files import size_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from spec_decode_exporter.config.mistakes import KeyPath

_PLAIN_TAGS: Final = frozenset(
    f"tag:yaml.org,2002:{name}" for name in ("str", "int", "float", "bool", "null", "seq", "map")
)
_NOTHING: Final = frozenset({"", "~", "null", "Null", "NULL"})
_MAX_DEPTH: Final = 50
_MAX_SHOWN: Final = 200
MAX_YAML_PROBLEMS: Final = 1_000
"""Flaws that are collected."""
_MAX_ALIASED: Final = 100_000
"""Values that aliases repeat, each counted at every repetition: a few bytes of YAML can make billions."""
MAX_BYTES: Final = 4 * 2**20
"""Bytes of a file."""


class YamlError(ValueError):
    """The text cannot be read as YAML."""

    def __init__(self, line: int | None, message: str) -> None:
        super().__init__(message)
        self.line = line


@dataclass(frozen=True, slots=True)
class YamlProblem:
    """A mistake in the tree that leaves the rest of it readable."""

    line: int
    path: KeyPath
    message: str


def read_file(path: Path, max_bytes: int = MAX_BYTES) -> bytes:
    """Return the content of a file, which may also be a pipe or a device.

    Raises:
        YamlError: It is larger than ``max_bytes``.
        OSError: It cannot be read.
    """
    data = read_beginning(path, max_bytes)
    if len(data) > max_bytes:
        raise YamlError(None, f"is larger than {size_text(max_bytes)}")
    return data


def read_beginning(path: Path, max_bytes: int = MAX_BYTES) -> bytes:
    """Return the content of a file, or its first bytes, one more than ``max_bytes``, if it is larger.

    Raises:
        OSError: It cannot be read.
    """
    with path.open("rb") as file:
        return file.read(max_bytes + 1)


def parse(data: bytes) -> yaml.Node | None:
    """Return the tree of a YAML document; None if it is empty.

    Raises:
        YamlError: It is not one document of YAML in UTF-8, or is beyond a bound of ``yaml_loader``.
    """
    with _explaining(data):
        return BoundedLoader(data).get_single_node()


def parse_items(data: bytes) -> Iterator[yaml.Node]:
    """Yield the items of a YAML list one by one, without keeping them.

    Raises:
        NotAListError: The document is not a list.
        YamlError: See ``parse``.
    """
    with _explaining(data):
        yield from BoundedLoader(data).items()


@contextmanager
def _explaining(data: bytes) -> Iterator[None]:
    """Turn the errors of decoding ``data`` and of PyYAML into ``YamlError``."""
    try:
        yield
    except UnicodeDecodeError:
        raise YamlError(_undecodable(data), "is not UTF-8 text; save it as UTF-8") from None
    except yaml.reader.ReaderError as error:
        line = data.decode("utf-8-sig", "replace").count("\n", 0, error.position) + 1
        raise YamlError(line, f"holds the character {error.character:#x}; remove it") from None
    except BoundError as error:
        raise YamlError(_line_of(error), str(error.problem)) from None
    except yaml.MarkedYAMLError as error:
        raise YamlError(_line_of(error), _explained(error)) from None
    except RecursionError:
        raise YamlError(None, "is nested too deeply") from None
    except (yaml.YAMLError, ValueError, OverflowError, LookupError):  # PyYAML raises these for some escapes
        raise YamlError(None, "is not YAML") from None


def _undecodable(data: bytes) -> int | None:
    """Return the line of the first byte that is not UTF-8."""
    try:
        data.decode()
    except UnicodeDecodeError as error:
        return data.count(b"\n", 0, error.start) + 1
    return None


def _line_of(error: yaml.MarkedYAMLError) -> int | None:
    mark = error.problem_mark or error.context_mark
    return None if mark is None else mark.line + 1


def _explained(error: yaml.MarkedYAMLError) -> str:
    """Return PyYAML's problem, with the usual cause if there is one."""
    problem = (error.problem or error.context or "cannot be read")[:_MAX_SHOWN]
    if r"'\t'" in problem:
        problem += "; indent with spaces, not with tabs"
    if "single document" in (error.context or ""):
        problem = "there is a second document; remove it and the `---` before it"
    return f"is not YAML: {problem}"


class TreeReader:
    """Converts a tree into mappings, lists and texts, and collects its problems."""

    def __init__(self, expand: Callable[[str], str] = str) -> None:
        """Read with ``expand`` applied to every text value; its ``ValueError`` becomes a problem."""
        self._expand = expand
        self._values: dict[int, object] = {}
        self._count = self._aliased = 0
        self._sizes: dict[int, int] = {}
        self.problems: list[YamlProblem] = []
        self.broken: set[int] = set()
        """The ids of the nodes that have a problem, for which no further problem is reported."""

    def read(self, node: yaml.Node, path: KeyPath = ()) -> object:
        """Return the node's value. A node with several aliases is read once, so a small file stays small."""
        if not getattr(node, "anchored", False):
            self._count += 1
            return self._value(node, path)
        if id(node) in self._values:
            return self._values[id(node)] if self._may_repeat(node, path) else None
        self._values[id(node)] = None  # the value of an alias inside its own anchor
        before = self._count
        self._count += 1
        self._values[id(node)] = self._value(node, path)
        self._sizes[id(node)] = self._count - before
        return self._values[id(node)]

    def _may_repeat(self, node: yaml.Node, path: KeyPath) -> bool:
        """Count the values of an alias; above the limit, report it once and ignore further aliases."""
        if self._aliased > _MAX_ALIASED:
            return False
        size = self._sizes.get(id(node), 0)
        self._count += size
        self._aliased += size
        if self._aliased > _MAX_ALIASED:
            self._flaw(node, path, f"is repeated by aliases until there are more than {_MAX_ALIASED} values")
        return self._aliased <= _MAX_ALIASED

    def _value(self, node: yaml.Node, path: KeyPath) -> object:
        if node.tag not in _PLAIN_TAGS:
            shown = node.tag[:_MAX_SHOWN]
            self._flaw(node, path, f"has the tag {shown}, which is not supported; remove it")
            return None
        if len(path) > _MAX_DEPTH:
            self._flaw(node, path, "is nested too deeply")
            return None
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            return [self.read(item, (*path, index)) for index, item in enumerate(node.value)]
        return self._text(node, path)

    def _text(self, node: yaml.Node, path: KeyPath) -> object:
        text: str = node.value
        quoted = isinstance(node, yaml.ScalarNode) and node.style is not None
        if not quoted and text in _NOTHING:
            return None
        if not _encodable(text):
            self._flaw(node, path, "holds half of a character; write it in full")
            return None
        try:
            return self._expand(text)
        except ValueError as error:
            self._flaw(node, path, str(error))
            return text

    def _mapping(self, node: yaml.MappingNode, path: KeyPath) -> dict[str, object]:
        """Return the keys that have a value; a key without one counts as absent."""
        values: dict[str, object] = {}
        lines: dict[str, int] = {}
        for key, value in node.value:
            name = key.value
            if not isinstance(key, yaml.ScalarNode) or not _encodable(name):
                self._flaw(key, path, "has a key that is not a plain text")
            elif name in lines:
                self._flaw(
                    key, (*path, name), f"is there twice, first in line {lines[name]}; remove one of the two"
                )
            elif name == "<<":
                _merge(self.read(value, (*path, name)), values)
            else:
                lines[name] = key.start_mark.line + 1
                values[name] = self.read(value, (*path, name))
        return {name: value for name, value in values.items() if value is not None}

    def _flaw(self, node: yaml.Node, path: KeyPath, message: str) -> None:
        if len(self.problems) < MAX_YAML_PROBLEMS:
            self.problems.append(YamlProblem(node.start_mark.line + 1, path, message))
            self.broken.add(id(node))


def _encodable(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)


def _merge(value: object, values: dict[str, object]) -> None:
    """Add the keys of ``<<: *anchor`` or ``<<: [*one, *other]``; existing and earlier keys win."""
    for mapping in value if isinstance(value, list) else [value]:
        for name, merged in mapping.items() if isinstance(mapping, dict) else ():
            values.setdefault(name, merged)


def find(root: yaml.Node | None, path: KeyPath) -> tuple[yaml.Node | None, int]:
    """Return the node at ``path`` and its line, or those of the nearest node around it."""
    node, line = root, 1 if root is None else root.start_mark.line + 1
    for step in path:
        below = next(_children(node, step), None)
        if below is None:
            break
        mark, node = below
        line = mark.start_mark.line + 1
    return node, line


def _children(node: yaml.Node | None, step: str | int) -> Iterator[tuple[yaml.Node, yaml.Node]]:
    """Yield the node with the line of ``step``, a key or an element, and the node of its value."""
    if isinstance(node, yaml.MappingNode):
        yield from ((key, value) for key, value in node.value if key.value == step)
        for key, value in node.value:
            if key.value == "<<":
                yield from _in_merge(value, step)
    if isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
        yield node.value[step], node.value[step]


def _in_merge(value: yaml.Node, step: str | int) -> Iterator[tuple[yaml.Node, yaml.Node]]:
    for mapping in value.value if isinstance(value, yaml.SequenceNode) else [value]:
        if isinstance(mapping, yaml.MappingNode):
            yield from ((key, below) for key, below in mapping.value if key.value == step)
