"""A Prometheus exporter that says what vLLM's speculative-decoding counters mean now.

From a program, ``exporter.observe("localhost:8000")`` watches a server for a while and returns what was seen.
"""

import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from exporter.observation import observe, observe_async

__all__ = ["REVISION", "__version__", "observe", "observe_async"]

__version__ = "0.1.0"

REVISION = os.environ.get("SPEC_DECODE_EXPORTER_REVISION", "unknown")
"""The revision that the image was built from; the build passes it on."""


def __getattr__(name: str) -> Any:  # noqa: ANN401  what the module has under that name
    """Import the functions for programs where they are asked for: the commands need no more than they use."""
    if name in ("observe", "observe_async"):
        from exporter import observation

        return getattr(observation, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
