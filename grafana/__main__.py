"""Write the dashboards, a Perses dashboard and the mixin: ``python -m grafana [FOLDER]``."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import dashboard

from grafana.engine.dashboard import engine
from grafana.experiments import experiments
from grafana.health import health
from grafana.mixin import mixin
from grafana.overview import overview
from grafana.perses_dashboard import perses
from grafana.requests import requests

ROOT = Path(__file__).parent
FOLDER = ROOT / "dashboards"

BOARDS: Mapping[str, Callable[[], dashboard.Dashboard]] = {
    "spec-decode-overview": overview,
    "spec-decode-engine": engine,
    "spec-decode-experiments": experiments,
    "spec-decode-requests": requests,
    "spec-decode-exporter": health,
}


IN_PERSES = "spec-decode-engine"
"""The dashboard that is written for Perses too."""


def documents() -> Iterator[tuple[str, str]]:
    """Return the name and the text of every dashboard's file."""
    for uid, make in BOARDS.items():
        yield f"{uid}.json", _text(make())


def files() -> Iterator[tuple[str, str]]:
    """Return the path and the text of every file."""
    boards = dict(documents())
    yield from ((f"dashboards/{name}", text) for name, text in boards.items())
    yield f"perses/{IN_PERSES}.json", _text(perses(json.loads(boards[f"{IN_PERSES}.json"])))
    yield "mixin.libsonnet", mixin(boards)


def _text(document: object) -> str:
    return json.dumps(document, cls=JSONEncoder, indent=2, ensure_ascii=False) + "\n"


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the files."""
    given = sys.argv[1:] if arguments is None else arguments
    folder = Path(given[0]) if given else ROOT
    for name, text in files():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
