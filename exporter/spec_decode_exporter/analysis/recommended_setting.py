"""Recommended setting: draft tokens by load if the cost is known by load, else the advice as a number.

The schedule by load is that of ``load_bands``. Without a cost at several loads the setting is the advice
about the present load. It is unknown if the advice is: the remedy is then a measurement.

While the schedule in force drafts nothing at the present load there is no advice either. The setting is then
based on the acceptance of the last drafts, of which it has the time.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from spec_decode_exporter.analysis.assessment import Assessment, cost_knowledge
from spec_decode_exporter.analysis.cost_curve import CostCurve, best_curve
from spec_decode_exporter.analysis.evaluation_inputs import EvaluationInputs
from spec_decode_exporter.analysis.evaluation_result import EngineAdvice
from spec_decode_exporter.analysis.load_bands import Drafting, LoadBand, load_bands, schedule_of
from spec_decode_exporter.analysis.recommendation import Action
from spec_decode_exporter.analysis.speculation_setting import (
    UNKNOWN_SETTING,
    Obstacle,
    Pause,
    SpeculationSetting,
)
from spec_decode_exporter.analysis.speculation_state import drafts_what_it_finds
from spec_decode_exporter.config.batch_schedule import BatchSchedule
from spec_decode_exporter.figures.server_load import mean
from spec_decode_exporter.scrape.page.engine_table import Gauge
from spec_decode_exporter.window.ledger import Window

MAX_REGRET: Final = 0.10
"""Share of the best speed-up that a schedule may lose at the worst cost; beyond, its cost is unknown."""
_SCHEDULED_BY_RUNNER_V1: Final = frozenset({"ngram", "eagle", "eagle3", "mtp", "draft_model", "dflash"})
"""Methods whose schedule vLLM 0.33 keeps on Model Runner V1 (``vllm/config/vllm.py``)."""


def recommended_setting(assessment: Assessment, advice: EngineAdvice) -> SpeculationSetting:
    """Return the setting by the evaluated window; ``advice`` is the debounced one about the present load."""
    if advice.action is Action.COLLECT:
        return _paused(assessment, advice)
    if advice.action is Action.SWITCH_METHOD:
        return UNKNOWN_SETTING
    return _setting(assessment.evaluated.choice.window, assessment, advice)


def _setting(window: Window, assessment: Assessment, advice: EngineAdvice) -> SpeculationSetting:
    """Return the setting by the acceptance in a window."""
    tokens = len(window.positions)
    most = (advice.tokens if advice.action is Action.INCREASE else None) or tokens
    return setting_by_load(window, assessment.inputs, most) or _by_advice(advice, tokens)


def setting_by_load(window: Window, inputs: EvaluationInputs, most: int) -> SpeculationSetting | None:
    """Return the setting by load with at most ``most`` draft tokens; None without a cost at several loads."""
    known, speculation = cost_knowledge(inputs), inputs.assumptions.speculation
    curve = best_curve(known.settings, known.measured, known.method)
    if curve is None:
        return None
    searches = drafts_what_it_finds(speculation.method)
    drafting = Drafting(len(window.positions), most, speculation.schedule, searches=searches)
    bands = load_bands(window, curve, known, drafting, inputs.assumptions.policy)
    return _by_load(bands, curve, inputs) if bands else None


def _paused(assessment: Assessment, advice: EngineAdvice) -> SpeculationSetting:
    """Return the setting by the last drafts if the schedule drafts nothing now; else it is unknown."""
    inputs, last = assessment.inputs, assessment.inputs.last_drafts
    running = mean(assessment.windows[-1], Gauge.RUNNING_REQUESTS)
    first = inputs.assumptions.speculation.paused_from(running)
    if first is None or not inputs.speculates:
        return UNKNOWN_SETTING
    if last is None or last.changes != inputs.changes:
        return SpeculationSetting(pause=Pause(first, None))
    return replace(_setting(last.window, assessment, advice), pause=Pause(first, last.wall))


def _by_load(bands: tuple[LoadBand, ...], curve: CostCurve, inputs: EvaluationInputs) -> SpeculationSetting:
    loads = curve.points[0].running_requests, curve.points[-1].running_requests
    if max(band.regret for band in bands) > MAX_REGRET:
        return SpeculationSetting(bands=bands, source=curve.source, known=loads)
    schedule = schedule_of(bands)
    return SpeculationSetting(
        max(band.tokens for band in bands),
        schedule,
        any(band.tokens != band.present_tokens for band in bands),
        bands,
        curve.source,
        loads,
        _obstacles(schedule, inputs),
    )


def _by_advice(advice: EngineAdvice, present: int) -> SpeculationSetting:
    tokens = {Action.KEEP: present, Action.DISABLE: 0}.get(advice.action)
    if advice.action in {Action.INCREASE, Action.DECREASE}:
        tokens = advice.tokens
    return SpeculationSetting(tokens, is_change=tokens not in {None, present})


def _obstacles(schedule: BatchSchedule, inputs: EvaluationInputs) -> tuple[Obstacle, ...]:
    if not schedule:
        return ()
    found = [Obstacle.DATA_PARALLEL] if inputs.data_parallel else []
    speculation = inputs.assumptions.speculation
    if speculation.method and speculation.method not in _SCHEDULED_BY_RUNNER_V1:
        found.append(Obstacle.MODEL_RUNNER_V1)
    elif not speculation.schedule:
        found.append(Obstacle.PIECEWISE_GRAPHS)
    return tuple(found)
