"""All rows of model servers: their responses, their pods and the environment."""

from __future__ import annotations

from typing import Final

from tests.hostile import pod_arguments, server_answers, server_details, server_pages
from tests.hostile.row import Row

ROWS: Final[tuple[Row, ...]] = (
    *server_pages.ROWS,
    *server_answers.ROWS,
    *server_details.ROWS,
    *pod_arguments.ROWS,
)
