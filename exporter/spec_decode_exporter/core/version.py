"""Version of the exporter; the build reads it from here."""

import os

__version__ = "0.1.0"

REVISION = os.environ.get("SPEC_DECODE_EXPORTER_REVISION", "unknown")
"""Revision that the image was built from; the build sets the variable."""
