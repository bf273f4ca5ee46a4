"""Targets: the vLLM servers to poll; the configured ones, and the limits of labels of discovered ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

import structlog

from spec_decode_exporter.config.comparison_settings import BaselineSettings, ReferenceSettings
from spec_decode_exporter.config.cost_settings import CostSettings, SpeculativeSettings
from spec_decode_exporter.config.http_settings import HttpSettings
from spec_decode_exporter.config.labels import MAX_LABEL_CHARACTERS, MAX_LABELS, label_problem, value_problem
from spec_decode_exporter.config.policy import Policy, merged
from spec_decode_exporter.config.schema import Config
from spec_decode_exporter.scrape.server_info import ServedSpeculation

CONFIGURED: Final = "static"
"""Kind of discovery of targets in the configuration."""
Labels = tuple[tuple[str, str], ...]
"""Names and values, sorted by name."""

_MAX_WARNINGS: Final = 100
"""Log lines about labels and pods of one discovery: a list may have new ones each time."""
_MAX_SHOWN: Final = 200
_TOO_LARGE: Final = (
    f"is beyond the {MAX_LABELS} labels of {MAX_LABEL_CHARACTERS:,} characters that a target may have; "
    "remove some or shorten values"
)

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Target:
    """One metrics page to poll. Two targets are the same server if their ``key`` is equal."""

    url: str
    """``http://host:port/path``, without user, password or fragment."""
    name: str
    """Value of the ``target`` label: the configured name, else ``default_name``."""
    labels: Labels = ()
    """Configured and discovered labels."""
    http: HttpSettings = field(default_factory=HttpSettings)
    """Credentials, headers and TLS, as in Prometheus' ``scrape_config``."""
    discovery: str = CONFIGURED
    """Kind of discovery: ``static``, ``file``, ``http``, ``dns`` or ``kubernetes``."""
    found_by: str = field(default="", compare=False)
    """Key of the list, DNS name or namespace, which may contain a secret; empty for configured targets."""
    method_label: str = ""
    """Speculation method from the label ``method`` of a discovery."""
    pod_arguments: ServedSpeculation | None = None
    """Speculation settings on the command line of the target's pod."""
    speculative: SpeculativeSettings | None = None
    """Configured speculation settings."""
    cost: CostSettings | None = None
    """Configured drafting cost; None if the general configuration applies, as for the next three."""
    baseline: BaselineSettings | None = None
    reference: ReferenceSettings | None = None
    policy: Policy | None = None
    """Thresholds, merged with the general ones."""

    @property
    def key(self) -> tuple[str, str]:
        """Identity over reloads: name and address."""
        return self.name, self.url


def static_targets(config: Config) -> tuple[Target, ...]:
    """Return the configured targets in order; by default, vLLM on this host."""
    return tuple(
        Target(
            url=target.url,
            name=target.called,
            labels=tuple(sorted(target.labels.items())),
            http=target.http,
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
        self.targets = targets
        """To publish in spite of the failure; None keeps the previous targets."""


class TargetDiscovery(Protocol):
    """One file pattern, list, DNS name or namespace, and its targets."""

    name: str
    """Name in the log: the kind, and the pattern, address or DNS name."""
    key: str
    """Identity, not for the log: unlike the name, it has the port and a query, which may be secret."""
    refresh: float
    """Seconds from the end of one refresh to the next."""

    async def targets(self) -> Sequence[Target]:
        """Refresh and return the targets; raise DiscoveryError if some of them are unknown."""
        ...


class LabelFilter:
    """Drop unusable labels and those beyond the limits; log each name once."""

    def __init__(self, discovery: str) -> None:
        """Log with ``discovery``, the name of a discovery."""
        self._discovery = discovery
        self._logged: set[str] = set()

    def kept(self, labels: Mapping[str, str]) -> Labels:
        """Return the usable labels within the limits."""
        usable = {}
        for name, value in labels.items():
            if problem := label_problem(name) or value_problem(value):
                self.drop(name, problem)
            else:
                usable[name] = value
        return self.fitting(tuple(sorted(usable.items())))

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
        if problem := value_problem(value):
            self.drop(name, problem)
        return "" if problem else value

    def drop(self, name: str, reason: str, once: str = "") -> None:
        """Log a dropped label, once for its name or for the key ``once``."""
        label = name[:_MAX_SHOWN]
        if self.is_new(once or label):
            _log.warning("discovered_label_dropped", discovery=self._discovery, label=label, reason=reason)

    def is_new(self, key: str) -> bool:
        """Return whether to log a warning: the first of its key, up to ``_MAX_WARNINGS`` keys."""
        is_new = key not in self._logged and len(self._logged) < _MAX_WARNINGS
        self._logged |= {key} if is_new else set()
        return is_new


def _size(label: tuple[str, str]) -> int:
    name, value = label
    return len(name) + len(value)
