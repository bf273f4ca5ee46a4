"""One engine: does speculation pay, what should be done, and why."""

from __future__ import annotations

from typing import Any

from grafana import style, variables
from grafana.board import Band, Section, alerts, board, mark
from grafana.panels import (
    Look,
    Panel,
    Query,
    band,
    bars,
    dashed,
    line,
    lines,
    named,
    stat_tile,
    text_of,
    timeline,
)
from grafana.promql import ENGINE, ENGINE_KEY, by, number_of_word, percentile
from grafana.style import Colour

_RATIO = Look(unit="percentunit", least=0, most=1)
_SPEEDUP = Look(unit="none", decimals=2, steps=style.PAYS, no_value="cost unknown", axis=(0.9, None))
_TIME = Look(unit="s", least=0)
_SHORTER = Look(unit="none", decimals=2, least=0, steps=style.SHORTER, no_value="no comparable baseline")
_NONE_YET = Look(unit="none", decimals=0, steps=style.NEUTRAL, no_value="none yet")
_TIMES = {"unit": style.TIMES}
_TOKENS = {"unit": style.TOKENS_A_SECOND, "decimals": 0}
_THIN = {"custom.lineWidth": 1}
_THICK = {"custom.lineWidth": 4}

_K_NOW = ENGINE("configured_tokens")
_LENGTH = ENGINE.short("acceptance_length_tokens")
_LOST = ENGINE("acceptance_dropped", kind="sudden")
_STEP = ENGINE.long("effective_tokens_per_step")
_DRAFTED, _ACCEPTED = (ENGINE.rate(f"{what}_tokens_total") for what in ("draft", "accepted"))


def _word(name: str, metric: str, label: str, words: style.Words) -> Query:
    return Query(number_of_word(ENGINE, metric, label, words, ()), name, text_of(words))


def _bounds(metric: str) -> tuple[Query, Query]:
    """Return the band between the bounds of a metric in the long window."""
    lower, upper = (ENGINE.long(f"{metric}_{side}") for side in ("lower", "upper"))
    return band(lower, upper, ("at least", "at most"), Colour.TREND)


def _both_windows(metric: str) -> tuple[Query, Query]:
    short = Query(ENGINE.short(metric), "short window", line(Colour.NOW, _THIN))
    return short, Query(ENGINE.long(metric), "long window", line(Colour.TREND))


def _quantiles(title: str, description: str, metric: str, look: Look = _TIME) -> Panel:
    queries = [Query(by(("quantile",), ENGINE(metric)), "{{quantile}}")]
    panel = lines(title, description, queries, look, limit=look is _SHORTER)
    looks = {
        label: {"color": style.fixed(colour), "displayName": percentile(label)}
        for label, colour in style.QUANTILES.items()
    }
    return named(panel, looks)


_WORDS = {
    "Verdict": _word("Verdict", "verdict", "verdict", style.VERDICTS),
    "Advice": _word("Advice", "recommendation", "action", style.ACTIONS),
    "State": _word("State", "state", "state", style.STATES),
    "Dropped": Query(ENGINE("acceptance_dropped"), "Baseline, {{kind}}", text_of(style.DROPPED)),
}

_VERDICT = stat_tile(
    "Verdict",
    "Whether speculation pays: it does by the lower 95 % bound of the speed-up, and is harmful by the upper "
    "one. It covers the time since the last change, at most the long window: the speed-up beside it, over "
    "the whole long window, may differ for some minutes after a change.",
    [_WORDS["Verdict"]],
    _NONE_YET,
    filled=True,
)
_ADVICE = stat_tile(
    "Advice",
    "What to try, the number of tokens drafted now, and the smallest number that is as good as the best.",
    [
        _WORDS["Advice"],
        Query(_K_NOW, "K now", line(Colour.NOW)),
        Query(by((), ENGINE("recommended_tokens")), "best K", line(Colour.TREND)),
    ],
    _NONE_YET,
)
_PAID = stat_tile(
    "Speed-up",
    "Speed of a whole request and of decoding relative to no speculation, over the long window, with the 95 "
    "% bounds of decoding.",
    [
        Query(by((), ENGINE.long("end_to_end_speedup_ratio")), "request", _TIMES),
        Query(ENGINE.long("estimated_speedup_ratio_lower"), "at least", {**_TIMES, **line(Colour.UNKNOWN)}),
        Query(ENGINE.long("estimated_speedup_ratio"), "decoding", _TIMES),
        Query(ENGINE.long("estimated_speedup_ratio_upper"), "at most", {**_TIMES, **line(Colour.UNKNOWN)}),
    ],
    Look(unit="none", decimals=2, steps=style.SPEEDUP, no_value="cost unknown"),
)
_HISTORY = timeline(
    "What it was, and since when",
    "Verdict, advice and state, and whether acceptance or drafting dropped below the engine's own baseline: "
    "suddenly, or slowly over hours.",
    list(_WORDS.values()),
    Look(unit="none"),
)

