"""docs/guide/alerts.md: every alert, when it fires, and how to use and change them."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from config.prometheus.generate.alerts import FILES
from config.prometheus.generate.rule import Alert, File
from config.prometheus.generate.settings import Settings, Values, filled

PROSE: Final = Path(__file__).with_name("alerts.md")
"""Everything but the tables."""

_NO_THRESHOLD: Final = frozenset({"severity", "for", "keep_firing_for"})


def markdown(settings: Settings) -> str:
    """Return docs/guide/alerts.md."""
    tables = "\n".join(_file(file, settings) for file in FILES)
    return filled(PROSE.read_text(encoding="utf-8"), {**settings.common, "tables": tables})


def _file(file: File, settings: Settings) -> str:
    rows = [_row(alert, settings.alerts[alert.name]) for alert in file.alerts]
    head = ["| Alert | Severity | After | It says | Thresholds |", "|---|---|---|---|---|"]
    return "\n".join([f"## {file.about.removesuffix('.')}\n", *head, *rows, ""])


def _row(alert: Alert, own: Values) -> str:
    link = f"[{alert.name}](../runbooks/{alert.name}.md)"
    thresholds = ", ".join(f"`{key}` {value}" for key, value in own.items() if key not in _NO_THRESHOLD)
    return f"| {link} | {own['severity']} | {own['for']} | {alert.summary} | {thresholds} |"
