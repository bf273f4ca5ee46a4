"""The requests that are counted together."""

from __future__ import annotations

from spec_decode_exporter.requests.request_findings import GroupKey
from spec_decode_exporter.requests.since_start import SinceStart


class RequestGroup:
    """A group; where one of its labels loses its slot, another is its heir in the windows."""

    __slots__ = ("_key", "heir", "since_start")

    def __init__(self, key: GroupKey) -> None:
        self._key = key
        self.heir: RequestGroup | None = None
        self.since_start = SinceStart()

    @property
    def key(self) -> GroupKey:
        """The name that the group goes by now."""
        return self._key if self.heir is None else self.heir.key
