"""Write every file that follows from the code and from ``[project.urls]``: ``python -m docs.generate``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from docs.generate import command_line, configuration, links, log, metrics
from grafana import __main__ as dashboards
from helm import sync
from helm.chart_files import write_copies

_REFERENCE: Final = Path(__file__).parents[1] / "reference"


def generated() -> Iterator[tuple[Path, str]]:
    """Yield each file and its text."""
    yield _REFERENCE / "command-line.md", command_line.markdown()
    yield _REFERENCE / "configuration.md", configuration.markdown()
    yield _REFERENCE / "configuration.schema.json", configuration.json_schema()
    yield _REFERENCE / "log.md", log.with_lists((_REFERENCE / "log.md").read_text(encoding="utf-8"))
    yield _REFERENCE / "metrics.md", metrics.markdown()
    yield from links.generated().items()
    yield from sync.generated().items()
    for name, text in dashboards.documents():
        yield dashboards.FOLDER / name, text


def main() -> None:
    """Write the files, and the copies of some of them in the chart."""
    for path, text in generated():
        path.write_text(text, encoding="utf-8")
    write_copies()


if __name__ == "__main__":
    main()
