"""Match of a monitored target to the servers of a history: by its address, else by its labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from spec_decode_exporter.core.urls import address
from spec_decode_exporter.discovery.target import Target
from spec_decode_exporter.history.history_targets import HistoryTarget
from spec_decode_exporter.history.query_api import HistoryError

_NAMED: Final = 3
"""Servers that an error names."""
_NAME_LENGTH: Final = 60


def server_of(target: Target, servers: Sequence[HistoryTarget], *, is_only_target: bool) -> HistoryTarget:
    """Return the server of a history that is a target.

    It is that with the target's address or name as ``instance``; of several, or without one, that whose
    labels agree with the target's. One server alone is that of one target alone.

    Args:
        target: Monitored target.
        servers: Servers that match.
        is_only_target: No other target uses these servers.

    Raises:
        HistoryError: None fits, or several do.
    """
    names = {address(target.url), target.name}
    found = [server for server in servers if server.labels.get("instance") in names]
    if len(found) != 1:
        found = [server for server in found or servers if _agrees(target, server)] or found
    if not found and is_only_target and len(servers) == 1:
        found = list(servers)
    if len(found) == 1:
        return found[0]
    if found:
        raise HistoryError(
            f"{len(found)} servers there fit this target: {_listed(found)}; choose one by `match`"
        )
    raise HistoryError(
        f"none of the {len(servers)} servers there is this target: {_listed(servers)}. None has the instance "
        f"{address(target.url)} or its labels; choose its server by `match` in a `baseline` of this target"
    )


def _agrees(target: Target, server: HistoryTarget) -> bool:
    """Return whether both have labels in common, all with equal values."""
    common = [(value, server.labels[name]) for name, value in target.labels if name in server.labels]
    return bool(common) and all(own == its for own, its in common)


def _listed(servers: Sequence[HistoryTarget]) -> str:
    names = [_shown(server.name) for server in servers[:_NAMED]]
    return ", ".join(names) + (" and others" if len(servers) > _NAMED else "")


def _shown(name: str) -> str:
    text = "".join(each if each.isprintable() else "?" for each in name)
    return text if len(text) <= _NAME_LENGTH else f"{text[: _NAME_LENGTH - 1]}…"
