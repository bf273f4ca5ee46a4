"""Warnings about a valid configuration: values that are probably not meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import Final

from spec_decode_exporter.analysis.cost import UNSTATED_LOAD
from spec_decode_exporter.analysis.typical_costs import METHODS, is_known_method
from spec_decode_exporter.config.cost_settings import CostSettings
from spec_decode_exporter.config.mistakes import KeyPath, dotted
from spec_decode_exporter.config.schema import Config

_COST_WITHOUT_LOAD: Final = (
    f"has no load, so {UNSTATED_LOAD:g} running requests are assumed; advice at another load may be "
    "wrong. Add `running_requests`, the concurrent requests of the measurement, or use `loads`"
)


def config_warnings(config: Config) -> Iterator[tuple[str, str]]:
    """Yield the key and the text of each warning, in the order of the configuration."""
    if _has_no_load(config.cost):
        yield "cost", _COST_WITHOUT_LOAD
    for index, target in enumerate(config.targets):
        if _has_no_load(target.cost):
            yield dotted(("targets", index, "cost")), _COST_WITHOUT_LOAD
        method = target.speculative.method if target.speculative else None
        if method and not is_known_method(method):
            path: KeyPath = ("targets", index, "speculative", "method")
            yield dotted(path), _unknown_method(method)


def _has_no_load(cost: CostSettings | None) -> bool:
    return cost is not None and cost.draft_cost_ratio is not None and cost.running_requests is None


def _unknown_method(method: str) -> str:
    near = difflib.get_close_matches(method.strip("[] ").lower(), METHODS, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(METHODS)}"
    return f"{method!r} is no method of vLLM that the exporter knows, so its typical cost is wide; {hint}"
