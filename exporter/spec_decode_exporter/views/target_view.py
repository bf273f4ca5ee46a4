"""JSON model of a target, from its status."""

from __future__ import annotations

from spec_decode_exporter.monitor.target_status import TargetStatus
from spec_decode_exporter.scrape.poll_errors import REASONS
from spec_decode_exporter.views.engine_view import engine_id
from spec_decode_exporter.views.models import TargetView


def target_view(status: TargetStatus) -> TargetView:
    """Return the JSON model of a target."""
    failures = status.failures or {}
    return TargetView(
        target=status.name,
        address=status.address,
        labels=dict(status.labels),
        discovery=status.discovery,
        up=status.up,
        error=status.error,
        engine_kind=status.engine_kind,
        front_end=status.front_end,
        page=status.page,
        version=status.version,
        polls=status.polls,
        poll_failures={reason: failures.get(reason, 0) for reason in REASONS},
        poll_seconds=status.poll_seconds,
        poll_bytes=status.poll_bytes,
        poll_interval_seconds=status.interval,
        last_success_timestamp_seconds=status.last_success,
        engines_on_page=status.engines_on_page,
        engines=tuple(engine_id(status.name, *engine) for engine in status.engines),
    )