_FASTER = lines(
    "Speed-up, with its bounds",
    "Estimated decoding speed relative to no speculation; the band is the long window's 95 % bounds. Below "
    "the line at 1, speculation slows this engine down.",
    [*_bounds("estimated_speedup_ratio"), *_both_windows("estimated_speedup_ratio")],
    _SPEEDUP,
    limit=True,
)
_BY_DEPTH = bars(
    "Speed-up by draft length",
    "Expected speed-up for each number of draft tokens, extrapolated beyond those that are drafted. A "
    "hypothesis to try, not a promise.",
    [
        Query(by(("tokens",), ENGINE("depth_speedup_ratio", basis=basis)), basis, line(colour))
        for basis, colour in (("measured", Colour.NOW), ("extrapolated", Colour.UNKNOWN))
    ],
    "tokens",
    Look(unit="none", decimals=2, least=0, steps=style.PAYS, no_value="cost unknown"),
    x_title="Draft tokens",
    limit=True,
    overlaid=True,
)

_ACCEPTANCE = lines(
    "Acceptance, with its bounds",
    "Accepted tokens over draft tokens; the band is the long window's 95 % bounds. Below break-even, "
    "speculation costs more than it saves. The reference is configured.",
    [
        *_bounds("draft_acceptance_ratio"),
        Query(ENGINE("break_even_acceptance_ratio"), "break-even", dashed(Colour.HARM)),
        Query(ENGINE("reference_acceptance_ratio"), "reference", dashed(Colour.UNKNOWN)),
        *_both_windows("draft_acceptance_ratio"),
    ],
    _RATIO,
)
_BY_POSITION = bars(
    "Acceptance by position",
    "Share of drafts that are accepted up to each position. A smooth slope is normal, a cliff is not. A last "
    "position above 30 % has room for more tokens, below 10 % it is waste.",
    [
        Query(by(("position",), ENGINE.short("position_acceptance_ratio")), "short window", line(Colour.NOW)),
        Query(by(("position",), ENGINE.long("position_acceptance_ratio")), "long window", line(Colour.TREND)),
    ],
    "position",
    _RATIO,
    x_title="Position",
)

_COST = lines(
    "Draft cost, and where it breaks even",
    "Cost of one more draft token in plain decode steps, with a band of what it can be. Speculation pays "
    "below the break-even lines (95 % bounds). Where they cross the band, measure the cost.",
    [
        # A change of the source, which is a label, goes on in the same line.
        *band(
            by((), ENGINE("draft_cost_ratio_lower"), "min"),
            by((), ENGINE("draft_cost_ratio_upper")),
            ("lowest possible", "highest possible"),
            Colour.TREND,
        ),
        Query(by((), ENGINE("draft_cost_ratio")), "assumed", line(Colour.TREND)),
        Query(ENGINE("break_even_cost_ratio_lower"), "break-even, at least", dashed(Colour.GOOD)),
        Query(ENGINE("break_even_cost_ratio"), "break-even", line(Colour.NOW)),
        Query(ENGINE("break_even_cost_ratio_upper"), "break-even, at most", dashed(Colour.HARM)),
    ],
    Look(unit="percentunit", no_value="cost unknown"),
)
_REQUESTS = lines(
    "Requests",
    "Mean running and waiting requests over the short window, and the load at which speculation stops "
    "paying, if the cost is known at several loads.",
    [
        Query(ENGINE.short("running_requests"), "running", line(Colour.NOW)),
        Query(ENGINE.short("waiting_requests"), "waiting", line(Colour.BAD)),
        Query(ENGINE("crossover_running_requests"), "crossover", dashed(Colour.HARM)),
    ],
    Look(unit="none", decimals=0, least=0),
)

