"""Table of all untrusted inputs, for the tests and the benchmark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tests.robustness.hostile import (
    clients,
    discovery_entries,
    history,
    lists,
    middleware,
    pod_arguments,
    server_answers,
    server_details,
    server_pages,
    values,
)  # fmt: skip
from tests.robustness.hostile.row import Row

TABLE: Final[tuple[Row, ...]] = (
    *server_pages.ROWS,
    *server_answers.ROWS,
    *server_details.ROWS,
    *pod_arguments.ROWS,
    *values.ROWS,
    *lists.ROWS,
    *discovery_entries.ROWS,
    *history.ROWS,
    *clients.ROWS,
    *middleware.ROWS,
)

BY_NAME: Final[Mapping[str, Row]] = {row.name: row for row in TABLE}
