"""Write a state, a verdict and a recommendation as one plain sentence each; a setting also as vLLM's JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from spec_decode_exporter.analysis.end_to_end import EndToEndBasis
from spec_decode_exporter.analysis.evaluation import Basis, Evaluation
from spec_decode_exporter.analysis.load_bands import LoadBand
from spec_decode_exporter.analysis.missing_evidence import Evidence, ways_to_know
from spec_decode_exporter.analysis.recommended_setting import Obstacle, Pause, SpeculationSetting
from spec_decode_exporter.analysis.speculation import Speculation
from spec_decode_exporter.analysis.verdict import PAYING, WHOLE_WINDOW, Action, State, Verdict
from spec_decode_exporter.analysis.window_evaluation import WindowEvaluation
from spec_decode_exporter.config.batch_schedule import SCHEDULE_KEY
from spec_decode_exporter.core.number_formats import ago, gigabytes, percent, plural, utc_clock
from spec_decode_exporter.costs.cost import CostRange, CostSource
from spec_decode_exporter.costs.methods import present_name, usual_length
from spec_decode_exporter.costs.published import PublishedShare
from spec_decode_exporter.figures.estimate import MIN_BOUND_REQUESTS, Estimate
from spec_decode_exporter.findings.finding import Finding
from spec_decode_exporter.monitor.decision import STAYED_SECONDS
from spec_decode_exporter.monitor.snapshot import EngineSnapshot
from spec_decode_exporter.scrape.engines import tokens_setting
from spec_decode_exporter.views.words import LIKELY, STATES, VERDICTS

NO_VERDICT: Final = ("broken_one_server", "counts_no_drafts", "drafts_not_counted", "decodes_nothing")
"""Findings for which there is no verdict, however long one waits."""

BASES: Final[Mapping[EndToEndBasis, str]] = {
    EndToEndBasis.SAME_FIRST_TOKEN: "with the same first token",
    EndToEndBasis.BASELINE: "against the baseline",
}
"""Meanings of the speed-up of a request, by its basis."""

_PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9_.+-]{1,64}")
_PLAIN_PATH: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_./:+-]{0,255}|/[A-Za-z0-9_./:+-]{1,255}")
"""Names that are safe in a command: a server chooses the name of its draft model."""

SOURCES: Final = {
    CostSource.EXPERIMENT: "by the experiment's step times",
    CostSource.MEASURED: "measured on this engine",
    CostSource.BASELINE: "by its step times without speculation",
    CostSource.CONFIGURED: "configured",
    CostSource.TYPICAL: "typical of the method",
}
"""Sources of a cost, within a sentence."""

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


def verdict_text(snapshot: EngineSnapshot) -> str:
    """Return the state, or else the verdict with its figure; with newer data, if they differ from it."""
    evaluation = snapshot.evaluation
    if text := no_verdict(snapshot.findings):
        return text
    if evaluation.state is not State.ACTIVE:
        return STATES[evaluation.state].meaning
    shown, newest = evaluation.verdict, evaluation.verdict_window.verdict
    if shown in {newest, Verdict.INSUFFICIENT}:
        return _text_of(shown, snapshot)
    is_doubt = shown in PAYING and newest is Verdict.UNCLEAR
    lasting = "a minute" if is_doubt else f"{STAYED_SECONDS / 60:.0f} minutes"
    if shown in PAYING and newest in PAYING:
        newer = _text_of(newest, snapshot).removeprefix("Speculation")
        return f"{statement(shown, evaluation)}. By newer data it{newer}"
    kept = f"until newer data last for {lasting}. They say:"
    return f"{statement(shown, evaluation)}, {kept} {_text_of(newest, snapshot)}"


def no_verdict(findings: Iterable[Finding]) -> str:
    """Return why there can be no verdict, and the remedy; empty if there can be one."""
    return next((each.text for each in findings if each.name in NO_VERDICT), "")


def _text_of(verdict: Verdict, snapshot: EngineSnapshot) -> str:
    evaluation = snapshot.evaluation
    if verdict is Verdict.INSUFFICIENT:
        return _scheduled_off(evaluation) or f"{_drop(snapshot)}{_missing(evaluation)}"
    if verdict is Verdict.UNCLEAR:
        its = evaluation.verdict_window
        bounds, even = its.speedup_range and its.speedup_range.estimate, its.break_even_cost_ratio
        return likely_text(bounds, even, its.cost, its.published_share, is_likely=its.probably_pays)
    return f"{statement(verdict, evaluation)}: {_figure(evaluation.verdict_window)}{_basis(evaluation)}."


def know_text(its: WindowEvaluation) -> str:
    """Return the cheapest way to find out whether speculation pays, with its price."""
    way = ways_to_know(its)[0]
    text, paste = way.text[0].lower() + way.text[1:], f" In {way.place}: `{way.paste}`." * bool(way.paste)
    return f"To know it: {text}. It takes {way.takes}, and costs {way.costs}.{paste}"


def likely_text(
    bounds: Estimate | None,
    even: float | None,
    cost: CostRange | None,
    share: PublishedShare | None,
    *,
    is_likely: bool,
) -> str:
    """Return what is likely, at how many published costs it pays, and the cost of a token at break-even."""
    parts = [f"{LIKELY[is_likely]}."]
    if share is not None:
        parts.append(published_text(share, is_of_kind=cost is not None))
    if bounds is not None and cost is not None:
        value, low, high = map(_about, bounds[:3])
        parts.append(f"Decoding is about {value} times as fast ({low} to {high} {range_text(cost)}).")
    if even is not None:
        parts.append(f"It pays if a draft token costs less than {max(even, 0.0):.2g} of a decode step")
    if cost is None and share is None:
        return f"{' '.join(parts)}; too few published what such drafters cost."
    return f"{' '.join(parts)}{_assumed(cost, even)}"


def published_text(share: PublishedShare, *, is_of_kind: bool) -> str:
    """Return at how many published costs the present acceptance would pay."""
    drafters = "such drafters" if is_of_kind else "drafters of all kinds"
    return f"At {share.paying} of {share.costs} published costs of {drafters} your acceptance would pay."


def range_text(cost: CostRange) -> str:
    """Return where the range of a speed-up comes from."""
    return "at published costs" if cost.is_typical else "by the range of its cost"


def likely_so_far(its: WindowEvaluation) -> str:
    """Return what is likely before a verdict, with a final space; empty with few drafts."""
    found = its.speedup_range
    if its.likely_share_ratio is None or found is None:
        return ""
    says = f"So far {LIKELY[its.probably_pays][0].lower()}{LIKELY[its.probably_pays][1:]}"
    if its.published_share is not None:
        return f"{says}. {published_text(its.published_share, is_of_kind=its.cost is not None)} "
    value, low, high = map(_about, found.by_known[:3])
    by = "few data and " if found.is_bounded else ""
    return f"{says}: about {value} times as fast ({low} to {high}, by {by}the range of its cost). "


def memory_text(its: WindowEvaluation) -> str:
    """Return the return on the drafter's memory, and the KV cache beside it; empty if both are unknown."""
    cache = its.known.assumed.kv_cache
    kind = "" if cache is None or cache.dtype in {"", "auto"} else f" ({cache.dtype})"
    left = f"Speculation leaves room for {cache.tokens:,} tokens of KV cache{kind}." if cache else ""
    return f"{_memory_return(its)} {left}".strip()


