"""A Prometheus exporter that says what vLLM's speculative-decoding counters mean now."""

import os

__version__ = "0.1.0"

REVISION = os.environ.get("SPEC_DECODE_EXPORTER_REVISION", "unknown")
"""The revision that the image was built from; the build passes it on."""
