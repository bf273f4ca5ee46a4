"""Prometheus exporter that evaluates vLLM's speculative decoding over sliding windows.

From a program, ``spec_decode_exporter.observe("localhost:8000")`` observes a server for 30 seconds and
returns its measurements.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from spec_decode_exporter.core.version import REVISION, __version__

if TYPE_CHECKING:
    from spec_decode_exporter.config.mistakes import ConfigError
    from spec_decode_exporter.core.user_errors import ExporterError
    from spec_decode_exporter.reports.observation import observe
    from spec_decode_exporter.reports.observation_view import ObservationView
    from spec_decode_exporter.views.engine_view import EngineView, WindowView
    from spec_decode_exporter.views.fleet_view import TargetView

__all__ = [
    "REVISION",
    "ConfigError",
    "EngineView",
    "ExporterError",
    "ObservationView",
    "TargetView",
    "WindowView",
    "__version__",
    "observe",
]

_MODULES = {
    "ConfigError": "config.mistakes",
    "EngineView": "views.engine_view",
    "ExporterError": "core.user_errors",
    "ObservationView": "reports.observation_view",
    "TargetView": "views.fleet_view",
    "WindowView": "views.engine_view",
    "observe": "reports.observation",
}
"""Modules of the public names, imported on use: a command imports no more than it needs."""


def __getattr__(name: str) -> Any:  # noqa: ANN401  any attribute
    if name in _MODULES:
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
