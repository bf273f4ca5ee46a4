"""The requests that are counted together."""

from __future__ import annotations

from exporter.requests.findings import GroupKey
from exporter.requests.since_start import SinceStart


class Group:
    """A group, by the name that it goes by now: it changes where one of its labels loses its slot."""

    __slots__ = ("key", "since_start")

    def __init__(self, key: GroupKey) -> None:
        self.key = key
        self.since_start = SinceStart()
