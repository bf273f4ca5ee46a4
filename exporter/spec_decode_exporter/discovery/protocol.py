"""What each way of finding servers has in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spec_decode_exporter.discovery.target import Target


class DiscoveryError(Exception):
    """The targets could not be found out. The text goes into the log; it holds no secret."""

    def __init__(self, message: str, targets: Sequence[Target] | None = None) -> None:
        """Keep ``targets``, those that are known in spite of it; None leaves all as they were before."""
        super().__init__(message)
        self.targets = targets


class TargetDiscovery(Protocol):
    """One file pattern, one list, one DNS name or one namespace, and the targets behind it."""

    name: str
    """What it is called in the log: its kind and its pattern, address or name."""
    key: str
    """What tells it from all others: its name may leave out a port or a secret query. Not for the log."""

    @property
    def refresh(self) -> float:
        """Seconds from the end of one look to the next; none where a look waits until something changes."""
        ...

    async def targets(self) -> Sequence[Target]:
        """Look again.

        Raises:
            DiscoveryError: The targets cannot be found out, or not all of them.
        """
        ...
