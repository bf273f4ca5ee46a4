"""Looks and windows that several rows of the engine's dashboard share."""

from __future__ import annotations

from grafana import style
from grafana.panels import Look

SHORT, LONG = "$short", "$long"
RATIO = Look(unit="percentunit", least=0, most=1)
SPEEDUP = Look(unit="none", decimals=2, steps=style.PAYS, no_value="cost unknown", axis=(0.9, None))
TIMES = {"unit": style.TIMES}
