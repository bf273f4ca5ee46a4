"""Copy dashboards, rules, alerts and vLLM's middleware into the chart: ``make chart-files``.

Helm reads only files inside the chart. The copies are not committed; every build of the chart makes them.
The module needs the standard library alone, because users who install from a checkout run it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
CHART: Final = ROOT / "helm" / "spec-decode-exporter"

_SOURCES: Final = {
    "files/dashboards/": "grafana/dashboards/*.json",
    "files/prometheus/alerts-": "config/prometheus/alerts/*.yml",
    "files/prometheus/rules-": "config/prometheus/rules/*.yml",
    "files/middleware/": "exporter/spec_decode_exporter/vllm_middleware/spec_decode_requests.py",
}
_EXCLUDED: Final = frozenset({"raw-counters.yml"})
"""For Prometheus servers without an exporter."""


def copies() -> Mapping[Path, str]:
    """Return the text of every file that the chart copies from the repository."""
    return {
        CHART / f"{place}{source.name}": source.read_text(encoding="utf-8")
        for place, pattern in _SOURCES.items()
        for source in sorted(ROOT.glob(pattern))
        if source.name not in _EXCLUDED
    }


def write_copies() -> None:
    """Write the copies that differ from their sources, and remove files without a source."""
    texts = copies()
    for path in (CHART / "files").rglob("[!.]*.*"):
        if path not in texts:
            path.unlink()
    for path, text in texts.items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            _replace(path, text)


def _replace(path: Path, text: str) -> None:
    """Write a file in one step: tests in other processes read it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.{os.getpid()}")
    new.write_text(text, encoding="utf-8")
    new.replace(path)


if __name__ == "__main__":
    write_copies()
