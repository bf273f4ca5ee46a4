"""Every number of an engine in one table: by window, with the counts that it is made of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from spec_decode_exporter.views.models import CountsView, EngineView, Estimated, WindowView
from spec_decode_exporter.web.page.markup import Markup, joined, tag
from spec_decode_exporter.web.page.page_numbers import (
    Format,
    between,
    duration,
    number,
    percent,
    plain,
    rate,
    times,
    whole,
)

Count = int | float | None


class _Figure(NamedTuple):
    """A row: the metric's name after ``spec_decode_`` is also the field's."""

    field: str
    title: str
    write: Format
    made_of: Callable[[CountsView], tuple[Count, str, Count] | None] = lambda _: None
    """The counts and the words between them: what, a word, of what."""


def _of(part: str, whole_: str) -> Callable[[CountsView], tuple[Count, str, Count]]:
    """Return how a ratio of two counters is read."""
    return lambda counts: (getattr(counts, part), "of", getattr(counts, whole_))


def _decoded(counts: CountsView) -> int | None:
    generated, first = counts.generation_tokens, counts.first_tokens
    return None if generated is None or first is None else generated - first


def _seconds(counts: CountsView) -> float | None:
    return None if counts.decode_nanoseconds is None else counts.decode_nanoseconds / 1e9


_FIGURES: Final = (
    _Figure("draft_acceptance_ratio", "Acceptance rate", percent, _of("accepted_tokens", "draft_tokens")),
    _Figure(
        "acceptance_length_tokens",
        "Acceptance length",
        plain,
        lambda counts: (counts.accepted_tokens, "in drafts:", counts.drafts),
    ),
    _Figure(
        "draft_length_tokens",
        "Draft length",
        plain,
        lambda counts: (counts.draft_tokens, "in drafts:", counts.drafts),
    ),
    _Figure("acceptance_decay_ratio", "Decay from position to position", plain),
    _Figure("coverage_ratio", "Decode steps with a draft", percent, _of("drafts", "decode_steps")),
    _Figure(
        "effective_tokens_per_step",
        "Tokens per decode step",
        plain,
        lambda counts: (_decoded(counts), "in steps:", counts.decode_steps),
    ),
    _Figure("estimated_speedup_ratio", "Estimated speed-up", times),
    _Figure("speedup_ceiling_ratio", "Speed-up if drafting were free", times),
    _Figure("break_even_acceptance_ratio", "Acceptance rate that it takes to pay", percent),
    _Figure(
        "step_seconds",
        "Time of a decode step",
        duration,
        lambda counts: (_seconds(counts), "s in steps:", counts.decode_steps),
    ),
    _Figure(
        "time_per_output_token_seconds",
        "Time per output token",
        duration,
        lambda counts: (_seconds(counts), "s in tokens:", _decoded(counts)),
    ),
    _Figure("drafts_per_second", "Drafts", rate, lambda counts: (counts.drafts, "", None)),
    _Figure(
        "draft_tokens_per_second", "Tokens drafted", rate, lambda counts: (counts.draft_tokens, "", None)
    ),
    _Figure(
        "accepted_tokens_per_second",
        "Tokens accepted",
        rate,
        lambda counts: (counts.accepted_tokens, "", None),
    ),
    _Figure("rejected_tokens_per_second", "Tokens drafted for nothing", rate),
    _Figure(
        "generation_tokens_per_second",
        "Tokens generated",
        rate,
        lambda counts: (counts.generation_tokens, "", None),
    ),
    _Figure("running_requests", "Running requests", plain),
    _Figure("waiting_requests", "Waiting requests", plain),
    _Figure("kv_cache_usage_ratio", "KV cache in use", percent),
    _Figure(
        "prefix_cache_hit_ratio",
        "Prefix cache hits",
        percent,
        _of("prefix_cache_hits", "prefix_cache_queries"),
    ),
    _Figure("preemptions_per_second", "Preemptions", rate, lambda counts: (counts.preemptions, "", None)),
)

_TOTALS: Final = (
    ("drafts", "drafts"),
    ("draft_tokens", "tokens drafted"),
    ("accepted_tokens", "accepted"),
    ("generation_tokens", "generated"),
)


def figures(view: EngineView) -> Markup:
    """Return the table, and below it what was counted since the exporter first saw the engine."""
    parts = [_totals(view)]
    if view.windows:
        heads = (tag("th", _window_head(each), scope="col", class_="number") for each in view.windows)
        top = tag("thead", tag("tr", tag("th", "Figure", scope="col"), *heads))
        parts.insert(0, _wide(tag("table", top, tag("tbody", *_rows(view)), class_="figures-table")))
    return joined(parts)


def _wide(table: Markup) -> Markup:
    return tag("div", table, class_="scrolls", tabindex=0, role="group", aria_label="Every number")


def _window_head(window: WindowView) -> Markup:
    covered = f"covers {window.seconds:.0f} s in {window.polls} polls"
    return joined((window.window, tag("small", covered)))


def _rows(view: EngineView) -> Iterator[Markup]:
    for figure in _FIGURES:
        values = [getattr(window, figure.field) for window in view.windows]
        if all(map(_is_unknown, values)):
            continue
        title = tag("th", figure.title, tag("code", f"spec_decode_{figure.field}"), scope="row")
        cells = (
            _cell(figure, value, window.counts) for value, window in zip(values, view.windows, strict=True)
        )
        yield tag("tr", title, *cells, data_key=figure.field)


def _cell(figure: _Figure, value: Estimated | float | None, counts: CountsView) -> Markup:
    made_of = figure.made_of(counts)
    below = [] if made_of is None else [_counts(*made_of)]
    if isinstance(value, Estimated):
        shown = [number(value.value, figure.write), between(value.lower, value.upper, figure.write)]
    else:
        shown = [number(value, figure.write)]
    return tag("td", *shown, *below, class_="number")


def _counts(what: Count, word: str, of_what: Count) -> Markup:
    """Return counts as they are read: 581 of 1 000."""
    parts: Iterable[str] = (
        (number(what, whole),)
        if of_what is None
        else (number(what, whole), f" {word} ", number(of_what, whole))
    )
    return tag("small", joined(parts), class_="counts")


def _totals(view: EngineView) -> Markup:
    counted = (joined((number(getattr(view.totals, field), whole), f" {word}, ")) for field, word in _TOTALS)
    resets = sum(view.resets.values())
    return tag(
        "p",
        "Since the exporter first saw the engine: ",
        *counted,
        f"over {view.totals.covered_seconds:.0f} s; its counters began anew {resets} times.",
        class_="note",
    )


def _is_unknown(value: Estimated | float | None) -> bool:
    return (value.value if isinstance(value, Estimated) else value) is None
