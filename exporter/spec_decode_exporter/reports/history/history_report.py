"""Report of a history: whether speculation paid, when, and what changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Final

from spec_decode_exporter.config.types import format_duration
from spec_decode_exporter.core import number_formats as numbers
from spec_decode_exporter.history.history_changes import HistoryChange, HistoryDrop, Side, changes, drops
from spec_decode_exporter.history.history_result import EngineHistoryResult, HistoryResult
from spec_decode_exporter.history.history_summary import (
    HOUR,
    BestTokens,
    SlotSummary,
    band_name,
    best_tokens,
    by_hour,
    by_load,
    by_tokens,
    summary,
)
from spec_decode_exporter.history.slot_evaluation import Outcome, SlotResult
from spec_decode_exporter.reports.history.setting_section import setting_parts
from spec_decode_exporter.reports.parts import (
    Bar,
    Chart,
    EngineReport,
    Fact,
    FigureTable,
    Note,
    Part,
    Report,
    ReportSection,
    Tone,
)

OUTCOMES: Final = {
    Outcome.PAID: "it paid",
    Outcome.HURT: "it hurt",
    Outcome.UNCLEAR: "unclear",
    Outcome.PLAIN: "without speculation",
    Outcome.IDLE: "idle",
}
_NO_SPEEDUP: Final = (
    "The speed-up is unknown: no slot has enough requests for bounds. A longer time, or the method by "
    "--speculative.method, may help."
)


def history_report(result: HistoryResult) -> Report:
    """Return a history as a report: the fleet first if it has several engines."""
    engines = [_engine(engine) for engine in result.engines]
    if len(result.engines) > 1:
        every = [slot for engine in result.engines for slot in engine.slots]
        engines.insert(0, _report(f"All {len(result.engines)} engines", "", every, (), ()))
    incomplete = (Note(result.incomplete, "Incomplete report", Tone.BAD, untrusted=True),)
    return Report(
        f"Speculative decoding, {format_duration(round(result.end - result.begin))} until "
        f"{moment(result.end)}",
        incomplete if result.incomplete else (),
        tuple(engines),
        facts=(Fact("source", result.source, untrusted=True),),
        remarks=tuple(Note(text, untrusted=True) for text in (*result.notes, *limits(result))),
    )


def moment(time: float) -> str:
    """Write a Unix time to the minute."""
    return f"{datetime.fromtimestamp(time, UTC):%Y-%m-%d %H:%M} UTC"


def limits(result: HistoryResult) -> Iterator[str]:
    """Yield what a history cannot tell."""
    intervals = sorted({engine.interval for engine in result.engines})
    if intervals:
        apart = " to ".join(format_duration(round(each)) for each in {intervals[0]: 0, intervals[-1]: 0})
        shortest = format_duration(round(2 * intervals[-1]))
        yield (
            f"Samples are {apart} apart: a drop of less than {shortest}, and the course within a slot of "
            f"{format_duration(result.slot_seconds)}, cannot be seen."
        )
    yield "Hours of the day are in UTC. Bounds are 95 % bounds, and contain the interval of the cost."


def verdict_text(found: SlotSummary) -> str:
    """Return the answer in a sentence."""
    drafting = found.drafting
    if not drafting.seconds:
        return "It drafted nothing in this time."
    paid, hurt, unclear = (
        numbers.percent(found.share_of_time(each)) for each in (Outcome.PAID, Outcome.HURT, Outcome.UNCLEAR)
    )
    shares = f"It paid for {paid} of the {hours(drafting.seconds)} with drafts, hurt for {hurt}, and is"
    shares += f" unclear for {unclear}."
    speedup = found.speedup
    if speedup is None:
        return f"{shares} {_NO_SPEEDUP}"
    bounds = numbers.bounds(speedup.lower, speedup.upper)
    return f"Decoding was {numbers.plain(speedup.value)} times as fast ({bounds}). {shares}"


def hours(seconds: float) -> str:
    """Write a time in hours."""
    return f"{numbers.three_digits(seconds / HOUR, 2)} h"


def saved_fact(found: SlotSummary) -> Fact:
    """Return the decode time that speculation saved or lost, with its bounds."""
    if found.speedup is None:
        return Fact("time saved", numbers.ABSENT)
    value, lower, upper = found.speedup.saved_seconds
    name, sign = ("time saved", 1) if value >= 0 else ("time lost", -1)
    low, high = sorted((sign * lower, sign * upper))
    shown = (f"{each / HOUR:,.1f}" for each in (sign * value, low, high))
    return Fact(name, "{} ({} to {}) decode-hours of requests".format(*shown))


def _engine(engine: EngineHistoryResult) -> EngineReport:
    name = f"{engine.model_name or engine.target}, engine {engine.engine}"
    facts = [
        Fact("scrapes", f"{numbers.count(engine.scrapes)}, {format_duration(round(engine.interval))} apart"),
        *(Fact("baseline", period.name) for period in engine.plain_periods),
    ]
    sections = (
        ReportSection("Changes", tuple(map(_change, changes(engine.slots)))),
        ReportSection("Drops", tuple(map(_drop, drops(engine.events)))),
        ReportSection("Best draft tokens by load", tuple(setting_parts(engine.setting))),
    )
    return _report(name, engine.target, engine.slots, facts, sections)


def _report(
    name: str,
    place: str,
    slots: Sequence[SlotResult],
    facts: Sequence[Fact],
    more: Sequence[ReportSection],
) -> EngineReport:
    found = summary(slots)
    word, tone = word_of(found)
    sources = sorted({str(slot.cost_source) for slot in slots if slot.cost_source})
    about = [saved_fact(found), *facts]
    about += [Fact("cost", ", ".join(sources))] if sources else []
    sections = (
        ReportSection("Time and tokens", tuple(_shares(found))),
        ReportSection("By load", tuple(_loads(slots))),
        ReportSection("By hour of day (UTC)", tuple(_hours(slots))),
        *more,
        ReportSection("Number of draft tokens", tuple(_depths(slots))),
    )
    gist = f"speed-up {numbers.plain(found.speedup.value)}" if found.speedup else ""
    return EngineReport(
        name,
        place,
        word,
        tone,
        gist,
        verdict_text(found),
        _advice(slots),
        tuple(about),
        tuple(section for section in sections if section.parts),
    )


def word_of(found: SlotSummary) -> tuple[str, Tone]:
    """Return the badge of a summary, and its tone."""
    if not found.drafting.seconds:
        return "no drafts", Tone.NEUTRAL
    speedup = found.speedup
    if speedup is None or speedup.lower < 1 <= speedup.upper:
        return "unclear", Tone.FAIR
    return ("paid", Tone.GOOD) if speedup.lower >= 1 else ("hurt", Tone.BAD)


def _shares(found: SlotSummary) -> Iterator[Part]:
    rows = [
        (
            OUTCOMES[outcome],
            hours(share.seconds),
            numbers.percent(found.share_of_time(outcome)) if outcome in _DRAFTED else "",
            numbers.count(share.tokens),
            numbers.percent(found.share_of_tokens(outcome)) if outcome in _DRAFTED else "",
        )
        for outcome, share in found.shares.items()
    ]
    if rows:
        yield FigureTable(("", "time", "of drafting", "tokens", "of drafting"), tuple(rows))


_DRAFTED: Final = (Outcome.PAID, Outcome.HURT, Outcome.UNCLEAR)


def _loads(slots: Sequence[SlotResult]) -> Iterator[Part]:
    rows = []
    for band, members in by_load(slots).items():
        found, best = summary(members), best_tokens(members)
        speedup = found.speedup
        rows.append(
            (
                band_name(band),
                hours(found.drafting.seconds),
                numbers.percent(found.share_of_time(Outcome.PAID)),
                numbers.percent(found.share_of_time(Outcome.HURT)),
                numbers.plain(speedup.value if speedup else None),
                numbers.bounds(speedup.lower, speedup.upper) if speedup else "",
                numbers.ABSENT if best is None else str(best.best),
            )
        )
    if rows:
        titles = ("running requests", "time", "paid", "hurt", "speed-up", "95 % bounds", "best tokens")
        yield FigureTable(titles, tuple(rows))


def _hours(slots: Sequence[SlotResult]) -> Iterator[Part]:
    found = {hour: summary(members) for hour, members in by_hour(slots).items()}
    known = {hour: each for hour, each in found.items() if each.speedup}
    largest = max((each.speedup.value for each in known.values() if each.speedup), default=1.0)
    bars = tuple(
        Bar(
            f"{hour:02d}",
            each.speedup.value / largest,
            (numbers.plain(each.speedup.value), numbers.percent(each.share_of_time(Outcome.PAID))),
        )
        for hour, each in known.items()
        if each.speedup
    )
    if bars:
        yield Chart("hour", ("speed-up", "paid"), bars)


def _depths(slots: Sequence[SlotResult]) -> Iterator[Part]:
    for tokens, members in by_tokens(slots).items():
        found = best_tokens(members)
        if found is not None:
            yield _depth_chart(found, tokens)
    if any(best_tokens(members) for members in by_tokens(slots).values()):
        yield Note("An estimate: acceptance at another number of draft tokens differs somewhat.")


def _depth_chart(found: BestTokens, tokens: int) -> Chart:
    largest = max(found.speedups.values())
    return Chart(
        f"at {tokens} tokens",
        ("speed-up",),
        tuple(
            Bar(
                str(depth),
                speedup / largest,
                (numbers.plain(speedup),),
                ", ".join(
                    word
                    for word, holds in (
                        ("no speculation", not depth),
                        ("as it ran", depth == tokens),
                        ("best", depth == found.best),
                    )
                    if holds
                ),
                marked=depth == found.best,
                guessed=depth > tokens,
            )
            for depth, speedup in found.speedups.items()
        ),
    )


def _advice(slots: Sequence[SlotResult]) -> str:
    """Return the number of draft tokens that would have been best with the last K."""
    by_k = by_tokens(slots)
    drafted = [slot for slot in slots if slot.outcome in _DRAFTED]
    if not drafted:
        return ""
    tokens = max(drafted, key=lambda slot: slot.end).tokens
    found = best_tokens(by_k.get(tokens, ()))
    if found is None:
        return ""
    if not found.best:
        return "No speculation would have been faster."
    if found.best == tokens:
        return f"{numbers.plural(tokens, 'draft token')}, as it ran, would have been best."
    best = numbers.plural(found.best, "draft token")
    gained = found.speedups[found.best] / found.speedups[tokens]
    if gained <= 1:
        return f"{best} would have been enough: {numbers.percent(1 - gained)} slower than {tokens}."
    return f"{best} would have been best: {numbers.change(gained)} to {tokens}."


def _change(change: HistoryChange) -> Note:
    differs = {True: "a significant difference", False: "no significant difference", None: ""}
    words = [f"{change.name}: before {_side(change.before)}; after {_side(change.after)}"]
    words += filter(None, [differs[change.speedup_differs] if change.before != change.after else ""])
    return Note("; ".join(words) + ".", moment(change.time))


def _side(side: Side) -> str:
    words = []
    if side.speedup is not None:
        bounds = numbers.bounds(side.speedup.lower, side.speedup.upper)
        words.append(f"speed-up {numbers.plain(side.speedup.value)} ({bounds})")
    if side.acceptance_length is not None:
        words.append(f"{numbers.plain(side.acceptance_length)} tokens a draft")
    words += [f"step {numbers.duration(side.step_seconds)}"] if side.step_seconds else []
    if side.first_token_seconds:
        words.append(f"first token after {numbers.duration(side.first_token_seconds)}")
    return ", ".join(words) or "no data"


def _drop(drop: HistoryDrop) -> Note:
    ended = "not over at the end" if drop.end is None else f"until {moment(drop.end)}"
    if drop.end is not None and not drop.recovered:
        ended = f"at least until {moment(drop.end)}, when the low value became the baseline"
    return Note(
        f"{drop.kind} drop {ended}: {numbers.plain(drop.before)} to {numbers.plain(drop.after)} tokens "
        f"({numbers.percent(-drop.depth)}).",
        moment(drop.begin),
        Tone.BAD,
    )
