"""Read a list of target groups from JSON or YAML group by group, with bounds before any validation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

from exporter.config.tree import Reader, YamlError, parse_items
from exporter.config.yaml_loader import NotAListError
from exporter.json_reader import JsonError, JsonReader
from exporter.targets.protocol import DiscoveryError

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_BYTES: Final = 4 * 2**20
"""The most bytes of a list."""
MOST_GROUPS: Final = 10_000
"""The most groups of a list."""
MOST_TARGETS: Final = 10_000
"""The most targets of a list."""
MOST_GROUP_LABELS: Final = 256
"""The most labels of a group, with those that no target keeps, such as ``__meta_…``."""
MOST_LABELS: Final = 100_000
"""The most labels of all groups of a list: some 16 MB."""

PAUSE: Final = object()
"""Between groups: the place for a cooperative yield."""

_NOT_A_LIST: Final = "the list must be a list, not {}"
_MOST_FLAWS_SHOWN: Final = 3

Item = TypeVar("Item")


def groups_of(decoded: object) -> Iterator[object]:
    """Yield the groups of a decoded list.

    Raises:
        DiscoveryError: It is not a list.
    """
    if not isinstance(decoded, list):
        raise DiscoveryError(_NOT_A_LIST.format("a mapping" if isinstance(decoded, dict) else "a single value"))
    yield from decoded


def json_groups(data: bytes) -> Iterator[object]:
    """Yield the groups of a JSON document, each decoded, and ``PAUSE`` now and then.

    A group ends at its first wrong value: it is rejected anyway.

    Raises:
        DiscoveryError: The document is not a list in JSON, or beyond a bound.
    """
    try:
        reader = JsonReader(data)
        kind = reader.kind()
        if kind and kind != "[":
            raise DiscoveryError(_NOT_A_LIST.format("a mapping" if kind == "{" else "a single value"))
        labels = 0
        for number in reader.elements():
            if number == MOST_GROUPS:
                raise DiscoveryError(f"has more than {MOST_GROUPS} groups; put more targets into each")
            group = yield from _json_group(reader, f"[{number}]")
            yield group
            labels += len(found) if isinstance(found := _member(group, "labels"), dict) else 0
            if labels > MOST_LABELS:
                raise DiscoveryError(f"has more than {MOST_LABELS} labels; remove some")
        reader.end()
    except JsonError as error:
        raise DiscoveryError(f"line {error.line} {error}") from None