def _memory_return(its: WindowEvaluation) -> str:
    value, bounds = its.memory_return, its.memory_return_bounds
    if value is None:
        return ""
    between = ""
    if bounds is not None:
        is_sure = bounds.lower * bounds.upper > 0
        low, high = sorted(map(abs, bounds[1:3])) if is_sure else bounds[1:3]
        between = f" ({'' if is_sure else 'a gain of '}{low:,.0f} to {high:,.0f})"
    drafter = f"The drafter's {gigabytes(its.known.speculation.draft_bytes)}"
    does = "gain" if value >= 0 else "lose"
    gained = f"{drafter} {does} {abs(value):,.0f} tokens a second for each GB{between}."
    if not its.is_cache_tight:
        return gained
    usage = percent(its.window.mean.kv_cache_usage_ratio)
    return f"{gained} KV cache is scarce ({usage} in use): as cache they could serve more requests."


def usual_length_text(snapshot: EngineSnapshot) -> str:
    """Return the usual acceptance length of a method; empty if none is published."""
    speculation, tokens = snapshot.evaluation.known.speculation, snapshot.tokens
    usual = None if speculation.drafts_in_parallel else usual_length(speculation.method, tokens)
    if usual is None:
        return ""
    low, high, number = usual
    name = present_name(speculation.method)  # a trusted name: it is in the table
    what = f"{name} with {plural(tokens, 'token')}"
    count = plural(number, "published measurement")
    return f"{what} usually gives {low:.1f} to {high:.1f} tokens a draft ({count})."


def _about(speedup: float) -> str:
    """Write a speed-up with one decimal; near 1 with two, so that 0.98 differs from 1.02."""
    return f"{speedup:.2f}" if 0.95 < speedup < 1.05 else f"{speedup:.1f}"  # noqa: PLR2004


def _assumed(cost: CostRange | None, even: float | None) -> str:
    if cost is None:
        return "; what it costs is unknown."
    is_fixed = cost.high.step > 0 and cost.high.token < (even or 0.0)
    fixed = f"; a step that drafts costs up to {cost.high.step:.2g} more" * is_fixed
    return f"; it costs {cost.low.token:.2g} to {cost.high.token:.2g} here{fixed} ({SOURCES[cost.source]})."


