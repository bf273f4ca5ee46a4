"""The live page: complete without JavaScript; the script requests ``/fragment`` each second."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, lru_cache, partial
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from shlex import quote
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

from aiohttp import web

from spec_decode_exporter.analysis.figure_table import FIGURES, Figure, Unit, term
from spec_decode_exporter.core.isolation import NO_ITEM
from spec_decode_exporter.core.number_formats import percent
from spec_decode_exporter.core.numbers import MAX_TEXT
from spec_decode_exporter.core.tasks import DOCUMENTATION, yield_to_event_loop
from spec_decode_exporter.monitor.event_log import RecordedEvent
from spec_decode_exporter.monitor.events import EVENTS, event_text
from spec_decode_exporter.monitor.snapshot import ExporterStatus, id_of
from spec_decode_exporter.requests.store import GroupFindings, WindowFindings
from spec_decode_exporter.requests.summary import Effect, Percentiles, bucket_text
from spec_decode_exporter.views.document import Estimated
from spec_decode_exporter.views.fleet_view import experiment_views, target_view
from spec_decode_exporter.views.headline import (
    engine_headline,
    finding_text,
    headline,
    target_problem,
    target_trouble,
    time_saved,
)
from spec_decode_exporter.views.trace import Trace, acceptance_trace, lengths_by_load
from spec_decode_exporter.views.verdict_text import BASES, SOURCES
from spec_decode_exporter.views.words import STATES, VERDICTS
from spec_decode_exporter.web.fleet import (
    MAX_EVENTS,
    MAX_ROWS,
    Events,
    PageQuery,
    ShownFleet,
    grouped,
    selected,
    shared_ways,
)
from spec_decode_exporter.web.limits import packed_response
from spec_decode_exporter.web.state import STATE, ExporterState, paced
from spec_decode_exporter.window.engine_windows import Means, Window

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

    from spec_decode_exporter.core.isolation import Isolation

Facts = dict[str, Any]  # what the templates read, by name

STATIC: Final = Path(__file__).parent / "static"
"""Folder of the page's styles, script and icon: its security policy allows no others."""
SECTIONS: Final = ("summary", "fleet", "experiments", "requests", "targets", "events", "glossary")
"""Templates of the content, in order."""

SLICE_SECONDS: Final = 0.002  # time of rendering after which other tasks run
_FORMATS: Final = {
    **dict.fromkeys((Unit.NUMBER, Unit.TOKENS, Unit.REQUESTS), "plain"),
    Unit.SHARE: "percent",
    Unit.FACTOR: "times",
    Unit.SECONDS: "duration",
    Unit.PER_SECOND: "rate",
}
"""Functions of the templates by unit."""
_NOT_COUNTED: Final = frozenset({*Means._fields, "seconds", "polls", "rejected_tokens"})
"""Sums that no counter counts."""
_EFFECTS: Final = (Effect.LOSES, Effect.GAINS, Effect.UNCLEAR)  # order of the groups of requests


async def page(request: web.Request) -> web.Response:
    """Serve the whole page."""
    state = request.app[STATE]
    facts = await page_facts(state, PageQuery.read(request.query))
    shown = await content(state.errors, facts)
    whole = await render("page.html", content=shown, root="./", **facts)
    _release(facts)
    return await html_response(request, whole)


async def fragment(request: web.Request) -> web.Response:
    """Serve the current content of the page."""
    state = request.app[STATE]
    facts = await page_facts(state, PageQuery.read(request.query))
    shown = await content(state.errors, facts)
    _release(facts)
    return await html_response(request, shown)


def _release(facts: Facts) -> None:
    """Empty the lists: contexts of Jinja refer to them until a garbage collection, ten minutes at most."""
    for rows in (facts["fleet"].engines, facts["fleet"].shown, facts["targets"], facts["bad"]):
        rows.clear()


async def html_response(request: web.Request, text: str) -> web.Response:
    """Return a page, compressed if the client accepts that."""
    return await packed_response(request, text.encode(errors="replace"), "text/html; charset=utf-8")


async def page_facts(state: ExporterState, query: PageQuery) -> Facts:
    """Return what the templates read, at this moment."""
    snapshot, errors = await state.snapshot(), state.errors
    fleet, now = await ShownFleet.of(snapshot.engines, query, errors), state.clock.wall()
    views = errors.each("page", snapshot.targets, itemgetter(0), lambda target: target_view(target[1]))
    targets = sorted(await paced(views), key=target_trouble)
    await yield_to_event_loop()  # headline and time saved read all engines in one piece
    return {
        "version": state.version,
        "now": now,
        "query": query,
        "window": state.windows()[-1],
        "fleet": fleet,
        "headline": errors.attempt("page", NO_ITEM, lambda: headline(fleet.engines, targets, now)),
        "time_saved": errors.attempt("page", NO_ITEM, lambda: time_saved(fleet.engines, now)),
        "events": Events(state.events.kept),
        "targets": targets,
        "bad": [target for target in targets if target_problem(target)],
        "up": sum(bool(target.up) and not target_problem(target) for target in targets),
        "requests": snapshot.requests,
        "experiments": list(experiment_views(snapshot.experiments, errors, "page")),
        "exporter": next((exporter for _, exporter in snapshot.exporter), ExporterStatus()),
        "trace": partial(acceptance_trace, now=state.clock.monotonic()),
        "attempt": lambda item, macro, *given: errors.attempt("page", item, partial(macro, *given)),
    }


