"""Exit statuses of observe and plan: one table, and the status of each result."""

from __future__ import annotations

from collections.abc import Collection
from enum import IntEnum
from typing import Final

from spec_decode_exporter.analysis.verdict import PAYING, State, Verdict
from spec_decode_exporter.core.user_errors import USAGE_STATUS
from spec_decode_exporter.reports.observation_view import ObservationView
from spec_decode_exporter.views.engine_view import EngineView


class ExitStatus(IntEnum):
    """Exit status of a command, for scripts."""

    GOOD = 0
    """``observe``: every engine that speculates is faster for it. ``plan``: the models fit.
    ``--against``: acceptance did not fall by more than the threshold. ``--save``: written."""
    FAILED = 1
    """A server could not be reached, was gone at the end, or has an engine that cannot be shown; a file
    cannot be used."""
    USAGE = USAGE_STATUS  # the command line is wrong
    UNKNOWN = 3  # the data does not suffice for either; or no engine speculates
    BAD = 4
    """``observe``: an engine is slower with speculation, statistically significant (95 %). ``plan``: the
    models do not fit, or vLLM refuses them. ``--against``: acceptance fell by more than the threshold."""


TONES: Final = {ExitStatus.GOOD: "good", ExitStatus.UNKNOWN: "unsure", ExitStatus.BAD: "bad"}
_WORST_FIRST: Final = (ExitStatus.BAD, ExitStatus.FAILED, ExitStatus.UNKNOWN)


def worst(statuses: Collection[ExitStatus]) -> ExitStatus:
    """Return the worst of several statuses; unknown without one."""
    found = statuses or {ExitStatus.UNKNOWN}
    return next((status for status in _WORST_FIRST if status in found), ExitStatus.GOOD)


def observation_status(view: ObservationView) -> ExitStatus:
    """Return the worst status of all engines and servers.

    An engine without speculation does not count if another engine speculates.
    """
    statuses = {_engine_status(engine) for engine in view.engines if engine.state is not State.DISABLED}
    shown = {engine.id for engine in view.engines}
    if not all(target.engines and shown.issuperset(target.engines) for target in view.targets):
        statuses.add(ExitStatus.FAILED)
    return worst(statuses)


def _engine_status(engine: EngineView) -> ExitStatus:
    if engine.verdict is Verdict.HARMFUL:
        return ExitStatus.BAD
    if engine.state is State.UNREACHABLE:
        return ExitStatus.FAILED
    window = engine.longest
    if window is None or window.acceptance_length_tokens.lower is None:
        return ExitStatus.UNKNOWN
    speedup = (window.end_to_end_speedup_ratio or window.estimated_speedup_ratio).value
    is_faster = speedup is not None and speedup >= 1  # poor includes values slightly below 1
    pays = engine.verdict in PAYING or (engine.verdict is Verdict.POOR and is_faster)
    return ExitStatus.GOOD if pays else ExitStatus.UNKNOWN
