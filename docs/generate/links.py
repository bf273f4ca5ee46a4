"""Write ``[project.urls]`` into the chart and the alerts, for ``make docs``.

``pyproject.toml`` is the only file in which a person changes them.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

CHECKOUT: Final = Path(__file__).parents[2]
PLACEHOLDER: Final = "https://example.org/"
"""Begin of addresses that no release may have."""
_CHART: Final = CHECKOUT / "helm" / "spec-decode-exporter" / "Chart.yaml"
_ALERTS: Final = CHECKOUT / "config" / "prometheus" / "alerts"
_OF_CHART: Final = re.compile(r"^(home: |sources:\n +- |maintainers:\n.*\n +url: )\S+$", re.MULTILINE)
_OF_RUNBOOK: Final = re.compile(r"(runbook_url: .*\{\{ else \}\})\S+((?:\{\{ end \}\}){2}/docs/runbooks/)")


def urls() -> Mapping[str, str]:
    """Return ``[project.urls]`` of pyproject.toml: ``Homepage`` and ``Documentation``."""
    text = (CHECKOUT / "pyproject.toml").read_text(encoding="utf-8")
    found: dict[str, str] = tomllib.loads(text)["project"]["urls"]
    return found


def generated() -> Mapping[Path, str]:
    """Return the text of every file that contains one of the addresses."""
    own = urls()
    chart = _OF_CHART.sub(rf"\g<1>{own['Homepage']}", _CHART.read_text(encoding="utf-8"))
    pages = own["Documentation"].removesuffix("/docs")
    alerts = {
        path: _OF_RUNBOOK.sub(rf"\g<1>{pages}\g<2>", path.read_text(encoding="utf-8"))
        for path in sorted(_ALERTS.glob("*.yml"))
    }
    return {_CHART: chart, **alerts}