_PER_TOKEN = _quantiles(
    "Time per output token",
    "Percentiles over requests of the time per token after the first. This is what speculation is for.",
    "time_per_output_token_quantile_seconds",
)
_TO_FIRST = _quantiles(
    "Time to first token",
    "Percentiles over requests. Speculation does not shorten it; a growing one is a queue, long prompts or a "
    "lost prefix cache.",
    "time_to_first_token_quantile_seconds",
)
_SHORTER_THAN_BASELINE = [
    _quantiles(
        f"{title}, over the baseline's",
        "Percentiles over those of requests without speculation, with similar prompts, contexts and load. "
        "Below the line at 1 they are shorter. Buckets are wide: the exporter's page has bounds.",
        f"{title.lower().replace(' ', '_')}_quantile_baseline_ratio",
        _SHORTER,
    )
    for title in ("Time per output token", "Time to first token")
]

_LOSSES = lines(
    "What takes the gain away",
    "Speed-up if drafting cost nothing, of decoding, and of whole requests. The first gap is the cost of "
    "drafting, the second the time to first token.",
    [
        Query(ENGINE.long("speedup_ceiling_ratio"), "ceiling", dashed(Colour.UNKNOWN)),
        Query(ENGINE.long("estimated_speedup_ratio"), "decoding", line(Colour.NOW)),
        Query(by((), ENGINE.long("end_to_end_speedup_ratio")), "request", line(Colour.TREND)),
    ],
    _SPEEDUP,
    limit=True,
)
_NOT_STACKED = {
    "custom.stacking": {"mode": "none", "group": "B"},
    "custom.lineWidth": 2,
    "custom.fillOpacity": 0,
}
_TOKENS_DRAFTED = lines(
    "Drafted tokens: accepted and rejected",
    "Draft tokens a second, by what became of them. The line is what the engine generated in all.",
    [
        Query(_ACCEPTED, "accepted", line(Colour.NOW, _TOKENS)),
        Query(f"{_DRAFTED} - {_ACCEPTED}", "rejected", line(Colour.UNKNOWN, _TOKENS)),
        Query(
            ENGINE.rate("generation_tokens_total"),
            "generated",
            line(Colour.TREND, {**_TOKENS, **_NOT_STACKED}),
        ),
    ],
    Look(unit="cps", least=0),
    stacked=True,
)

_BASELINE, _DEVIATION = (ENGINE(f"baseline_acceptance_length_tokens{end}") for end in ("", "_stddev"))
_AGAINST_BASELINE = lines(
    "Acceptance length against its baseline",
    "Tokens that a draft gives, the bonus token included, and what this engine usually gives, two standard "
    "deviations wide. Red is a detected drop.",
    [
        *band(
            f"{_BASELINE} - 2 * {_DEVIATION}",
            f"{_BASELINE} + 2 * {_DEVIATION}",
            ("usual low", "usual high"),
            Colour.UNKNOWN,
        ),
        Query(_BASELINE, "baseline", dashed(Colour.UNKNOWN)),
        Query(_LENGTH, "short window", line(Colour.NOW)),
        Query(
            f"{_LENGTH} and on ({', '.join(ENGINE_KEY)}) ({_LOST} == 1)", "dropped", line(Colour.HARM, _THICK)
        ),
    ],
    Look(unit="none", decimals=1),
)
_STEPS = lines(
    "Tokens per step",
    "Tokens that a decode step gives, with a draft or without, and what a draft gives. They differ where "
    "many steps have no draft. Red is a drop of drafting.",
    [
        Query(_STEP, "of a step", line(Colour.NOW)),
        Query(ENGINE.long("acceptance_length_tokens"), "of a draft", dashed(Colour.TREND)),
        Query(
            f"{_STEP} and ignoring (window, kind) {ENGINE('acceptance_dropped', kind='drafting')} == 1",
            "drafting dropped",
            line(Colour.HARM, _THICK),
        ),
    ],
    Look(unit="none", decimals=1, least=0),
)

