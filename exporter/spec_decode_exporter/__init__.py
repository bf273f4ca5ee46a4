"""A Prometheus exporter that says what vLLM's speculative-decoding counters mean now.

From a program, ``spec_decode_exporter.observe("localhost:8000")`` observes a server for a while and returns
what it measured.
"""

from typing import TYPE_CHECKING, Any

from spec_decode_exporter.core.version import REVISION, __version__

if TYPE_CHECKING:
    from spec_decode_exporter.reports.observe.session import observe, observe_async

__all__ = ["REVISION", "__version__", "observe", "observe_async"]


def __getattr__(name: str) -> Any:  # noqa: ANN401  what the module has under that name
    """Import the functions for programs where they are asked for: the commands need no more than they use."""
    if name in ("observe", "observe_async"):
        from spec_decode_exporter.reports.observe import session

        return getattr(session, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
