"""Write a setting as vLLM's JSON, and in sentences: what to set, why, what to measure, what is against it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Final

from spec_decode_exporter.analysis.evaluation import Evaluation
from spec_decode_exporter.analysis.load_bands import LoadBand
from spec_decode_exporter.analysis.recommended_setting import Obstacle, Pause, SpeculationSetting
from spec_decode_exporter.analysis.speculation import Speculation
from spec_decode_exporter.analysis.verdict import Action
from spec_decode_exporter.config.batch_schedule import SCHEDULE_KEY
from spec_decode_exporter.core.number_formats import ago, percent, plural, utc_clock
from spec_decode_exporter.monitor.snapshot import EngineSnapshot
from spec_decode_exporter.views.verdict_text import SOURCES, know_text, recommendation_text

OBSTACLES: Final[Mapping[Obstacle, str]] = {
    Obstacle.DATA_PARALLEL: "The server has several engines: with data parallelism vLLM ignores the schedule "
    "and drafts {tokens} at every load. Set the number for the load that you have, or serve each engine "
    "alone.",
    Obstacle.MODEL_RUNNER_V1: "From vLLM 0.33, Model Runner V1 ignores the schedule of this method and "
    "drafts {tokens} at every load: set VLLM_USE_V2_MODEL_RUNNER=1, or one number.",
    Obstacle.PIECEWISE_GRAPHS: "On Model Runner V1 a schedule makes vLLM run piecewise CUDA graphs, which "
    "can cost more than it gains (7 to 22 % of a step in vLLM issue 49548): set VLLM_USE_V2_MODEL_RUNNER=1, "
    "or compare.",
    Obstacle.UNUSED_DRAFTS: "Model Runner V2 runs a draft model also where the schedule drafts nothing: the "
    "schedule saves only the verification there.",
}
"""Reasons against a schedule, and remedies; ``tokens`` is K with its noun."""
_WITHOUT_MODEL: Final = frozenset({"mtp", "ngram", "ngram_gpu", "suffix"})
"""Methods that draft without a model of their own."""
_WITH_MODEL: Final = frozenset(
    {"eagle", "eagle3", "draft_model", "dflash", "dspark", "medusa", "mlp_speculator"}
)
_PARALLEL_METHODS: Final = frozenset({"dflash", "dspark"})
"""Methods for which vLLM sets ``parallel_drafting`` itself."""
_PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_./:+-]{0,255}|/[A-Za-z0-9_./:+-]{1,255}")
"""Names that are safe in a command: a server chooses the name of its draft model."""


def setting_text(snapshot: EngineSnapshot) -> str:
    """Return what to set and why; the advice about the present load if no setting by load is known."""
    setting = snapshot.evaluation.setting
    if setting.tokens is None or not setting.bands:
        return recommendation_text(snapshot)
    return " ".join(filter(None, (_statement(setting), _known(setting), _acceptance(snapshot.evaluation))))


def measure_text(evaluation: Evaluation) -> str:
    """Return what to measure: for a setting, or for one by load; empty if nothing is missing."""
    setting, pause = evaluation.setting, evaluation.setting.pause
    if pause is not None and pause.drafted is None:
        return _measure_acceptance(pause)
    collects = evaluation.action is Action.COLLECT and pause is None
    is_known = (setting.tokens is not None and setting.bands) or evaluation.verdict_window.is_dead
    if collects or evaluation.known.speculation.chooses_tokens or is_known:
        return ""
    way = know_text(evaluation.verdict_window)
    if not setting.bands:
        return f"For draft tokens by load, measure the cost at several loads. {way}"
    widest = max(setting.bands, key=lambda band: band.regret_ratio)
    return (
        f"Measure the cost of drafting at more loads: {_loads(widest)} it is so uncertain that a wrong "
        f"number of draft tokens could lose {percent(widest.regret_ratio)} of the speed. {way}"
    )


def obstacle_text(obstacle: Obstacle, setting: SpeculationSetting) -> str:
    """Return a reason against the schedule, with its remedy."""
    return OBSTACLES[obstacle].format(tokens=_tokens(setting.tokens or 0, "nothing"))


def _statement(setting: SpeculationSetting) -> str:
    if not setting.tokens:
        return "Switch speculation off: at no known load is any number of draft tokens worth its cost."
    verb = "Draft" if setting.is_change else "Keep drafting"
    if not setting.schedule:
        return f"{verb} {plural(setting.tokens, 'token')} at every load."
    first, *further = ranges(setting)
    steps = [f"{_tokens(first[2], 'none')} up to {plural(first[1], 'running request')}"]
    steps += [f"{tokens or 'none'} from {begin}" for begin, _, tokens in further]
    return f"{verb} {', '.join(steps[:-1])} and {steps[-1]}."


def _tokens(number: int, without: str) -> str:
    return plural(number, "token") if number else without


def _loads(band: LoadBand) -> str:
    if band.first == band.last:
        return f"at {plural(band.first, 'running request')}"
    return f"from {band.first} to {band.last} running requests"


def _known(setting: SpeculationSetting) -> str:
    if setting.known is None or setting.source is None:
        return ""
    low, high = setting.known
    return (
        f"The cost is {SOURCES[setting.source]}, at {low:.3g} to {high:.3g} running requests; below them "
        "that of the lowest counts."
    )


def _acceptance(evaluation: Evaluation) -> str:
    """Write the time of the acceptance if it is not that of the present drafts."""
    pause = evaluation.setting.pause
    if pause is None or pause.drafted is None:
        return ""
    age = ago(evaluation.known.wall - pause.drafted)
    return f"Nothing is drafted now: the acceptance is that of {utc_clock(pause.drafted)}, {age}."


def _measure_acceptance(pause: Pause) -> str:
    """Write how to measure the acceptance of an engine that has not drafted yet."""
    below = "" if pause.first <= 1 else f"let fewer than {pause.first} requests run for some minutes, or "
    return (
        f"Acceptance is unknown: from {plural(pause.first, 'running request')} the schedule drafts nothing, "
        f"and no drafts were seen at another load. To measure it, {below}schedule 1 token from {pause.first} "
        "on one replica."
    )


def speculative_config(evaluation: Evaluation) -> tuple[str, bool]:
    """Return vLLM's JSON of the setting, and whether it has all keys.

    It has the keys that the exporter knows; nothing is guessed. Empty without tokens, and of another engine.
    """
    setting, speculation = evaluation.setting, evaluation.known.speculation
    if not setting.tokens or evaluation.known.assumed.engine_kind not in {"", "vllm"}:
        return "", False
    named = _named(speculation)
    keys: dict[str, object] = {**(named or {}), "num_speculative_tokens": setting.tokens}
    if named is not None and speculation.rejection_method:
        keys["rejection_sample_method"] = speculation.rejection_method
    if speculation.is_adaptive:
        keys["enable_adaptive_verification"] = True
    if speculation.drafts_in_parallel and speculation.method not in _PARALLEL_METHODS:
        keys["parallel_drafting"] = True
    if schedule := ranges(setting):
        keys[SCHEDULE_KEY] = schedule
    return json.dumps(keys), named is not None


def ranges(setting: SpeculationSetting) -> list[tuple[int, int, int]]:
    """Return the ranges of the schedule; the last one ends at the highest load with a known cost."""
    return setting.schedule.up_to(setting.bands[-1].last if setting.bands else 0)


def _named(speculation: Speculation) -> dict[str, str] | None:
    """Return the keys that name method and draft model; None if one is unknown or not a plain name."""
    method, model = speculation.method, speculation.draft_model
    if method in _WITHOUT_MODEL:
        return {"method": method}
    if method in _WITH_MODEL and _PLAIN_NAME.fullmatch(model):
        return {"method": method, "model": model}
    return None
