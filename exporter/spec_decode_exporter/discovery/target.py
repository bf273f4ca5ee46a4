"""A vLLM server to watch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from spec_decode_exporter.config.cost_settings import CostSettings, SpeculativeSettings
from spec_decode_exporter.config.http_settings import HttpSettings
from spec_decode_exporter.config.policy import Policy
from spec_decode_exporter.config.reference_settings import ReferenceSettings
from spec_decode_exporter.config.url import address
from spec_decode_exporter.scrape.poll.server_info import ServedSpeculation

__all__ = ["CONFIGURED", "Target", "address"]

CONFIGURED: Final = "static"
"""The discovery of targets that the configuration names one by one."""


@dataclass(frozen=True, slots=True)
class Target:
    """One metrics page to poll. Two targets are the same server if their ``key`` is the same."""

    url: str
    """``http://host:port/path``, without user, password or fragment."""
    name: str
    """The value of the ``target`` label: the configured name, else ``host:port``."""
    labels: tuple[tuple[str, str], ...] = ()
    """Configured labels, sorted by name."""
    http: HttpSettings = field(default_factory=HttpSettings)
    """How to ask: credentials, headers and TLS, as in Prometheus' ``scrape_config``."""
    discovery: str = CONFIGURED
    """Which way it was found: ``static``, ``file``, ``http``, ``dns`` or ``kubernetes``."""
    found_by: str = field(default="", compare=False)
    """The key of its list, DNS name or namespace, which may hold a secret; empty for configured targets."""
    method_label: str = ""
    """The method of speculation, where discovery gave it as the label ``method``."""
    pod_arguments: ServedSpeculation | None = None
    """How it is told to speculate on the command line of its pod."""
    speculative: SpeculativeSettings | None = None
    """How it speculates, as far as that is configured."""
    cost: CostSettings | None = None
    """What drafting costs there; None where the general configuration says it."""
    reference: ReferenceSettings | None = None
    """The acceptance that it is held against; None where the general configuration says it."""
    policy: Policy | None = None
    """Its thresholds, where it has some of its own: these over the general ones."""

    @property
    def key(self) -> tuple[str, str]:
        """What makes it the same target after a reload: its name and its address."""
        return self.name, self.url
