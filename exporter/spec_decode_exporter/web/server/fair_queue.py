"""Bounded queue that serves clients in turn, so one client's many items delay the others by one item each.

Within a client, the groups of its items take turns too. A full queue evicts the newest item of the largest
group of the client with the most items.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Generic, TypeVar

Item = TypeVar("Item")


class QueueFullError(Exception):
    """The queue is full, and no other client has more items in it."""


def _oldest(items: Sequence[Item]) -> Item:
    return items[0]


class FairQueue(Generic[Item]):
    """Items by client and group, in the order of their turns."""

    def __init__(self, max_items: int, choose: Callable[[Sequence[Item]], Item] = _oldest) -> None:
        """Hold ``max_items``; ``choose`` selects one of the items of a group."""
        self._max_items = max_items
        self._choose = choose
        self._clients: dict[str, dict[Hashable, list[Item]]] = {}
        """Items by client and group. The next in turn comes first; no dictionary or list is empty."""

    def __len__(self) -> int:
        return sum(map(self._count, self._clients))

    def __iter__(self) -> Iterator[Item]:
        return (each for groups in self._clients.values() for items in groups.values() for each in items)

    @property
    def is_full(self) -> bool:
        """Return whether another item evicts one."""
        return len(self) >= self._max_items

    def add(self, item: Item, client: str, group: Hashable = None) -> Item | None:
        """Add an item; return the item that a full queue evicts for it.

        Raises:
            QueueFullError: No other client has more items than ``client``.
        """
        evicted = self._evict(client) if self.is_full else None
        self._clients.setdefault(client, {}).setdefault(group, []).append(item)
        return evicted

    def pop(self, is_eligible: Callable[[str], bool] = lambda _: True) -> tuple[str, Item] | None:
        """Remove and return the next item, with its client; None if no client is eligible.

        Args:
            is_eligible: Return whether a client may be served.
        """
        client = next(filter(is_eligible, self._clients), None)
        if client is None:
            return None
        groups = self._clients[client]
        group = next(iter(groups))
        item = self._choose(groups[group])
        self._remove(item, client, group)
        # To the end, behind the others in turn.
        if group in groups:
            groups[group] = groups.pop(group)
        if client in self._clients:
            self._clients[client] = self._clients.pop(client)
        return client, item

    def discard(self, item: Item) -> None:
        """Remove an item, if it is in the queue."""
        for client, groups in self._clients.items():
            for group, items in groups.items():
                if item in items:
                    self._remove(item, client, group)
                    return

    def _evict(self, client: str) -> Item:
        busiest = max(self._clients, key=self._count, default=client)
        if self._count(busiest) <= self._count(client):
            raise QueueFullError
        groups = self._clients[busiest]
        group = max(groups, key=lambda each: len(groups[each]))
        evicted = groups[group][-1]
        self._remove(evicted, busiest, group)
        return evicted

    def _count(self, client: str) -> int:
        return sum(map(len, self._clients.get(client, {}).values()))

    def _remove(self, item: Item, client: str, group: Hashable) -> None:
        groups = self._clients[client]
        groups[group].remove(item)
        if not groups[group]:
            del groups[group]
        if not groups:
            del self._clients[client]
