"""Monitoring mixin: dashboards, alerts and recording rules as one Jsonnet object."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

PROMETHEUS: Final = Path(__file__).parents[1] / "config" / "prometheus"
_RAW: Final = "raw-counters.yml"
"""Rules for those who have no exporter."""

_TEMPLATE: Final = """\
// Dashboards, alerts and recording rules as a monitoring mixin. Written by `python -m grafana`.
local groups(files) = std.flatMap(function(file) std.parseYaml(file).groups, files);

{{
  grafanaDashboards+:: {{
{dashboards}
  }},

  prometheusAlerts+:: {{
    groups+: groups([
{alerts}
    ]),
  }},

  prometheusRules+:: {{
    groups+: groups([
{rules}
    ]),
  }},
}}
"""


def mixin(dashboards: Iterable[str]) -> str:
    """Return the mixin; its imports are relative to ``grafana/``.

    Args:
        dashboards: Names of the files in ``grafana/dashboards``.
    """
    shown = (f"    '{name}': import 'dashboards/{name}'," for name in dashboards)
    return _TEMPLATE.format(dashboards="\n".join(shown), alerts=_imports("alerts"), rules=_imports("rules"))


def _imports(folder: str) -> str:
    names = sorted(path.name for path in (PROMETHEUS / folder).glob("*.yml") if path.name != _RAW)
    return "\n".join(f"      importstr '../config/prometheus/{folder}/{name}'," for name in names)
