"""Interface of all discoveries: files, HTTP lists, DNS names and Kubernetes namespaces."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spec_decode_exporter.discovery.target import Target


class DiscoveryError(Exception):
    """Failed discovery. The text is logged; it contains no secret."""

    def __init__(self, message: str, targets: Sequence[Target] | None = None) -> None:
        """Publish ``targets`` in spite of the failure; None keeps the previous targets."""
        super().__init__(message)
        self.targets = targets


class TargetDiscovery(Protocol):
    """One file pattern, list, DNS name or namespace, and its targets."""

    name: str
    """Name in the log: the kind, and the pattern, address or DNS name."""
    key: str
    """Identity; the name may lack a port or a secret query. Not for the log."""

    @property
    def refresh(self) -> float:
        """Seconds from the end of one refresh to the next; 0 if a refresh waits for a change itself."""
        ...

    async def targets(self) -> Sequence[Target]:
        """Refresh and return the targets.

        Raises:
            DiscoveryError: All or some of the targets are unknown.
        """
        ...
