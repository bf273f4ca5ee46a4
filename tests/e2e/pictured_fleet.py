"""The simulated servers of the pictures: each shows something that the page is for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

LLAMA = "meta-llama/Llama-3.3-70B-Instruct"
QWEN = "Qwen/Qwen3-32B"
MISTRAL = "mistralai/Mistral-Small-3.2-24B"
CODER = "Qwen/Qwen3-Coder-30B"

Section = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Server:
    """A scenario of the simulator with another model's name, and its target in the configuration."""

    name: str
    scenario: str
    model: str
    method: str = ""
    cost: Section = field(default_factory=lambda: {"draft_cost_ratio": 0.08})
    changes: Section = field(default_factory=dict)
    """What is different from the scenario of that name."""

    def target(self, url: str) -> dict[str, Any]:
        """Return the exporter's configuration of it."""
        told: dict[str, Any] = {"name": self.name, "url": url, "cost": dict(self.cost)}
        if self.method:
            told["speculative"] = {"method": self.method}
        return told


_BY_LOAD = {
    "loads": [
        {"running_requests": 8, "draft_cost_ratio": 0.08},
        {"running_requests": 32, "draft_cost_ratio": 0.25},
        {"running_requests": 96, "draft_cost_ratio": 0.8},
    ]
}

_WAVES_AND_A_DROP = {
    "acceptance": {"mean": 0.78, "spread": 0.1, "decay": 0.92},
    "load": {"rate": 3},
    "phases": [
        {"at": "5m", "load": {"rate": 9}},
        {"at": "7m", "load": {"rate": 3}},
        {"at": "11m", "acceptance": {"mean": 0.4}},
        {"at": "14m", "acceptance": {"mean": 0.78}},
    ],
    "repeat": "20m",
}

FLEET = (
    Server("chat-1", "steady", LLAMA, "eagle3"),
    Server("chat-2", "overload", LLAMA, "eagle3", _BY_LOAD, _WAVES_AND_A_DROP),
    Server("chat-3", "drop", LLAMA, "eagle3"),
    Server("code-1", "k-change", CODER, "mtp"),
    Server("code-2", "ngram", CODER, "ngram", {"draft_cost_ratio": 0.0, "fixed_cost_ratio": 0.05}),
    Server("batch", "harmful", QWEN, "draft_model", {"draft_cost_ratio": 0.3}),
    Server("assist", "mixed", MISTRAL, "draft_model", {"draft_cost_ratio": 0.45}),
)
