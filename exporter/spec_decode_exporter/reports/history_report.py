"""Report of a history: whether speculation paid, when, and what changed; as text, HTML and JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from datetime import UTC, datetime
from importlib.resources import files
from typing import Any, Final, NamedTuple

from markupsafe import Markup
from msgspec import to_builtins

from spec_decode_exporter.analysis.recommended_setting import UNKNOWN_SETTING
from spec_decode_exporter.config.types import format_duration
from spec_decode_exporter.core.number_formats import bounds, count, number_range, percent, plain, three_digits
from spec_decode_exporter.core.version import __version__
from spec_decode_exporter.history.history_result import (
    SPECULATING,
    BestTokens,
    EngineHistoryResult,
    HistoryResult,
    HistorySetting,
    HistoryTotals,
    SlotSummary,
)
from spec_decode_exporter.history.history_slots import SlotOutcome, SlotResult
from spec_decode_exporter.reports import history_charts
from spec_decode_exporter.reports.exit_status import ExitStatus, worst
from spec_decode_exporter.reports.text import TextStyle, badge, json_text, printable, render
from spec_decode_exporter.reports.text import name as code
from spec_decode_exporter.views.engine_view import SettingView, view_of_setting
from spec_decode_exporter.views.setting_text import by_load_text, uncertain_text
from spec_decode_exporter.views.templating import environment

OUTCOMES: Final = {
    SlotOutcome.PAID: "it paid",
    SlotOutcome.HURT: "it hurt",
    SlotOutcome.UNCLEAR: "unclear",
    SlotOutcome.PLAIN: "without speculation",
    SlotOutcome.IDLE: "idle",
}
_STATUS: Final = {"paid": ExitStatus.GOOD, "hurt": ExitStatus.BAD, "unclear": ExitStatus.UNKNOWN}
_TONES: Final = {"paid": "good", "hurt": "bad", "unclear": "unsure", "no drafts": "off"}
_KINDS: Final = {"paid": "healthy", "hurt": "harmful", "unclear": "unclear", "no drafts": "neutral"}
"""Classes of the style sheet."""
_THIN_SPACE: Final = "\u202f"
_HOUR: Final = 3600.0
_MISSING: Final = (
    "A setting by load needs the cost at two loads at least, so steps with drafts and steps without at each. "
    "A time without speculation by day and by night, or `cost.loads` in the file of --config.file, has them."
)

Row = tuple[object, ...]
Draw = Callable[[float, bool], object]
"""Returns a bar for a share, and whether it is guessed."""


class Chapter(NamedTuple):
    """Part of the report: an engine, or all engines together."""

    name: str
    totals: HistoryTotals
    slots: Sequence[SlotResult]
    engine: EngineHistoryResult | None

    @property
    def last_tokens(self) -> int | None:
        """K of the last slot with drafts."""
        drafted = [slot for slot in self.slots if slot.outcome in SPECULATING]
        return max(drafted, key=lambda slot: slot.end).tokens if drafted else None

    @property
    def cost_sources(self) -> str:
        """Sources of the costs, by name."""
        return ", ".join(sorted({str(slot.cost_source) for slot in self.slots if slot.cost_source}))


def history_text(result: HistoryResult, style: TextStyle) -> str:
    """Return a history as text, which is Markdown too."""
    return render("history.md.jinja", style, **_context(result))


def history_html(result: HistoryResult) -> str:
    """Return a history as one self-contained file with charts, for a screen of any width and for paper."""
    span = history_charts.TimeSpan(result.begin, result.end)
    sheet = (files("spec_decode_exporter.web") / "static/style.css").read_text("utf-8")
    page = _html.get_template("history.html")
    return page.render(_context(result), sheet=Markup(sheet), span=span, version=__version__) + "\n"  # noqa: S704


def history_json(result: HistoryResult) -> str:
    """Return a history as ASCII JSON with a final newline."""
    document = {
        "version": __version__,
        **{name: getattr(result, name) for name in ("source", "begin", "end", "slot_seconds", "incomplete")},
        "notes": list(result.notes),
        "fleet": to_builtins(result.fleet, str_keys=True),
        "engines": [_engine_document(engine) for engine in result.engines],
    }
    return json_text(document)


HISTORY_FORMATS: Final[Mapping[str, Callable[[HistoryResult, TextStyle], str]]] = {
    "text": history_text,
    "json": lambda result, _: history_json(result),
    "html": lambda result, _: history_html(result),
}
"""Writers by the value of ``--format``."""


def history_status(result: HistoryResult) -> ExitStatus:
    """Return the worst status of all engines that drafted, by the bounds of their mean speed-up."""
    words = (word_of(engine.totals.summary) for engine in result.engines)
    statuses = {_STATUS[word] for word in words if word in _STATUS}
    return worst(statuses | ({ExitStatus.FAILED} if result.incomplete else set()))


def word_of(found: SlotSummary) -> str:
    """Return the answer in a word."""
    if not found.drafting.seconds:
        return "no drafts"
    speedup = found.speedup
    if speedup is None or speedup.lower < 1 <= speedup.upper:
        return "unclear"
    return "paid" if speedup.lower >= 1 else "hurt"


def _engine_document(engine: EngineHistoryResult) -> dict[str, Any]:
    own = {field.name: getattr(engine, field.name) for field in fields(engine) if field.name != "events"}
    setting = setting_document(engine.setting)
    baselines = [{"name": each.name, "seconds": each.seconds, "end": each.end} for each in engine.baselines]
    its: dict[str, Any] = to_builtins(
        {
            **own,
            **{field.name: getattr(engine.totals, field.name) for field in fields(engine.totals)},
            "changes": engine.changes,
            "drops": engine.drops,
            "baselines": baselines,
            "setting": None if setting is None else setting.model_dump(mode="json"),
        },
        str_keys=True,
    )
    for written, slot in zip(its["slots"], engine.slots, strict=True):
        for name in ("speedup", "acceptance_length"):
            estimate = getattr(slot, name)
            written[name] = None if estimate is None else estimate._asdict()
    return its


def _context(result: HistoryResult) -> dict[str, Any]:
    """Return what both templates read."""
    chapters = [
        Chapter(
            f"{engine.model_name or engine.target}, engine {engine.engine}",
            engine.totals,
            engine.slots,
            engine,
        )
        for engine in result.engines
    ]
    if len(chapters) > 1:
        chapters.insert(0, Chapter(f"All {len(chapters)} engines", result.fleet, result.slots, None))
    intervals = sorted({engine.scrape_interval_seconds for engine in result.engines})
    return {"result": result, "chapters": chapters, "intervals": intervals, **_GIVEN}


def length(seconds: float) -> str:
    """Write a time in whole seconds: ``2h1m1s``."""
    return format_duration(round(seconds))


def day(time: float) -> str:
    """Write a Unix time to the minute."""
    return f"{datetime.fromtimestamp(time, UTC):%Y-%m-%d %H:%M} UTC"


def hours_text(seconds: float) -> str:
    """Write a time in hours."""
    return f"{three_digits(seconds / _HOUR, 2)} h"


def overview(chapters: Sequence[Chapter], style: TextStyle) -> Iterator[Row]:
    """Yield answer, speed-up, name and target of each chapter."""
    for name, totals, _, engine in chapters:
        word, speedup = word_of(totals.summary), totals.summary.speedup
        shown = code(name) if engine else name
        target = code(engine.target) if engine else ""
        yield (
            badge(word.upper(), _TONES[word], style),
            plain(speedup.value if speedup else None),
            shown,
            target,
        )


def shares(found: SlotSummary) -> Iterator[Row]:
    """Yield time and tokens of each outcome, and their shares of those with drafts."""
    for outcome, share in found.shares.items():
        drafted = outcome in SPECULATING
        of_time = percent(found.share_of(outcome)) if drafted else ""
        of_tokens = percent(found.share_of(outcome, "tokens")) if drafted else ""
        yield OUTCOMES[outcome], hours_text(share.seconds), of_time, count(share.tokens), of_tokens


def loads(totals: HistoryTotals) -> Iterator[Row]:
    """Yield time, shares, speed-up with bounds and best tokens of each load band."""
    for band, found in totals.by_running_requests.items():
        speedup, best = found.speedup, found.best_tokens
        yield (
            band,
            hours_text(found.drafting.seconds),
            percent(found.share_of(SlotOutcome.PAID)),
            percent(found.share_of(SlotOutcome.HURT)),
            plain(speedup.value if speedup else None),
            bounds(speedup.lower, speedup.upper) if speedup else "",
            "-" if best is None else best.best,
        )


def hours(totals: HistoryTotals, draw: Draw) -> Iterator[Row]:
    """Yield speed-up and share of paid time of each hour of the day, with a bar."""
    known = {
        hour: (each.speedup.value, each.share_of(SlotOutcome.PAID))
        for hour, each in totals.by_hour_utc.items()
        if each.speedup
    }
    for hour, (speedup, paid) in known.items():
        share = speedup / max(value for value, _ in known.values())
        yield f"{hour:02d}", plain(speedup), percent(paid), draw(share, False)


def depths(found: BestTokens, tokens: int, draw: Draw) -> Iterator[Row]:
    """Yield the expected speed-up of each number of draft tokens, with a bar and a remark."""
    for depth, speedup in found.speedups.items():
        words = {"no speculation": not depth, "as it ran": depth == tokens, "best": depth == found.best}
        remark = ", ".join(word for word, holds in words.items() if holds)
        share = speedup / max(found.speedups.values())
        yield depth, plain(speedup), draw(share, depth > tokens), remark


def bands(found: HistorySetting) -> Iterator[Row]:
    """Yield the draft tokens as they were and the best ones by load, with their speeds."""
    for band in found.setting.bands if found.setting else ():
        present, best = plain(band.present_speedup_ratio), plain(band.speedup_ratio)
        yield number_range(band.first, band.last), band.present_tokens, present, band.tokens, best


def setting_document(found: HistorySetting | None) -> SettingView | None:
    """Return the document of a setting by load; None without drafts."""
    if found is None:
        return None
    setting, text = found.setting or UNKNOWN_SETTING, setting_sentence(found)
    missing = text if setting.tokens is None else ""
    return view_of_setting(setting, found.speculation, "" if missing else text, missing)


def setting_sentence(found: HistorySetting) -> str:
    """Return what would have been best by load, or what is missing to say so."""
    if found.setting is None:
        loads = ", ".join(f"{load:.3g}" for load in found.loads)
        known = f"measured at {loads} running requests alone" if loads else "not measured"
        return f"The best setting by load is unknown: the cost is {known}. {_MISSING}"
    if found.setting.tokens is None:
        return f"The best setting by load is unknown, as the cost is: {uncertain_text(found.setting)}"
    return by_load_text(found.setting)


def _printable(value: object) -> object:
    """Return a text without control characters; the environment escapes it. Formats have thin spaces."""
    if isinstance(value, Markup):
        return value
    return _THIN_SPACE.join(str(printable(part)) for part in str(value).split(_THIN_SPACE))


_GIVEN: Final = {
    **{
        each.__name__: each
        for each in (bands, day, depths, hours, hours_text, length, loads, overview, setting_sentence, shares)
    },
    "word_of": word_of,
    "TONES": _TONES,
    "SHARES": ("", "time", "of drafting", "tokens", "of drafting"),
    "HOURS": ("hour", "speed-up", "paid", ""),
    "BANDS": ("running requests", "as it ran", "speed", "best", "speed"),
    "LOAD": ("running requests", "time", "paid", "hurt", "speed-up", "95 % bounds", "best tokens"),
}
"""What the templates use besides the result."""
_html: Final = environment("spec_decode_exporter.reports", html=True)
_html.finalize = _printable
_html.globals.update(history_charts.CHARTS, KINDS=_KINDS)
