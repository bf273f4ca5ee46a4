"""Table of all untrusted inputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tests.robustness.inputs import (
    clients,
    discovery_entries,
    files,
    history,
    lists,
    middleware,
    pods,
    server_pages,
    speculation_settings,
)  # fmt: skip
from tests.robustness.inputs.row import Row

TABLE: Final[tuple[Row, ...]] = (
    *server_pages.ROWS,
    *speculation_settings.ROWS,
    *lists.ROWS,
    *pods.ROWS,
    *files.ROWS,
    *discovery_entries.ROWS,
    *history.ROWS,
    *clients.ROWS,
    *middleware.ROWS,
)

BY_NAME: Final[Mapping[str, Row]] = {row.name: row for row in TABLE}
