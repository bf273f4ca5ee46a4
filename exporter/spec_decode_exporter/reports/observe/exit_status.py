"""What a script learns of an observation: one number, by the worst that was seen."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from spec_decode_exporter.analysis.speculation_state import State
from spec_decode_exporter.analysis.verdict import Verdict
from spec_decode_exporter.views.models import EngineView, ObservationView


class Status(IntEnum):
    """The exit status of ``observe``."""

    PAYING = 0
    """Every engine that speculates is faster for it."""
    NOT_OBSERVED = 1
    """Some server could not be reached, was gone at the end, or has an engine that cannot be shown; or the
    command line is wrong."""
    HARMFUL = 2
    """Some engine is slower for it, beyond doubt."""
    INSUFFICIENT = 3
    """Of some engine it is not known whether it is faster; or none speculates."""


_WORST_FIRST: Final = (Status.HARMFUL, Status.NOT_OBSERVED, Status.INSUFFICIENT)
_PAYING: Final = frozenset({Verdict.OPTIMAL, Verdict.HEALTHY, Verdict.MARGINAL})


def exit_status(view: ObservationView) -> Status:
    """Return the worst status of all engines and servers.

    An engine that does not speculate does not count beside one that does, as in a comparison of both.
    """
    found = {_of_engine(engine) for engine in view.engines if engine.state is not State.DISABLED}
    shown = {engine.id for engine in view.engines}
    if not all(target.engines and shown.issuperset(target.engines) for target in view.targets):
        found.add(Status.NOT_OBSERVED)
    return next(
        (status for status in _WORST_FIRST if status in (found or {Status.INSUFFICIENT})), Status.PAYING
    )


def _of_engine(engine: EngineView) -> Status:
    if engine.verdict is Verdict.HARMFUL:
        return Status.HARMFUL
    if engine.state is State.UNREACHABLE:
        return Status.NOT_OBSERVED
    if not _has_bounds(engine):
        return Status.INSUFFICIENT
    if engine.verdict in _PAYING or (engine.verdict is Verdict.POOR and _is_faster(engine)):
        return Status.PAYING
    return Status.INSUFFICIENT


def _has_bounds(engine: EngineView) -> bool:
    """Return whether enough requests passed to say how sure the figures are that a verdict rests on."""
    return bool(engine.windows) and engine.windows[-1].acceptance_length_tokens.lower is not None


def _is_faster(engine: EngineView) -> bool:
    """Return whether the estimated speed-up is one: ``poor`` is also said of what is hardly slower."""
    speedup = engine.windows[-1].estimated_speedup_ratio.value if engine.windows else None
    return speedup is not None and speedup >= 1
