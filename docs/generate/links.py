"""Write ``[project.urls]`` into the chart, for ``make generate``.

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
_OF_CHART: Final = re.compile(r"^(home: |sources:\n +- |maintainers:\n.*\n +url: )\S+$", re.MULTILINE)


def urls() -> Mapping[str, str]:
    """Return ``[project.urls]`` of pyproject.toml: ``Homepage`` and ``Documentation``."""
    text = (CHECKOUT / "pyproject.toml").read_text(encoding="utf-8")
    found: dict[str, str] = tomllib.loads(text)["project"]["urls"]
    return found


def generated() -> Mapping[Path, str]:
    """Return the text of every file that contains one of the addresses."""
    return {_CHART: _OF_CHART.sub(rf"\g<1>{urls()['Homepage']}", _CHART.read_text(encoding="utf-8"))}
