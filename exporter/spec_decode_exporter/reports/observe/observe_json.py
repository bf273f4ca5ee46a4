"""A report as JSON: the models of the API, in characters that every terminal takes."""

from __future__ import annotations

import json

from spec_decode_exporter.views.models import ObservationView

_DELETE = "\x7f"
"""The one control character that JSON leaves as it is."""


def json_report(view: ObservationView, *, indented: bool = True) -> str:
    """Return an observation as JSON, in one line or indented; it ends with a line's end."""
    written = json.dumps(view.model_dump(mode="json"), indent=2 if indented else None)
    return written.replace(_DELETE, "\\u007f") + "\n"
