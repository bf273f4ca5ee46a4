"""Servers that the configuration names one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spec_decode_exporter.config.policy import merged
from spec_decode_exporter.discovery.target import Target

if TYPE_CHECKING:
    from spec_decode_exporter.config.schema import Config


def static_targets(config: Config) -> tuple[Target, ...]:
    """Return the configured targets, in their order; the vLLM next door if nothing else is configured."""
    return tuple(
        Target(
            url=target.url,
            name=target.called,
            labels=tuple(sorted(target.labels.items())),
            http=target.http,
            speculative=target.speculative,
            cost=target.cost,
            reference=target.reference,
            policy=None if target.policy is None else merged(target.policy, config.policy),
        )
        for target in config.targets
    )
