"""Recommended setting: draft tokens by load if the cost is known by load, else the advice as a number.

The number is ``best_tokens`` of a ``WindowEvaluation``; unknown if the advice is: the remedy is then a
measurement. While the schedule in force drafts nothing at the present load there is no advice either. The
setting is then based on the acceptance of the last drafts, of which it has the time.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, NamedTuple

from spec_decode_exporter.analysis.knowledge import Knowledge
from spec_decode_exporter.analysis.load_bands import LoadBand, load_bands, schedule_of
from spec_decode_exporter.analysis.verdict import Action, Advice
from spec_decode_exporter.analysis.window_evaluation import WindowEvaluation
from spec_decode_exporter.config.batch_schedule import NO_SCHEDULE, BatchSchedule
from spec_decode_exporter.costs.cost import CostSource
from spec_decode_exporter.costs.methods import DRAFT_MODEL

MAX_REGRET: Final = 0.10
"""Share of the best speed-up that a schedule may lose at the worst cost; beyond, its cost is unknown."""
_SCHEDULED_BY_RUNNER_V1: Final = frozenset({"ngram", "eagle", "eagle3", "mtp", "draft_model", "dflash"})
"""Methods whose schedule vLLM 0.33 keeps on Model Runner V1 (``vllm/config/vllm.py``)."""


class Obstacle(StrEnum):
    """Reason why vLLM ignores a schedule, or why it may cost more than it gains."""

    DATA_PARALLEL = "data_parallel"  # several data-parallel engines: vLLM drafts K at every load
    MODEL_RUNNER_V1 = "model_runner_v1"  # vLLM 0.33 ignores the schedule of this method on Model Runner V1
    PIECEWISE_GRAPHS = "piecewise_graphs"
    """Model Runner V1 keeps the schedule, and runs piecewise CUDA graphs instead of full ones."""
    UNUSED_DRAFTS = "unused_drafts"  # Model Runner V2 runs a draft model in the ranges without drafts too


class Pause(NamedTuple):
    """Load at which the schedule in force drafts nothing."""

    first: int  # fewest running requests without drafts
    drafted: float | None
    """Unix time of the drafts whose acceptance the setting is based on; None if no acceptance is known."""


@dataclass(frozen=True, slots=True)
class SpeculationSetting:
    """Recommended number of draft tokens, and its schedule."""

    tokens: int | None = None  # K, the maximum by load; 0 is no speculation, None unknown
    schedule: BatchSchedule = NO_SCHEDULE  # recommended schedule; without ranges K applies to every load
    is_change: bool = False  # True if it differs from the setting in force
    bands: tuple[LoadBand, ...] = ()
    """Speed-up by load, also if the setting is unknown; empty without a cost at several loads."""
    source: CostSource | None = None  # source of the cost by load; None without one
    known: tuple[float, float] | None = None  # lowest and highest load with a known cost
    obstacles: tuple[Obstacle, ...] = ()  # reasons against the schedule
    pause: Pause | None = None  # present pause of drafting by the schedule in force; None if it drafts


UNKNOWN_SETTING: Final = SpeculationSetting()


def recommended_setting(
    its: WindowEvaluation, advice: Advice, running_requests: float | None
) -> SpeculationSetting:
    """Return the setting by the evaluated window, the shown advice, and the load of the longest window."""
    if advice.action is Action.SWITCH_METHOD:
        return UNKNOWN_SETTING
    if advice.action is not Action.COLLECT:
        return _setting(its, advice)
    # No advice: the schedule may draft nothing at this load.
    known, last = its.known, its.known.last_drafts
    first = known.speculation.paused_from(running_requests)
    if first is None or not known.speculates:
        return UNKNOWN_SETTING
    if last is None:
        return SpeculationSetting(pause=Pause(first, None))
    window, wall = last
    return replace(_setting(WindowEvaluation(window, known), advice), pause=Pause(first, wall))


def setting_by_load(its: WindowEvaluation, most: int) -> SpeculationSetting | None:
    """Return the setting by load with at most ``most`` draft tokens; None without a cost at several loads."""
    curve = its.known.cost.best_curve
    bands = () if curve is None else load_bands(its, curve, most)
    if curve is None or not bands:
        return None
    loads = curve.points[0].running_requests, curve.points[-1].running_requests
    found = SpeculationSetting(bands=bands, source=curve.source, known=loads)
    if max(band.regret_ratio for band in bands) > MAX_REGRET:
        return found
    schedule = schedule_of(bands)
    return replace(
        found,
        tokens=max(band.tokens for band in bands),
        schedule=schedule,
        is_change=any(band.tokens != band.present_tokens for band in bands),
        obstacles=obstacles(its.known, schedule) if schedule else (),
    )


def _setting(its: WindowEvaluation, advice: Advice) -> SpeculationSetting:
    """Return the setting by load, else the advice as a number, as of a drafter that is nearly dead."""
    present = len(its.positions)
    more = advice.tokens if advice.action is Action.INCREASE else None
    alone = SpeculationSetting(advice.tokens, is_change=advice.tokens not in {None, present})
    return alone if its.is_dead else setting_by_load(its, more or present) or alone


def obstacles(known: Knowledge, schedule: BatchSchedule) -> tuple[Obstacle, ...]:
    """Return the reasons against a schedule."""
    found, speculation = [Obstacle.DATA_PARALLEL] if known.assumed.data_parallel else [], known.speculation
    if speculation.method and speculation.method not in _SCHEDULED_BY_RUNNER_V1:
        found.append(Obstacle.MODEL_RUNNER_V1)
    elif not speculation.schedule:
        found.append(Obstacle.PIECEWISE_GRAPHS)
    if schedule.pauses and speculation.method == DRAFT_MODEL:
        found.append(Obstacle.UNUSED_DRAFTS)
    return tuple(found)