def _drop(snapshot: EngineSnapshot) -> str:
    """Return the first sentence of the finding of a present drop; nothing without one."""
    texts = (each.text for each in snapshot.findings if each.name in {"sudden_drop", "drafting_drop"})
    return next((f"{text.partition('. ')[0]}. " for text in texts), "")


def _scheduled_off(evaluation: Evaluation) -> str:
    """Write that the schedule has no drafts for the present load; nothing if it has, or if it drafts."""
    running = evaluation.longest.window.mean.running_requests
    if running is None or evaluation.longest.total.drafts:
        return ""
    first = evaluation.known.speculation.paused_from(running)
    text = "Its schedule drafts nothing from {} running requests, and {:.1f} run."
    return "" if first is None else text.format(first, running)


def _missing(evaluation: Evaluation) -> str:
    """Write the evidence that a verdict needs."""
    if not evaluation.missing:
        return "Too little was drafted, or too unevenly, to say whether speculation pays."
    since = "" if evaluation.since is None else f" since {utc_clock(evaluation.since)}"
    likely, first = likely_so_far(evaluation.verdict_window), evaluation.missing[0]
    early = f"{likely}Too early to {'be sure' if likely else 'say whether speculation pays'}{since}"
    if first.evidence is Evidence.HALF_WIDTH and first.seen <= first.needed:
        return "Nothing says whether speculation pays: the server does not show how many tokens it drafts."
    if first.evidence is Evidence.HALF_WIDTH:
        needed, seen = percent(first.needed), percent(first.seen)
        return f"{early}: the acceptance length is known to ±{seen}, and a verdict needs ±{needed}."
    if first.evidence is Evidence.LOWEST_SPEEDUP:
        speedup = f"the lower bound of the speed-up is {first.seen:.2f}"
        return f"{early}: {speedup}, and a verdict needs {first.needed:.2f}."
    needs = ", or ".join(_NEEDS[need.evidence][0].format(need.needed) for need in evaluation.missing)
    seen = " and ".join(_NEEDS[need.evidence][1].format(need.seen) for need in evaluation.missing)
    return f"{early}: a verdict needs {needs}; {seen} seen."


_NEEDS: Final = {
    Evidence.DRAFTS: ("{:,.0f} drafts", "{:,.0f}"),
    Evidence.REQUESTS: ("{:g} requests of equal length one after the other", "{:.1f}"),
    Evidence.SECONDS: ("{:.0f} s", "{:.0f} s"),
    Evidence.POLLS: ("{:.0f} polls", "{:.0f}"),
}
"""Texts of evidence that is needed, and that was seen."""


def _basis(evaluation: Evaluation) -> str:
    """Write the time that the verdict covers, if it is not the longest window."""
    seconds = f"{evaluation.verdict_window.window.seconds:.0f} s"
    if evaluation.since is not None:
        return f", since the change at {utc_clock(evaluation.since)} ({seconds})"
    if evaluation.basis is Basis.SHORTER:
        return f", by the last {seconds}, which contradict the longer window"
    return f" (early, from {seconds})" if evaluation.is_early else ""


def statement(verdict: Verdict, evaluation: Evaluation) -> str:
    """Return a verdict on decoding in words, and whether requests are slower than a baseline, or may be."""
    request = evaluation.verdict_window.request
    if request is None or request.bounds is None:
        return VERDICTS[verdict].title
    if verdict is Verdict.POOR and request.is_slower:
        return "Speculation makes requests slower"
    is_unsure = verdict in PAYING and request.bounds.lower < 1
    return f"{VERDICTS[verdict].title}{' for decoding, and whole requests may be slower' * is_unsure}"


def _figure(its: WindowEvaluation) -> str:
    """Write the speed-up of a request and of decoding or, if the cost is unknown, the tokens of a step."""
    speedup, request = its.estimated_speedup_ratio, its.request
    if speedup is None:
        return f"a decode step gives {its.speedup_ceiling_ratio:.2f} tokens, at an unknown cost of drafting"
    if request is None:
        return f"{speedup:.2f} times as fast as without it{_between(its.speedup_bounds, its)}, decode only"
    if request.bounds is None:
        decoding = f"decoding is {speedup:.2f} times as fast{_between(its.speedup_bounds, its)}"
        return f"{decoding}, a request {request.value:.2f} times with the same first token"
    whole = f"a request is {request.value:.2f} times as fast as without it{_between(request.bounds, its)}"
    return f"{whole}; decoding {speedup:.2f} times"


def _between(bounds: Estimate | None, its: WindowEvaluation) -> str:
    if bounds is not None:
        return f" ({bounds.lower:.2f} to {bounds.upper:.2f})"
    requests = its.effective_requests
    if requests is not None and requests < MIN_BOUND_REQUESTS:
        return " (too few requests passed for bounds)"
    return " (its bounds are unknown)"


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


# Settings


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
    if method in _WITH_MODEL and _PLAIN_PATH.fullmatch(model):
        return {"method": method, "model": model}
    return None
