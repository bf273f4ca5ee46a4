"""Read a list of target groups from JSON or YAML, group by group, with limits before validation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from spec_decode_exporter.config.yaml_loader import NotAListError
from spec_decode_exporter.config.yaml_tree import TreeReader, YamlError, parse_items
from spec_decode_exporter.core.json_reader import JsonError, JsonReader
from spec_decode_exporter.discovery.target_discovery import DiscoveryError

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

Entries: TypeAlias = "Generator[object, None, bool]"
"""Yields pauses; returns True if all entries are texts."""

MAX_LIST_BYTES: Final = 4 * 2**20
"""Maximum bytes of a list."""
MAX_GROUPS: Final = 10_000
"""Maximum groups of a list."""
MAX_TARGETS: Final = 10_000
"""Maximum targets of a list."""
MAX_GROUP_LABELS: Final = 256
"""Maximum labels of a group, including those that no target keeps, such as ``__meta_…``."""
MAX_LIST_LABELS: Final = 50_000
"""Maximum labels of all groups of a list: some 8 MB."""

MAX_TEXT_CHARACTERS: Final = 16 * 2**10
"""Maximum characters of one text, as written in the document."""

PAUSE: Final = object()
"""Marker between groups: the caller yields to the event loop."""

_MAX_PROBLEMS: Final = 3


def groups_of(decoded: object) -> Iterator[object]:
    """Yield the groups of a decoded list.

    Raises:
        DiscoveryError: The document is not a list.
    """
    if not isinstance(decoded, list):
        raise _not_a_list("a mapping" if isinstance(decoded, dict) else "a single value")
    yield from decoded


def json_groups(data: bytes) -> Iterator[object]:
    """Yield the decoded groups of a JSON document, and ``PAUSE`` at short intervals.

    A group ends at its first invalid value: validation rejects it.

    Raises:
        DiscoveryError: The document is not a list in JSON, or exceeds a limit.
    """
    try:
        reader = JsonReader(data, MAX_TEXT_CHARACTERS)
        kind = reader.kind()
        if kind and kind != "[":
            raise _not_a_list("a mapping" if kind == "{" else "a single value")
        for number in reader.elements():
            yield from _json_group(reader, f"[{number}]")
        reader.end()
    except JsonError as error:
        raise DiscoveryError(f"line {error.line} {error}") from None


def yaml_groups(data: bytes) -> Iterator[object]:
    """Yield the decoded groups of a YAML document.

    Raises:
        DiscoveryError: The document is not a list in YAML, or exceeds a limit.
    """
    reader = TreeReader()
    try:
        for number, node in enumerate(parse_items(data)):
            group = reader.read(node, (number,))
            if reader.problems:
                problems = reader.problems[:_MAX_PROBLEMS]
                raise DiscoveryError(
                    "; ".join(f"line {problem.line} {problem.message}" for problem in problems)
                )
            yield group
    except NotAListError:
        raise _not_a_list("a mapping or a text") from None
    except YamlError as error:
        raise DiscoveryError(f"line {error.line or 1} {error}") from None


def _json_group(reader: JsonReader, place: str) -> Iterator[object]:
    """Yield pauses, then one group."""
    if reader.kind() != "{":
        yield reader.value()
        return
    group: dict[str, object] = {}
    for key in reader.members():
        kind = reader.kind()
        is_valid = False
        if (key, kind) == ("targets", "["):
            is_valid = yield from _json_targets(reader, group, place)
        elif (key, kind) == ("labels", "{"):
            is_valid = yield from _json_labels(reader, group, place)
        else:
            group[key] = reader.value()
        if not is_valid:
            break
    if reader.due():
        yield PAUSE
    yield group


def _json_targets(reader: JsonReader, group: dict[str, object], place: str) -> Entries:
    targets: list[object] = []
    group["targets"] = targets
    for number in reader.elements():
        if number == MAX_TARGETS:
            raise DiscoveryError(f"{place}.targets has more than {MAX_TARGETS} targets")
        targets.append(reader.value())
        if not isinstance(targets[-1], str):
            return False
        if reader.due():
            yield PAUSE
    return True


def _json_labels(reader: JsonReader, group: dict[str, object], place: str) -> Entries:
    labels: dict[str, object] = {}
    group["labels"] = labels
    for name in reader.members():
        if len(labels) == MAX_GROUP_LABELS:
            raise DiscoveryError(f"{place}.labels has more than {MAX_GROUP_LABELS} labels")
        labels[name] = reader.value()
        if not isinstance(labels[name], str):
            return False
        if reader.due():
            yield PAUSE
    return True


def _not_a_list(kind: str) -> DiscoveryError:
    return DiscoveryError(f"the list must be a list, not {kind}")
