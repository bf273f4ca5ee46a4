"""Targets: the vLLM servers to poll, and those of the configuration."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from spec_decode_exporter.config.baseline_settings import BaselineSettings
from spec_decode_exporter.config.cost_settings import CostSettings, SpeculativeSettings
from spec_decode_exporter.config.http_settings import HttpSettings
from spec_decode_exporter.config.policy import Policy, merged
from spec_decode_exporter.config.reference_settings import ReferenceSettings
from spec_decode_exporter.core.urls import address
from spec_decode_exporter.scrape.poll.server_info import ServedSpeculation

if TYPE_CHECKING:
    from spec_decode_exporter.config.schema import Config

__all__ = ["CONFIGURED", "Target", "address", "static_targets"]

CONFIGURED: Final = "static"
"""Kind of discovery of targets in the configuration."""


@dataclass(frozen=True, slots=True)
class Target:
    """One metrics page to poll. Two targets are the same server if their ``key`` is equal."""

    url: str
    """``http://host:port/path``, without user, password or fragment."""
    name: str
    """Value of the ``target`` label: the configured name, else ``host:port``."""
    labels: tuple[tuple[str, str], ...] = ()
    """Configured and discovered labels, sorted by name."""
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
    """Configured drafting cost; None if the general configuration applies."""
    baseline: BaselineSettings | None = None
    """Configured source of the baseline; None if the general configuration applies."""
    reference: ReferenceSettings | None = None
    """Reference acceptance; None if the general configuration applies."""
    policy: Policy | None = None
    """Thresholds, merged with the general ones; None if the target has none of its own."""

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