_SPREAD = lines(
    "Spread of acceptance over polls",
    "Least, greatest and percentiles of the acceptance rates of the long window's polls, weighted by draft "
    "tokens. Far apart: two kinds of load take turns.",
    [
        *band(
            ENGINE.long("interval_acceptance_ratio_min"),
            ENGINE.long("interval_acceptance_ratio_max"),
            ("least", "greatest"),
            Colour.FAINT,
        ),
        Query(
            by(("quantile",), ENGINE.long("interval_acceptance_quantile_ratio")),
            "quantile {{quantile}}",
            {"color": style.shades(Colour.NOW)},
        ),
    ],
    _RATIO,
)
_CONDITIONAL = lines(
    "Accepted if the one before was",
    "How good the drafter is at each position, given that it got there. Lines that lie together mean that "
    "quality does not wear off with depth; the decay pools all positions.",
    [
        Query(
            ENGINE.long("position_conditional_acceptance_ratio"),
            "position {{position}}",
            {"color": style.shades(Colour.NOW), **_THIN},
        ),
        Query(ENGINE.long("acceptance_decay_ratio"), "decay", dashed(Colour.UNKNOWN)),
    ],
    _RATIO,
)

_CACHE = lines(
    "KV cache and preemptions",
    "Share of the KV cache in use, which a draft model makes smaller, and of prompt tokens from the prefix "
    "cache. Preempted requests do their work again.",
    [
        Query(ENGINE("kv_cache_usage_ratio"), "in use", line(Colour.NOW)),
        Query(ENGINE("prefix_cache_hit_ratio"), "prefix hits", line(Colour.TREND)),
        Query(
            ENGINE("preemptions_per_second"),
            "preemptions",
            line(Colour.BAD, {"unit": "cps", "custom.axisPlacement": "right"}),
        ),
    ],
    Look(unit="percentunit", least=0, axis=(None, 1)),
)
_CHECKS = timeline(
    "Identities of the counters",
    "Whether the server's own counters agree with each other. While one is broken, distrust what is above.",
    [Query(ENGINE("consistent"), "{{check}}", text_of(style.HOLDS))],
    Look(unit="none"),
)

_MARKS = [
    alerts(ENGINE),
    mark(
        "Restarts",
        f"{ENGINE.increase('engine_resets_total', '$__rate_interval')} > 0",
        "Counters reset: {{cause}}",
        Colour.WATCH,
    ),
    mark(
        "New K",
        # The series is gone while the server restarts, so it is compared with the last value of some minutes.
        f"{_K_NOW} != last_over_time({_K_NOW}[15m] offset $__rate_interval)",
        "Another number of draft tokens",
        Colour.TREND,
    ),
]


def _pair(*panels: Panel, left: int = 12) -> list[Band]:
    """Return two panels side by side, with the width of the left one."""
    return [Band(8, list(zip((left, 24 - left), panels, strict=True)))]


def engine() -> dict[str, Any]:
    """Return the dashboard of one engine: rows in the order of an operator's questions, causes collapsed."""
    first = [Band(5, [(6, _VERDICT), (9, _ADVICE), (9, _PAID)]), Band(7, [(24, _HISTORY)])]
    return board(
        "spec-decode-engine",
        "Speculative decoding / Engine",
        "One engine: does speculation pay, what should be done, and why.",
        variables=[variables.SOURCE, variables.JOB, *variables.ONE_ENGINE, *variables.WINDOWS],
        marks=_MARKS,
        sections=[
            Section(first),
            Section(_pair(_FASTER, _BY_DEPTH, left=14), "Is it faster?"),
            Section(_pair(_ACCEPTANCE, _BY_POSITION, left=14), "How much is accepted?"),
            Section(_pair(_COST, _REQUESTS, left=14), "What does drafting cost, and at what load?"),
            Section(_pair(_PER_TOKEN, _TO_FIRST), "How long do requests take?"),
            Section(
                _pair(*_SHORTER_THAN_BASELINE),
                "Are requests shorter than without speculation?",
                collapsed=True,
            ),
            Section(_pair(_LOSSES, _TOKENS_DRAFTED), "Why is the gain not larger?", collapsed=True),
            Section(_pair(_AGAINST_BASELINE, _STEPS), "Did acceptance drop?", collapsed=True),
            Section(_pair(_SPREAD, _CONDITIONAL), "How is acceptance spread?", collapsed=True),
            Section(
                _pair(_CACHE, _CHECKS), "Is memory short, and can the numbers be trusted?", collapsed=True
            ),
        ],
    )
