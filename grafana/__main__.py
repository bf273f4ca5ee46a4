"""Write the dashboards: ``python -m grafana [FOLDER]``."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from grafana.engine import engine
from grafana.overview import overview
from grafana.requests import requests

FOLDER = Path(__file__).parent / "dashboards"

BOARDS: Mapping[str, Callable[[], Mapping[str, Any]]] = {
    "spec-decode-overview": overview,
    "spec-decode-engine": engine,
    "spec-decode-requests": requests,
}


def documents() -> Iterator[tuple[str, str]]:
    """Return the name and the text of every dashboard's file."""
    for uid, make in BOARDS.items():
        yield f"{uid}.json", json.dumps(make(), indent=2, ensure_ascii=False) + "\n"


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the files."""
    given = sys.argv[1:] if arguments is None else arguments
    folder = Path(given[0]) if given else FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in documents():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
