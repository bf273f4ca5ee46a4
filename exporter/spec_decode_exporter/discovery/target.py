"""Targets: the vLLM servers to poll; the configured ones, and the limits of labels of discovered ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import structlog

from spec_decode_exporter.config.comparison_settings import (
    BaselineSettings,
    CostSettings,
    ReferenceSettings,
    SpeculativeSettings,
)
from spec_decode_exporter.config.http_settings import HttpSettings
from spec_decode_exporter.config.policy import Policy, merged
from spec_decode_exporter.config.schema import Config
from spec_decode_exporter.config.source import MAX_PROBLEMS
from spec_decode_exporter.config.types import MAX_LABEL_CHARACTERS, MAX_LABELS, label_problem, value_problem
from spec_decode_exporter.core.numbers import MAX_TEXT
from spec_decode_exporter.scrape.server_info import ServedSpeculation

CONFIGURED: Final = "static"  # kind of discovery of targets in the configuration
Labels = tuple[tuple[str, str], ...]  # names and values, sorted by name
_TOO_LARGE: Final = (
    f"exceeds the {MAX_LABELS} labels or {MAX_LABEL_CHARACTERS:,} characters of a target: remove some"
)

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Target:
    """One metrics page to poll. Two targets are the same server if their ``key`` is equal."""

    url: str  # http://host:port/path, without user, password or fragment
    name: str  # value of the label `target`: the configured name, else `default_name`
    labels: Labels = ()  # configured and discovered ones
    http: HttpSettings = field(default_factory=HttpSettings)  # as in Prometheus' `scrape_config`
    discovery: str = CONFIGURED  # kind of discovery: static, file, http, dns or kubernetes
    found_by: str = field(default="", compare=False)  # key of the discovery, perhaps secret; empty if static
    method_label: str = ""  # speculation method from the label `method` of a discovery
    pod_arguments: ServedSpeculation | None = None  # settings on the command line of the target's pod
    speculative: SpeculativeSettings | None = None  # configured ones
    # Configured for this target alone; None if the general configuration applies:
    cost: CostSettings | None = None
    baseline: BaselineSettings | None = None
    reference: ReferenceSettings | None = None
    policy: Policy | None = None  # merged with the general thresholds

    @property
    def key(self) -> tuple[str, str]:
        """Identity over reloads: name and address."""
        return self.name, self.url


def static_targets(config: Config) -> tuple[Target, ...]:
    """Return the configured targets in order; by default, vLLM on this host."""
    return tuple(
        Target(
            *(target.url, target.called, tuple(sorted(target.labels.items())), target.http),
            speculative=target.speculative,
            cost=target.cost,
            baseline=target.baseline,
            reference=target.reference,
            policy=None if target.policy is None else merged(target.policy, config.policy),
        )
        for target in config.targets
    )


class DiscoveryError(Exception):
    """Failed discovery. The text is logged; it contains no secret."""

    def __init__(self, message: str, targets: Sequence[Target] | None = None) -> None:
        super().__init__(message)
        self.targets = targets  # to publish in spite of the failure; None keeps the previous ones


class LabelFilter:
    """Drop unusable labels and those beyond the limits; log each name once."""

    def __init__(self, discovery: str) -> None:
        self._discovery = discovery
        self._logged: set[str] = set()

    def kept(self, labels: Mapping[str, str]) -> Labels:
        """Return the usable labels within the limits."""
        problems = {name: label_problem(name) or value_problem(labels[name]) for name in sorted(labels)}
        return self.fitting(
            (name, labels[name]) for name in problems if not self._drops(name, problems[name])
        )

    def fitting(self, labels: Iterable[tuple[str, str]], beside: Labels = ()) -> Labels:
        """Return the labels, in order, that fit into the limits of a target that has those ``beside``."""
        kept: list[tuple[str, str]] = []
        left = MAX_LABEL_CHARACTERS - sum(map(_size, beside))
        for label in labels:
            if len(beside) + len(kept) >= MAX_LABELS or _size(label) > left:
                self.drop(label[0], _TOO_LARGE, once=_TOO_LARGE)
            else:
                kept.append(label)
                left -= _size(label)
        return tuple(kept)

    def value(self, labels: Mapping[str, str], name: str) -> str:
        """Return the value of a label that is not exported; empty if absent or unusable."""
        value = labels.get(name, "")
        return "" if self._drops(name, value_problem(value)) else value

    def drop(self, name: str, reason: str, once: str = "") -> None:
        """Log a dropped label, once for its name or for the key ``once``."""
        label = name[:MAX_TEXT]
        if self.is_new(once or label):
            _log.warning("discovered_label_dropped", discovery=self._discovery, label=label, reason=reason)

    def is_new(self, key: str) -> bool:
        """Return whether to log a warning: the first of its key, up to ``MAX_PROBLEMS`` keys."""
        is_new = key not in self._logged and len(self._logged) < MAX_PROBLEMS
        self._logged |= {key} if is_new else set()
        return is_new

    def _drops(self, name: str, problem: str | None) -> bool:
        if problem:
            self.drop(name, problem)
        return bool(problem)


def _size(label: tuple[str, str]) -> int:
    return len(label[0]) + len(label[1])
