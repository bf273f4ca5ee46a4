"""Headline of the fleet or of an engine: what is the matter, and what to do; and the time saved."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import inf
from typing import Final, NamedTuple

from spec_decode_exporter.analysis.verdict import NOT_PAYING, PAYING, Action, State, Verdict
from spec_decode_exporter.core.number_formats import plural, utc_clock
from spec_decode_exporter.costs.time_saved import DAY_SECONDS, DecodeTime
from spec_decode_exporter.figures.estimate import SHORT_SECONDS
from spec_decode_exporter.scrape.engines import ENGINES
from spec_decode_exporter.scrape.errors import METRICS_URL
from spec_decode_exporter.views.engine_view import EngineView
from spec_decode_exporter.views.fleet_view import TargetView
from spec_decode_exporter.views.verdict_text import know_text, likely_so_far, no_verdict
from spec_decode_exporter.views.words import LIKELY, WORDS, Standing

FIRST_VERSION: Final = (0, 8, 5)  # first version of vLLM with the counters that are read
MIDNIGHT_SECONDS: Final = 900.0
"""Seconds after midnight until which the sums of a day begin if they are those of the whole day."""


class Headline(NamedTuple):
    """What is the matter with a fleet or an engine, and what to do."""

    tone: str
    """That of a ``Word``."""
    short: str
    """A few words, for a title."""
    matter: str
    """One or two sentences."""
    remedy: str = ""
    """What to do; empty if nothing needs to be done."""


_REMEDIES: Final[Mapping[Standing, str]] = {
    State.UNREACHABLE: "Look whether the server runs, and whether its page still names this model.",
    State.IDLE: "Send requests: the first bounds take 15 s of traffic.",
    State.UNKNOWN: "Send a few requests.",
}
_FAULTS: Final = ("sudden_drop", "drafting_drop", "stalled")
"""Findings whose first sentence is the matter; the others say what to do."""
_RECOVERED: Final = 0.95
"""Share of the length before a drop at which "it was 2.99 tokens, and is 2.95 now" needs an explanation."""


# Engines


def engine_headline(engine: EngineView, now: float, target: TargetView | None = None) -> Headline:
    """Return the headline of an engine at ``now`` (Unix time); ``target`` says why it has no drafts."""
    standing, its = engine.standing, engine.snapshot.evaluation
    _, tone, short, _ = WORDS[standing]
    if text := finding_text(engine):
        matter, _, remedy = text.partition(". ")
        if (is_unknown := bool(no_verdict(engine.findings))) or not engine.has_dropped:
            tone, short = ("unsure", re.split("[:,]", matter)[0]) if is_unknown else (tone, short)
            return Headline(tone, short, f"{matter}.", remedy)
        is_excluded = its.verdict in PAYING and its.is_excluded
        verdict = "" if is_excluded or its.verdict is Verdict.INSUFFICIENT else f" {short} now."
        if _has_recovered(engine):
            verdict = " It has recovered: the drop ends once that lasts."
        return Headline("bad", "Acceptance dropped", f"{matter}.{verdict}", remedy)
    if standing is State.DISABLED:
        return Headline(tone, short, "No speculation here.", no_speculation(target))
    if standing is State.UNREACHABLE and target is not None and target.up is False:
        return Headline(tone, f"{target.target} is down", f"{target.target} is down.", target_problem(target))
    if waiting := countdown(engine, now):
        likely = likely_so_far(its.verdict_window).rstrip()
        return Headline(tone, short, likely or "Too early to say whether speculation pays.", waiting)
    if standing is Verdict.UNCLEAR:
        short = _likely(engine)
    return Headline(tone, short, *_matter(engine))


def _matter(engine: EngineView) -> tuple[str, str]:
    """Return the verdict, and what to do; if it is unclear, first what decides it."""
    if engine.standing is not Verdict.UNCLEAR:
        return engine.verdict_text, _REMEDIES.get(engine.standing) or engine.recommendation_text
    likely, end, decides = engine.verdict_text.partition(" It pays if ")
    remedy = know_text(engine.snapshot.evaluation.verdict_window)
    if engine.recommendation is Action.DISABLE:
        remedy = engine.recommendation_text
    return likely, f"{end}{decides} {remedy}".lstrip()


def _has_recovered(engine: EngineView) -> bool:
    """Return whether the last half minute is as good as before each present drop."""
    drops = engine.drops.live.values()
    return bool(drops) and all(drop.length >= _RECOVERED * drop.baseline_length for drop in drops)


def finding_text(engine: EngineView) -> str:
    """Return the text of the finding that the headline is about; empty if it is about the verdict."""
    dropped = "Acceptance dropped. Check what changed then: prompts, sampling temperature, or a deployment."
    faults = (finding.text for name in _FAULTS for finding in engine.findings if finding.name == name)
    return no_verdict(engine.findings) or next(faults, dropped if engine.has_dropped else "")


def _likely(engine: EngineView) -> str:
    """Return what is likely of an unclear engine, or of one without a verdict yet, in a few words."""
    pays = engine.snapshot.evaluation.verdict_window.probably_pays
    return LIKELY[True] if pays else WORDS[engine.standing].title


def countdown(engine: EngineView, now: float) -> str:
    """Return when a verdict is expected at ``now`` (Unix time); empty if there is no estimate."""
    its = engine.snapshot.evaluation
    if its.seconds_to_verdict is None:
        return ""
    seconds = max(1.0, its.known.wall + its.seconds_to_verdict - now)
    if seconds < inf:
        return f"Verdict in {seconds:.0f} s." if seconds < 100 else f"Verdict in {seconds / 60:.0f} min."  # noqa: PLR2004
    is_sure = its.verdict_window.window.seconds >= SHORT_SECONDS
    return "At this rate too few requests pass for a verdict: send more." if is_sure else ""


_TO_SPECULATE: Final = {kind.name: kind.to_speculate for kind in ENGINES}


def no_speculation(target: TargetView | None) -> str:
    """Return why an engine does not speculate, and the flag to set; ``target`` is None if it is unknown."""
    known = (target.engine_kind, target.version, target.front_end) if target else ("", "", "")
    kind, version, front_end = known
    flag = _TO_SPECULATE[kind or "vllm"]
    numbers = tuple(map(int, re.findall(r"\d{1,6}", version)[:3]))
    if kind == "vllm" and numbers and numbers < FIRST_VERSION:
        return f"vLLM {version} has no counters of drafts: update it to 0.8.5 or later."
    if front_end == "ray":
        return (
            "Ray shows the counters with the first accepted draft: send requests. If speculation is off, set "
            "`speculative_config` in `engine_kwargs` of the `LLMConfig`."
        )
    if front_end == "rust" or kind == "llamacpp":
        return f"It decoded without a single draft, so speculation is off: {flag}."
    return f"Its page shows no drafts, so speculation is off: {flag}."


# Targets


def target_problem(target: TargetView) -> str:
    """Return why a target gives no figures, with the remedy; empty if it gives some."""
    if target.up is False:
        return "; ".join(filter(None, (target.error.removeprefix("refused: "), target.remedy))) + "."
    return f"No inference engine on this page; {target.remedy}." if target.engines_on_page == 0 else ""


def target_trouble(target: TargetView) -> tuple[int, float]:
    """Return the place of a target in the list, those with trouble first: down, no engine, not polled yet."""
    failed = sum(target.poll_failures.values()) / max(1, target.polls)
    if target.up is False:
        return 0, -failed
    return (1, 0.0) if target.engines_on_page == 0 else (2 if target.up is None else 3, -failed)


# Fleet


def headline(engines: Sequence[EngineView], targets: Sequence[TargetView], now: float) -> Headline:
    """Return the headline of the fleet at ``now`` (Unix time)."""
    if not engines:
        return _without_engines(targets)
    worst = min(engines, key=lambda engine: engine.urgency)
    target = next((each for each in targets if each.target == worst.target), None)
    own = engine_headline(worst, now, target)
    if len(engines) == 1:
        return own
    standings = Counter(engine.standing for engine in engines)
    matter = " ".join(filter(None, (_troubles(engines, standings), _sentence(engines, standings))))
    short = matter.partition(". ")[0].partition(",")[0].removesuffix(".")
    is_named = worst.is_alarming or no_verdict(worst.findings)
    remedy = f"{worst.name}: {own.matter} {own.remedy}" if is_named else ""
    tone = own.tone if remedy else _tone(standings)
    return Headline(tone, short, matter, remedy or _fleet_remedy(engines, worst, own))


def _without_engines(targets: Sequence[TargetView]) -> Headline:
    """Return the headline of a fleet without an engine: no target, or none that gives figures."""
    if not targets:
        remedy = f"Name a server: `spec-decode-exporter --target {METRICS_URL}`."
        return Headline("off", "No target", "No target is known yet.", remedy)
    worst = min(targets, key=target_trouble)
    if not target_problem(worst):
        matter = "has no answer yet" if worst.up is None else "is being evaluated"
        return Headline("waiting", "First seconds", f"The first poll {matter}.")
    number = len(targets)
    bad = "is down" if worst.up is False else "has no engine"
    matter = f"{worst.target} {bad}." if number == 1 else f"None of the {number} targets gives figures."
    remedy = target_problem(worst) if number == 1 else "See below for each target."
    return Headline("bad", matter.removesuffix("."), matter, remedy)


def _troubles(engines: Iterable[EngineView], standings: Counter[Standing]) -> str:
    """Return the faults of a fleet in a sentence; empty without any."""
    counts = {
        "acceptance dropped": sum(engine.has_dropped for engine in engines),
        "drafting stalled": standings[State.STALLED],
    }
    parts = [f"{what} on {plural(count, 'engine')}" for what, count in counts.items() if count]
    if gone := [engine.target for engine in engines if engine.standing is State.UNREACHABLE]:
        where = f" is unreachable ({gone[0]})" if len(gone) == 1 else " are unreachable"
        parts.append(f"{plural(len(gone), 'engine')}{where}")
    text = ", ".join(parts)
    return f"{text[:1].upper()}{text[1:]}." if text else ""


def _sentence(engines: Iterable[EngineView], standings: Counter[Standing]) -> str:
    """Return on how many engines speculation pays, in a sentence."""
    drafting = sum(standings[each] for each in Verdict)
    if not drafting:
        return "No engine speculates." if standings.keys() == {State.DISABLED} else "No engine drafts now."
    groups = list(_groups(engines, standings))
    number = f"all {drafting:,}" if len(groups) == 1 else f"{groups[0][1]:,} of {drafting:,}"
    number = "both" if number == "all 2" else number
    kind = "engines" if drafting == standings.total() else "engines that draft"
    where = f"{number} {kind}" if drafting > 1 else "the only engine that drafts"
    first = f"{groups[0][0]} on {where}"
    return f"{', '.join([first, *(f'{_later(what)} on {count}' for what, count in groups[1:])])}."


def _groups(engines: Iterable[EngineView], standings: Counter[Standing]) -> Iterator[tuple[str, int]]:
    """Yield what is said of the engines that draft, and on how many."""
    unsure = (Verdict.UNCLEAR, Verdict.INSUFFICIENT)
    likely = Counter(_likely(engine) for engine in engines if engine.standing in unsure)
    counts = {
        WORDS[Verdict.HEALTHY].title: sum(standings[each] for each in PAYING),
        WORDS[Verdict.HARMFUL].title: standings[Verdict.HARMFUL],
        LIKELY[True]: likely[LIKELY[True]],
        WORDS[Verdict.POOR].title: standings[Verdict.POOR],
        **{WORDS[each].title: likely[WORDS[each].title] for each in unsure},
    }
    yield from ((what, count) for what, count in counts.items() if count)


def _later(what: str) -> str:
    """Return a phrase as a later part of a sentence."""
    short = what.removeprefix("Speculation ").removesuffix(" whether speculation pays")
    return f"{short[0].lower()}{short[1:]}"


def _tone(standings: Counter[Standing]) -> str:
    pays, bad = (sum(standings[each] for each in group) for group in (PAYING, NOT_PAYING))
    if pays + bad + standings[Verdict.UNCLEAR]:
        return "good" if pays > bad + standings[Verdict.UNCLEAR] else "unsure"
    return "off" if standings.keys() == {State.DISABLED} else "waiting"


def _fleet_remedy(engines: Sequence[EngineView], worst: EngineView, own: Headline) -> str:
    """Return what to do in a fleet without a fault."""
    if better := sum(engine.recommendation in {Action.INCREASE, Action.DECREASE} for engine in engines):
        return f"Another number of draft tokens is faster on {plural(better, 'engine')}: see the table."
    if worst.standing is Verdict.UNCLEAR:
        return "Below: how to find out, cheapest first."
    return {"good": "", "off": f"{worst.name}: {own.remedy}"}.get(own.tone, own.remedy)


# Time saved


def time_saved(engines: Iterable[EngineView], now: float) -> str:
    """Return the decode time saved today at ``now`` (Unix time), over all requests; empty if it is unknown.

    An engine whose sum is of earlier hours that the shown verdict contradicts does not count.
    """
    days = [
        day
        for engine in engines
        if (day := engine.snapshot.today).includes(now)
        and day.time.actual
        and _agrees(engine.verdict, day.time)
    ]
    if not days:
        return ""
    total, since = map(sum, zip(*(day.time for day in days), strict=True)), min(day.since for day in days)
    value, lower, upper = DecodeTime(*total).saved
    when = "today" if since % DAY_SECONDS <= MIDNIGHT_SECONDS else f"since {utc_clock(since)[:5]} UTC"
    unit, name = (3600, "h") if max(abs(lower), abs(upper)) >= 3600 else (60, "min")  # noqa: PLR2004
    low, best, high = (f"{abs(each) / unit:,.1f}" for each in (lower, value, upper))
    between = f"{low} to {high} {name}" if lower >= 0 else f"{high} to {low} {name}"
    if lower < 0 < upper:
        between = f"{low} {name} lost to {high} {name} saved"
    kind = "saved" if value >= 0 else "lost"
    return f"Decode time {kind} {when}, summed over all requests: {best} {name} ({between})."


def _agrees(verdict: Verdict, time: DecodeTime) -> bool:
    """Return whether the sign of a sum is that of the shown verdict."""
    value = time.saved[0]
    return not (value < 0 and verdict in PAYING) and not (value > 0 and verdict is Verdict.HARMFUL)
