"""Settings of ``settings.yml``, and their insertion into the texts of rules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Any, Final

import yaml

PATH: Final = Path(__file__).parents[1] / "settings.yml"

Values = Mapping[str, Any]


class _Text(Template):
    """PromQL and annotations use braces, dollars and percent signs themselves; ``@`` is free."""

    delimiter = "@"


def filled(text: str, values: Values) -> str:
    """Return ``text`` with every ``@name`` replaced.

    Raises:
        KeyError: A name has no value.
    """
    return _Text(text).substitute(values)


def names_in(text: str) -> frozenset[str]:
    """Return the names of the values that ``text`` asks for."""
    return frozenset(_Text(text).get_identifiers())


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that is meant to be changed."""

    runbooks: str
    dashboards: str
    scope: tuple[str, ...]
    arm_scope: tuple[str, ...]
    workload: str
    arm: str
    baseline: str
    local: str
    """A pattern of the names of targets that are another server's at every exporter."""
    short: str
    long: str
    comparable_load: float
    peer_drafts: int
    alerts: Mapping[str, Values]
    """By the alert's name: its severity, how long, and its thresholds."""

    @property
    def model(self) -> tuple[str, ...]:
        """The labels of one model."""
        return (*self.scope, "model_name")

    @property
    def arms(self) -> tuple[str, ...]:
        """The labels of one arm of a comparison."""
        return (*self.arm_scope, "model_name", self.arm)

    @property
    def peers(self) -> tuple[str, ...]:
        """The labels of engines that should behave alike."""
        return (*self.model, self.workload, self.arm, "method", "draft_model", "tokens")

    @property
    def common(self) -> Values:
        """Settings that every rule can use."""
        return {
            "short": self.short,
            "long": self.long,
            "arm": self.arm,
            "baseline": self.baseline,
            "workload": self.workload,
            "local": self.local,
            "scope": ", ".join(self.scope),
            "model": ", ".join(self.model),
            "peers": ", ".join(self.peers),
            "arms": ", ".join(self.arms),
            "peer_drafts": self.peer_drafts,
            "load_above": self.comparable_load,
            "load_below": round(1 / self.comparable_load, 3),
        }


def load(path: Path = PATH) -> Settings:
    """Read the settings."""
    read = yaml.safe_load(path.read_text(encoding="utf-8"))
    labels = read["labels"]
    return Settings(
        runbooks=read["urls"]["runbooks"],
        dashboards=read["urls"]["dashboards"],
        scope=tuple(labels["scope"]),
        arm_scope=tuple(labels["arm_scope"]),
        workload=labels["workload"],
        arm=labels["arm"],
        baseline=labels["baseline"],
        local=labels["local"],
        short=read["windows"]["short"],
        long=read["windows"]["long"],
        comparable_load=read["comparable_load"],
        peer_drafts=read["peer_drafts"],
        alerts=read["alerts"],
    )
