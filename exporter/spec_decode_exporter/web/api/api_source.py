"""What the API is given: values and callables, asked anew at each request."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from spec_decode_exporter.monitor.event_log import EventLog
from spec_decode_exporter.monitor.snapshot import Snapshot
from spec_decode_exporter.requests.request_batch import Batch
from spec_decode_exporter.requests.request_findings import RequestFindings
from spec_decode_exporter.requests.request_record import Refusal
from spec_decode_exporter.views.history import Histories
from spec_decode_exporter.views.models import TargetView


class Taker(Protocol):
    """Takes single requests: see ``intake.Intake``."""

    def take(self, body: bytes, *, lines: bool, unsent: Mapping[Refusal, int] = ...) -> Awaitable[Batch]:
        """Return what the body says, without what is above the rate."""
        ...

    def reject_body(self, status: int) -> None:
        """Count a body of which nothing was taken."""
        ...


@dataclass(frozen=True, slots=True)
class ApiSource:
    """Everything that the API tells."""

    now: Callable[[], float]
    """Unix time."""
    labels: Callable[[], Sequence[str]]
    """The names of the labels that engines have."""
    windows: Callable[[], Sequence[str]]
    """The names of the windows that are kept, as in the label ``window``."""
    snapshot: Callable[[], Snapshot]
    """Every engine and experiment, taken at one moment."""
    histories: Callable[[], Histories]
    targets: Callable[[], Sequence[TargetView]]
    events: EventLog
    receiver: Callable[[], Taker | None] = lambda: None
    """What takes single requests; None where they are not taken."""
    requests: Callable[[], RequestFindings] = RequestFindings
    """What single requests say, taken at one moment with the snapshot."""
