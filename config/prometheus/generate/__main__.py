"""Write everything that is generated: ``python -m config.prometheus.generate``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from config.prometheus.generate.document import markdown
from config.prometheus.generate.output import rule_files
from config.prometheus.generate.settings import load
from config.prometheus.generate.testing import promtool_tests

_HERE = Path(__file__).parents[1]
_DOCS = _HERE.parents[1] / "docs"


def written() -> Iterator[tuple[Path, str]]:
    """Yield every file that is generated, and its text."""
    settings = load()
    for name, text in (*rule_files(settings), *promtool_tests(settings)):
        yield _HERE / name, text
    yield _DOCS / "guide/alerts.md", markdown(settings)


def main() -> None:
    """Write them, and remove what is no longer generated."""
    files = dict(written())
    for folder in ("rules", "alerts", "tests"):
        for path in (_HERE / folder).glob("*.yml"):
            if path not in files:
                path.unlink()
    for path, text in files.items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
