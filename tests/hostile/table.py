"""Table of all untrusted inputs, for the tests and the benchmark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tests.hostile import clients, discovery_entries, history, lists, middleware, servers, values
from tests.hostile.row import Row

TABLE: Final[tuple[Row, ...]] = (
    *servers.ROWS,
    *values.ROWS,
    *lists.ROWS,
    *discovery_entries.ROWS,
    *history.ROWS,
    *clients.ROWS,
    *middleware.ROWS,
)

BY_NAME: Final[Mapping[str, Row]] = {row.name: row for row in TABLE}
