"""Write a recommendation as one sentence, and a setting as sentences and as vLLM's JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Final

from spec_decode_exporter.analysis.evaluation import Basis, Evaluation
from spec_decode_exporter.analysis.recommended_setting import Obstacle, Pause, SpeculationSetting
from spec_decode_exporter.analysis.speculation import Speculation
from spec_decode_exporter.analysis.verdict import WHOLE_WINDOW, Action, State, Verdict
from spec_decode_exporter.config.batch_schedule import SCHEDULE_KEY
from spec_decode_exporter.core.number_formats import ago, number_range, percent, plural, utc_clock
from spec_decode_exporter.costs.methods import KINDS, SEARCH
from spec_decode_exporter.monitor.snapshot import EngineSnapshot
from spec_decode_exporter.scrape.engines import tokens_setting
from spec_decode_exporter.views.verdict_text import SOURCES, know_text, no_verdict

_PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9_.+-]{1,64}")
_PLAIN_PATH: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_./:+-]{0,255}|/[A-Za-z0-9_./:+-]{1,255}")
"""Names that are safe in a command: a server chooses the name of its draft model."""
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
_PARALLEL_METHODS: Final = frozenset({"dflash", "dspark"})
"""Methods for which vLLM sets ``parallel_drafting`` itself."""


def _collect(snapshot: EngineSnapshot) -> str:
    """Write why there is no advice, or when the first one is expected."""
    evaluation = snapshot.evaluation
    if no_verdict(snapshot.findings):
        return "No advice without a verdict."
    if evaluation.state is not State.ACTIVE:
        return "No advice without drafts."
    if evaluation.basis is Basis.SHORTER:
        return "No advice now: the last minutes contradict each other."
    late = WHOLE_WINDOW * evaluation.longest.window.length - evaluation.verdict_window.window.seconds
    if evaluation.verdict is Verdict.INSUFFICIENT or evaluation.is_advisable or late <= 0:
        return "No advice: too little is known of its present drafts."
    return f"Advice about {utc_clock(evaluation.known.wall + late)[:5]} UTC."


def recommendation_text(snapshot: EngineSnapshot) -> str:
    """Return the recommended action in one sentence."""
    return _RECOMMENDATIONS[snapshot.evaluation.action](snapshot)


def _keep(snapshot: EngineSnapshot) -> str:
    speculation = snapshot.evaluation.known.speculation
    if speculation.chooses_tokens:
        does = "chooses how many drafts it verifies" if speculation.is_adaptive else "changes K itself"
        return f"Keep it as it is: the engine {does}, and K needs no tuning."
    if not snapshot.tokens:
        return "Keep it as it is."
    return f"Keep drafting {plural(snapshot.tokens, 'token')} at a time."


def _change(snapshot: EngineSnapshot) -> str:
    """Name the recommended number of tokens."""
    best, now = snapshot.evaluation.decision.advice.tokens, snapshot.tokens
    known = snapshot.evaluation.known
    setting = tokens_setting(known.assumed.engine_kind, known.speculation.method)
    return f"Try {plural(best or 0, 'token')} instead of {now} ({setting})."


def _disable(snapshot: EngineSnapshot) -> str:
    """Name a drafter that is nearly dead, slower requests, or the missing load of the cost."""
    evaluation, request = snapshot.evaluation, snapshot.evaluation.verdict_window.request
    if evaluation.verdict_window.is_dead and evaluation.known.drafts_what_it_finds:
        return "Switch speculation off: it finds almost nothing to draft, and what it drafts is rejected."
    if evaluation.verdict_window.is_dead:
        return "Switch speculation off: almost no draft token is accepted."
    if evaluation.verdict is Verdict.POOR and request is not None and request.is_slower:
        return "Switch speculation off, or find out why requests are slower with it than before."
    if all(finding.name != "cost_without_load" for finding in snapshot.findings):
        return "Switch speculation off: no number of draft tokens is known to pay."
    return (
        "Switch speculation off, or configure the load of its cost (cost.running_requests): without the "
        "load no number of draft tokens is known to pay."
    )


def _limit_batch(snapshot: EngineSnapshot) -> str:
    crossover = snapshot.evaluation.crossover
    load = "few" if crossover is None else f"fewer than {crossover:.0f}"
    is_vllm = snapshot.evaluation.known.assumed.engine_kind in {"", "vllm"}
    return f"Speculate only while {load} requests run{f' ({SCHEDULE_KEY})' if is_vllm else ''}."


def _switch_method(snapshot: EngineSnapshot) -> str:
    """Name the faster method; omit the server's name of it if it is not a plain name."""
    faster = snapshot.evaluation.known.faster_method
    if faster is None:  # there was one a moment ago: advice stays for minutes
        return "Draft by the faster method of the other engine that serves this model."
    arm = f"arm `{faster.arm}` of experiment `{faster.experiment}`"
    if _PLAIN_NAME.fullmatch(faster.method):
        return f"Draft by {faster.method}, as {arm} does."
    return f"Draft by the method of {arm}."


_RECOMMENDATIONS: Final[Mapping[Action, Callable[[EngineSnapshot], str]]] = {
    Action.KEEP: _keep,
    Action.INCREASE: _change,
    Action.DECREASE: _change,
    Action.DISABLE: _disable,
    Action.LIMIT_BATCH: _limit_batch,
    Action.SWITCH_METHOD: _switch_method,
    Action.MEASURE_COST: lambda snapshot: know_text(snapshot.evaluation.verdict_window),
    Action.COLLECT: _collect,
}


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
        f"Measure the cost of drafting at more loads: at "
        f"{number_range(widest.first, widest.last)} running it is so uncertain that a wrong number of draft "
        f"tokens could lose {percent(widest.regret_ratio)} of the speed. {way}"
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
    kind = KINDS.get(method)
    if kind == SEARCH or method == "mtp":  # they have no model of their own
        return {"method": method}
    return {"method": method, "model": model} if kind and _PLAIN_PATH.fullmatch(model) else None
