"""Write the dashboards: ``python -m grafana``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from grafana import engine, overview, requests

FOLDER = Path(__file__).parent / "dashboards"
BOARDS = {board["uid"]: board for board in (overview.BOARD, engine.BOARD, requests.BOARD)}


def documents() -> Iterator[tuple[str, str]]:
    """Return the name and the text of every dashboard's file."""
    for uid, board in BOARDS.items():
        yield f"{uid}.json", json.dumps(board, indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    for name, text in documents():
        (FOLDER / name).write_text(text, encoding="utf-8")
