"""Merge the targets of all discoveries: each page once, each name once; assign targets to shards."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from hashlib import md5
from itertools import count
from typing import TYPE_CHECKING, Final, TypeAlias
from urllib.parse import urlsplit

from spec_decode_exporter.config.labels import MAX_LABEL_VALUE, MAX_LABELS
from spec_decode_exporter.core.cooperative_yield import Pausing, finish
from spec_decode_exporter.core.urls import Url, address

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from spec_decode_exporter.discovery.target import Target

SLICE: Final = 64
"""Targets between two cooperative yields: about a millisecond of work."""
_MAX_NUMBER: Final = 8
"""Maximum characters of ``#`` and the number that distinguish targets of the same path."""
_MAX_JOINED: Final = MAX_LABELS + 1
"""Maximum labels of one page from one result. The one beyond the limit makes the excess visible in the log.

Without this limit, a list with other labels at each repetition of a page takes quadratic time.
"""

_Page: TypeAlias = Url
"""Identity of a page."""


def merge(results: Iterable[Sequence[Target]]) -> tuple[Target, ...]:
    """Return each page once and each name once.

    A repeated page keeps its first name and settings. Its labels are joined; the first value of each counts.
    A second page of the same name gets its ``host:port`` as name, then its path too, then a number.
    """
    return finish(merging(results))


def merging(results: Iterable[Sequence[Target]]) -> Pausing[tuple[Target, ...]]:
    """Merge like ``merge``, with cooperative yields."""
    pages: dict[_Page, Target] = {}
    for targets in results:
        # Each result separately: repeated labels of one list must not displace those of another.
        own = yield from _pages(targets)
        yield from _join(pages, own.items())
    named: list[Target] = []
    for target in _with_unique_names(pages.values()):
        named.append(target)
        if len(named) % SLICE == 0:
            yield
    return tuple(named)


def shard_of(target: Target, shards: int) -> int:
    """Return the number of the exporter, from 0 to ``shards - 1``, that monitors a target.

    It depends on the address only. The name depends on the other targets, which two exporters may see at
    different times.
    """
    return hash_modulus(address(target.url), shards)


def hash_modulus(text: str, modulus: int) -> int:
    """Return the result of Prometheus' ``action: hashmod`` (``model/relabel/relabel.go``)."""
    digest = md5(text.encode(), usedforsecurity=False).digest()
    return int.from_bytes(digest[8:]) % modulus


def _pages(targets: Sequence[Target]) -> Pausing[dict[_Page, Target]]:
    """Return the targets of one result, each page once with a limited number of labels."""
    pages: dict[_Page, Target] = {}
    yield from _join(pages, ((Url.of(target.url), target) for target in targets), _MAX_JOINED)
    return pages


def _join(
    pages: dict[_Page, Target], entries: Iterable[tuple[_Page, Target]], max_labels: int | None = None
) -> Pausing[None]:
    """Add targets to ``pages``; of a page that is already present, only further labels."""
    for number, (page, target) in enumerate(entries):
        pages[page] = _with_labels(pages[page], target, max_labels) if page in pages else target
        if number % SLICE == SLICE - 1:
            yield


def _with_labels(first: Target, other: Target, max_labels: int | None) -> Target:
    known = dict(first.labels)
    added = [pair for pair in other.labels if pair[0] not in known]
    if max_labels is not None:
        del added[max(0, max_labels - len(known)) :]
    return replace(
        first,
        labels=tuple(sorted((*first.labels, *added))) if added else first.labels,
        method_label=first.method_label or other.method_label,
        pod_arguments=first.pod_arguments or other.pod_arguments,
    )


def _with_unique_names(targets: Iterable[Target]) -> Iterator[Target]:
    taken: set[str] = set()
    # One counter for each path: starting at 2 each time would take quadratic time.
    numbers: defaultdict[str, Iterator[int]] = defaultdict(lambda: count(2))
    for target in targets:
        name = next(name for name in _names(target, numbers) if name not in taken)
        taken.add(name)
        yield target if name == target.name else replace(target, name=name)


def _names(target: Target, numbers: Mapping[str, Iterator[int]]) -> Iterator[str]:
    """Yield candidate names of a target, best first, without end."""
    host = address(target.url)
    path = (host + urlsplit(target.url).path)[: MAX_LABEL_VALUE - _MAX_NUMBER]
    yield from (target.name, host, path)
    yield from (f"{path}#{number}" for number in numbers[path])
