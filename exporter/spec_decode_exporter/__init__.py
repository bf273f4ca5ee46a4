"""Prometheus exporter that evaluates vLLM's speculative decoding over sliding windows.

From a program, ``spec_decode_exporter.observe("localhost:8000")`` observes a server for 30 seconds and
returns its measurements.
"""

from typing import TYPE_CHECKING, Any

from spec_decode_exporter.core.version import REVISION, __version__

if TYPE_CHECKING:
    from spec_decode_exporter.reports.observe.session import observe, observe_async

__all__ = ["REVISION", "__version__", "observe", "observe_async"]


def __getattr__(name: str) -> Any:  # noqa: ANN401  any attribute
    """Import the public functions on use, so that a command imports no more than it needs."""
    if name in ("observe", "observe_async"):
        from spec_decode_exporter.reports.observe import session

        return getattr(session, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