async def content(errors: Isolation, facts: Facts) -> Markup:
    """Return the content of the page. A section that fails does not affect the others."""
    parts = [
        await errors.attempt_async("page", partial(render, f"{section}.html", **facts))
        or await render("not_shown.html")
        for section in SECTIONS
    ]
    return parts[0][:0].join(parts)


async def render(template: str, /, **context: object) -> Markup:
    """Return a template of this package as HTML; other tasks run every few milliseconds."""
    environment = await DOCUMENTATION.run(_environment)
    pieces, begin = [], perf_counter()
    for piece in environment.get_template(template).generate(context):
        pieces.append(piece)
        if perf_counter() - begin > SLICE_SECONDS:
            await yield_to_event_loop()
            begin = perf_counter()
    made: Markup = environment.filters["safe"]("".join(pieces))
    return made


@cache
def _environment() -> Environment:
    """Load and compile the templates; a thread does, as that takes some tenths of a second."""
    # Imported here: megabytes that an exporter without readers does not need.
    from spec_decode_exporter.views import templating

    environment = templating.environment("spec_decode_exporter.web", html=True)
    environment.globals |= {each.__name__: each for each in _FUNCTIONS} | _VALUES | {"string": str}
    environment.globals["FORMATS"] = {unit: environment.globals[name] for unit, name in _FORMATS.items()}
    environment.tests["unknown"] = _is_unknown
    for template in environment.list_templates():
        environment.get_template(template)
    return environment


def paths(its: Trace) -> tuple[str, str]:
    """Return the lines of a chart 600 wide and 100 high, and the area below; an unknown value is a gap."""
    lines, areas = [], []
    points = [
        "" if ratio is None else f"{x} {max(100 - 100 * ratio, 0.0):.0f}"
        for x, ratio in zip((_place(age, its.seconds) for age in its.ages), its.ratios, strict=True)
    ]
    for run in (list(run) for is_known, run in groupby(points, bool) if is_known):
        begin, end, line = run[0].split()[0], run[-1].split()[0], "L".join(run)
        lines.append(f"M{line}{'h0' if len(run) == 1 else ''}")  # a single point is a dot
        areas += [f"M{begin} 100L{line}L{end} 100Z"] if len(run) > 1 else []
    return "".join(lines), "".join(areas)


@lru_cache(maxsize=512)  # the charts of a page have the same places
def _place(age: float, seconds: float) -> str:
    """Return the place of an age on the time axis, which is ``seconds`` long."""
    return f"{600 * (1 - min(age / seconds, 1.0)):.0f}"


def chart_title(its: Trace) -> str:
    """Return the chart of a line in words."""
    known, minutes = [ratio for ratio in its.ratios if ratio is not None], f"{its.seconds / 60:g} min"
    if not known:
        return f"Nothing was drafted in the last {minutes}."
    newest = f"{percent(known[-1])} {'last' if its.ratios[-1] is None else 'now'}"
    low, high = percent(min(known)), percent(max(known))
    return f"Acceptance rate over the last {minutes}: {newest}, between {low} and {high}."


def marks(events: list[RecordedEvent], now: float, seconds: float) -> list[tuple[str, str, str]]:
    """Return place, tone and text of the events of the last ``seconds``; ``now`` is Unix time."""
    return [
        (
            _place(max(now - event.time, 0.0), seconds),
            EVENTS[event.type].tone,
            event_text(event.type, event.fields),
        )
        for event in events
        if now - event.time <= seconds
    ]


def counts(figure: Figure, window: Window) -> list[float | None]:
    """Return the counts that a figure is computed from, such as 581 of 1,000; empty without counters."""
    above, below = figure.over or ("polls", "polls")
    names = () if above in _NOT_COUNTED else (above, below)
    return [term(window, name) for name in names if name not in _NOT_COUNTED]


def _is_unknown(value: Estimated | float | None) -> bool:
    return (value.value if isinstance(value, Estimated) else value) is None


def in_order(
    windows: Mapping[str, WindowFindings], model_name: str
) -> list[tuple[GroupFindings, dict[str, Percentiles | None]]]:
    """Return a model's groups in the longest window, losing ones first, then by size.

    Beside each are the percentiles of its acceptance rate in each window; None without requests.
    """
    ratios = {
        label: {group.key: group.summary.acceptance_ratio for group in window.groups}
        for label, window in windows.items()
    }
    own = [group for group in list(windows.values())[-1].groups if group.key.model_name == model_name]
    own.sort(key=lambda group: (_EFFECTS.index(group.summary.effect), -group.summary.requests))
    return [(group, {label: its.get(group.key) for label, its in ratios.items()}) for group in own]


# fmt: off
_FUNCTIONS: Final[tuple[Callable[..., object], ...]] = (
    bucket_text, chart_title, counts, engine_headline, event_text, finding_text, grouped, id_of, in_order,
    lengths_by_load, marks, paths, quote, selected, shared_ways, target_problem,
)
_VALUES: Final[dict[str, object]] = {
    "BASES": BASES, "SOURCES": SOURCES, "EVENTS": EVENTS, "STATES": STATES, "VERDICTS": VERDICTS,
    "MAX_EVENTS": MAX_EVENTS, "MAX_ROWS": MAX_ROWS, "MAX_TEXT": MAX_TEXT,
    "FIGURES": [figure for figure in FIGURES if not figure.index],
}
# fmt: on
