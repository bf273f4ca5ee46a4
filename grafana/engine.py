"""One engine: does speculation pay, what should be done, and why.

Sections are in the order of an operator's questions; causes are collapsed.
"""

from __future__ import annotations

from grafana import panels, style
from grafana.board import ONE_ENGINE, WINDOWS, board, mark, row
from grafana.panels import SPEEDUP, Look, Panel, Query, band, dashed, line, text_of
from grafana.promql import ENGINE, ENGINE_KEY, by, number_of_word, percentile
from grafana.style import Colour

_RATIO = Look(unit="percentunit", least=0, most=1)
_TIME = Look(unit="s", least=0)
_SHORTER = Look(unit="none", decimals=2, least=0, steps=style.SHORTER, no_value="no comparable baseline")
_NONE_YET = Look(unit="none", decimals=0, steps=style.NEUTRAL, no_value="none yet")
_THIN = {"custom.lineWidth": 1}
_THICK = {"custom.lineWidth": 4}

_K_NOW = ENGINE("configured_tokens")
_LENGTH = ENGINE.short("acceptance_length_tokens")
_STEP = ENGINE.long("effective_tokens_per_step")
_DRAFTED, _ACCEPTED = (ENGINE.rate(f"{what}_tokens_total") for what in ("draft", "accepted"))


def _word(name: str, metric: str, label: str, words: style.Words) -> Query:
    return Query(name, number_of_word(ENGINE, metric, label, words, ()), text_of(words))


def _bounds(metric: str) -> tuple[Query, Query]:
    """Return the band between the bounds of a metric in the long window."""
    lower, upper = (ENGINE.long(f"{metric}_{side}") for side in ("lower", "upper"))
    return band(Colour.TREND, ("at least", lower), ("at most", upper))


def _both_windows(metric: str) -> tuple[Query, Query]:
    short = Query("short window", ENGINE.short(metric), line(Colour.NOW, _THIN))
    return short, Query("long window", ENGINE.long(metric), line(Colour.TREND))


def _quantiles(title: str, description: str, metric: str, look: Look = _TIME) -> Panel:
    query = Query("{{quantile}}", by(("quantile",), ENGINE(metric)))
    looks = {
        label: {"color": style.fixed(colour), "displayName": percentile(label)}
        for label, colour in style.QUANTILES.items()
    }
    return panels.lines(title, description, look, query, looks=looks)


_VERDICT_WORD = _word("Verdict", "verdict", "verdict", style.VERDICTS)
_ADVICE_WORD = _word("Advice", "recommendation", "action", style.ACTIONS)

_VERDICT = panels.filled_tile(
    "Verdict",
    "Whether speculation pays: it does by the lower 95 % bound of the speed-up, and is harmful by the upper one. It covers the time since the last change, at most the long window: the speed-up beside it, over the whole long window, may differ for some minutes after a change.",
    _NONE_YET,
    _VERDICT_WORD,
)
_ADVICE = panels.figures(
    "Advice",
    "What to try, the number of tokens drafted now, and the smallest number that is as good as the best.",
    _NONE_YET,
    _ADVICE_WORD,
    Query("K now", _K_NOW, line(Colour.NOW)),
    Query("best K", by((), ENGINE("recommended_tokens")), line(Colour.TREND)),
)
_PAID = panels.figures(
    "Speed-up",
    "Speed of a whole request and of decoding relative to no speculation, over the long window, with the 95 % bounds of decoding.",
    Look(unit="none", decimals=2, steps=style.SPEEDUP, no_value="cost unknown"),
    Query("request", by((), ENGINE.long("end_to_end_speedup_ratio")), style.FACTOR),
    Query("at least", ENGINE.long("estimated_speedup_ratio_lower"), style.FACTOR | line(Colour.UNKNOWN)),
    Query("decoding", ENGINE.long("estimated_speedup_ratio"), style.FACTOR),
    Query("at most", ENGINE.long("estimated_speedup_ratio_upper"), style.FACTOR | line(Colour.UNKNOWN)),
)
_HISTORY = panels.timeline(
    "What it was, and since when",
    "Verdict, advice and state, and whether acceptance or drafting dropped below the engine's own baseline: suddenly, or slowly over hours.",
    Look(unit="none"),
    _VERDICT_WORD,
    _ADVICE_WORD,
    _word("State", "state", "state", style.STATES),
    Query("Baseline, {{kind}}", ENGINE("acceptance_dropped"), text_of(style.DROPPED)),
)

_FASTER = panels.lines(
    "Speed-up, with its bounds",
    "Estimated decoding speed relative to no speculation; the band is the long window's 95 % bounds. Below the line at 1, speculation slows this engine down.",
    SPEEDUP,
    *_bounds("estimated_speedup_ratio"),
    *_both_windows("estimated_speedup_ratio"),
)
_BY_DEPTH = panels.bars(
    "Speed-up by draft length",
    "Expected speed-up for each number of draft tokens, extrapolated beyond those that are drafted. A hypothesis to try, not a promise.",
    "tokens",
    "Draft tokens",
    Look(unit="none", decimals=2, least=0, steps=style.PAYS, no_value="cost unknown"),
    *(
        Query(basis, by(("tokens",), ENGINE("depth_speedup_ratio", basis=basis)), line(colour))
        for basis, colour in (("measured", Colour.NOW), ("extrapolated", Colour.UNKNOWN))
    ),
    overlaid=True,
)

_ACCEPTANCE = panels.lines(
    "Acceptance, with its bounds",
    "Accepted tokens over draft tokens; the band is the long window's 95 % bounds. Below break-even, speculation costs more than it saves. The reference is configured.",
    _RATIO,
    *_bounds("draft_acceptance_ratio"),
    Query("break-even", ENGINE("break_even_acceptance_ratio"), dashed(Colour.HARM)),
    Query("reference", ENGINE("reference_acceptance_ratio"), dashed(Colour.UNKNOWN)),
    *_both_windows("draft_acceptance_ratio"),
)
_BY_POSITION = panels.bars(
    "Acceptance by position",
    "Share of drafts that are accepted up to each position. A smooth slope is normal, a cliff is not. A last position above 30 % has room for more tokens, below 10 % it is waste.",
    "position",
    "Position",
    _RATIO,
    Query("short window", by(("position",), ENGINE.short("position_acceptance_ratio")), line(Colour.NOW)),
    Query("long window", by(("position",), ENGINE.long("position_acceptance_ratio")), line(Colour.TREND)),
)

_COST = panels.lines(
    "Draft cost, and where it breaks even",
    "Cost of one more draft token in plain decode steps, with a band of what it can be. Speculation pays below the break-even lines (95 % bounds). Where they cross the band, measure the cost.",
    Look(unit="percentunit", no_value="cost unknown"),
    # A change of the source, which is a label, goes on in the same line.
    *band(
        Colour.TREND,
        ("lowest possible", by((), ENGINE("draft_cost_ratio_lower"), "min")),
        ("highest possible", by((), ENGINE("draft_cost_ratio_upper"))),
    ),
    Query("assumed", by((), ENGINE("draft_cost_ratio")), line(Colour.TREND)),
    Query("break-even, at least", ENGINE("break_even_cost_ratio_lower"), dashed(Colour.GOOD)),
    Query("break-even", ENGINE("break_even_cost_ratio"), line(Colour.NOW)),
    Query("break-even, at most", ENGINE("break_even_cost_ratio_upper"), dashed(Colour.HARM)),
)
_REQUESTS = panels.lines(
    "Requests",
    "Mean running and waiting requests over the short window, and the load at which speculation stops paying, if the cost is known at several loads.",
    Look(unit="none", decimals=0, least=0),
    Query("running", ENGINE.short("running_requests"), line(Colour.NOW)),
    Query("waiting", ENGINE.short("waiting_requests"), line(Colour.BAD)),
    Query("crossover", ENGINE("crossover_running_requests"), dashed(Colour.HARM)),
)

_PER_TOKEN = _quantiles(
    "Time per output token",
    "Percentiles over requests of the time per token after the first. This is what speculation is for.",
    "time_per_output_token_quantile_seconds",
)
_TO_FIRST = _quantiles(
    "Time to first token",
    "Percentiles over requests. Speculation does not shorten it; a growing one is a queue, long prompts or a lost prefix cache.",
    "time_to_first_token_quantile_seconds",
)
_SHORTER_THAN_BASELINE = [
    _quantiles(
        f"{title}, over the baseline's",
        "Percentiles over those of requests without speculation, with similar prompts, contexts and load. Below the line at 1 they are shorter. Buckets are wide: the exporter's page has bounds.",
        f"{title.lower().replace(' ', '_')}_quantile_baseline_ratio",
        _SHORTER,
    )
    for title in ("Time per output token", "Time to first token")
]

_LOSSES = panels.lines(
    "What takes the gain away",
    "Speed-up if drafting cost nothing, of decoding, and of whole requests. The first gap is the cost of drafting, the second the time to first token.",
    SPEEDUP,
    Query("ceiling", ENGINE.long("speedup_ceiling_ratio"), dashed(Colour.UNKNOWN)),
    Query("decoding", ENGINE.long("estimated_speedup_ratio"), line(Colour.NOW)),
    Query("request", by((), ENGINE.long("end_to_end_speedup_ratio")), line(Colour.TREND)),
)
_UNSTACKED = {
    **style.TOKENS_A_SECOND,
    "custom.stacking": {"mode": "none", "group": "B"},
    "custom.lineWidth": 2,
    "custom.fillOpacity": 0,
}
_TOKENS_DRAFTED = panels.areas(
    "Drafted tokens: accepted and rejected",
    "Draft tokens a second, by what became of them. The line is what the engine generated in all.",
    Look(unit="cps", least=0),
    Query("accepted", _ACCEPTED, line(Colour.NOW, style.TOKENS_A_SECOND)),
    Query("rejected", f"{_DRAFTED} - {_ACCEPTED}", line(Colour.UNKNOWN, style.TOKENS_A_SECOND)),
    Query("generated", ENGINE.rate("generation_tokens_total"), line(Colour.TREND, _UNSTACKED)),
)

_BASELINE, _DEVIATION = (ENGINE(f"baseline_acceptance_length_tokens{end}") for end in ("", "_stddev"))
_USUAL_LOW, _USUAL_HIGH = (f"{_BASELINE} {sign} 2 * {_DEVIATION}" for sign in "-+")
_SUDDEN = f"{_LENGTH} and on ({', '.join(ENGINE_KEY)}) ({ENGINE('acceptance_dropped', kind='sudden')} == 1)"
_AGAINST_BASELINE = panels.lines(
    "Acceptance length against its baseline",
    "Tokens that a draft gives, the bonus token included, and what this engine usually gives, two standard deviations wide. Red is a detected drop.",
    Look(unit="none", decimals=1),
    *band(Colour.UNKNOWN, ("usual low", _USUAL_LOW), ("usual high", _USUAL_HIGH)),
    Query("baseline", _BASELINE, dashed(Colour.UNKNOWN)),
    Query("short window", _LENGTH, line(Colour.NOW)),
    Query("dropped", _SUDDEN, line(Colour.HARM, _THICK)),
)
_FEWER_DRAFTS = f"{_STEP} and ignoring (window, kind) {ENGINE('acceptance_dropped', kind='drafting')} == 1"
_STEPS = panels.lines(
    "Tokens per step",
    "Tokens that a decode step gives, with a draft or without, and what a draft gives. They differ where many steps have no draft. Red is a drop of drafting.",
    Look(unit="none", decimals=1, least=0),
    Query("of a step", _STEP, line(Colour.NOW)),
    Query("of a draft", ENGINE.long("acceptance_length_tokens"), dashed(Colour.TREND)),
    Query("drafting dropped", _FEWER_DRAFTS, line(Colour.HARM, _THICK)),
)

_LEAST, _GREATEST = (ENGINE.long(f"interval_acceptance_ratio_{side}") for side in ("min", "max"))
_POLLS = by(("quantile",), ENGINE.long("interval_acceptance_quantile_ratio"))
_POSITIONS = ENGINE.long("position_conditional_acceptance_ratio")
_SHADES = {"color": style.fixed(Colour.NOW, "shades")}
_SPREAD = panels.lines(
    "Spread of acceptance over polls",
    "Least, greatest and percentiles of the acceptance rates of the long window's polls, weighted by draft tokens. Far apart: two kinds of load take turns.",
    _RATIO,
    *band(Colour.FAINT, ("least", _LEAST), ("greatest", _GREATEST)),
    Query("quantile {{quantile}}", _POLLS, _SHADES),
)
_CONDITIONAL = panels.lines(
    "Accepted if the one before was",
    "How good the drafter is at each position, given that it got there. Lines that lie together mean that quality does not wear off with depth; the decay pools all positions.",
    _RATIO,
    Query("position {{position}}", _POSITIONS, {**_SHADES, **_THIN}),
    Query("decay", ENGINE.long("acceptance_decay_ratio"), dashed(Colour.UNKNOWN)),
)

_EVENTS = {"unit": "cps", "custom.axisPlacement": "right"}
_CACHE = panels.lines(
    "KV cache and preemptions",
    "Share of the KV cache in use, which a draft model makes smaller, and of prompt tokens from the prefix cache. Preempted requests do their work again.",
    Look(unit="percentunit", least=0, axis=(None, 1)),
    Query("in use", ENGINE("kv_cache_usage_ratio"), line(Colour.NOW)),
    Query("prefix hits", ENGINE("prefix_cache_hit_ratio"), line(Colour.TREND)),
    Query("preemptions", ENGINE("preemptions_per_second"), line(Colour.BAD, _EVENTS)),
)
_CHECKS = panels.timeline(
    "Identities of the counters",
    "Whether the server's own counters agree with each other. While one is broken, distrust what is above.",
    Look(unit="none"),
    Query("{{check}}", ENGINE("consistent"), text_of(style.HOLDS)),
)

_RESET = f"{ENGINE.increase('engine_resets_total', '$__rate_interval')} > 0"
# The series is gone while the server restarts, so it is compared with the last value of some minutes.
_OTHER_K = f"{_K_NOW} != last_over_time({_K_NOW}[15m] offset $__rate_interval)"

BOARD = board(
    "spec-decode-engine",
    "Speculative decoding / Engine",
    "One engine: does speculation pay, what should be done, and why.",
    variables=[*ONE_ENGINE, *WINDOWS],
    scope=ENGINE,
    marks=[
        mark("Restarts", _RESET, "Counters reset: {{cause}}", Colour.WATCH),
        mark("New K", _OTHER_K, "Another number of draft tokens", Colour.TREND),
    ],
    sections={
        "": [row(5, _VERDICT, _ADVICE, _PAID, widths=(6, 9, 9)), row(7, _HISTORY)],
        "Is it faster?": [row(8, _FASTER, _BY_DEPTH, widths=(14, 10))],
        "How much is accepted?": [row(8, _ACCEPTANCE, _BY_POSITION, widths=(14, 10))],
        "What does drafting cost, and at what load?": [row(8, _COST, _REQUESTS, widths=(14, 10))],
        "How long do requests take?": [row(8, _PER_TOKEN, _TO_FIRST)],
    },
    collapsed={
        "Are requests shorter than without speculation?": [row(8, *_SHORTER_THAN_BASELINE)],
        "Why is the gain not larger?": [row(8, _LOSSES, _TOKENS_DRAFTED)],
        "Did acceptance drop?": [row(8, _AGAINST_BASELINE, _STEPS)],
        "How is acceptance spread?": [row(8, _SPREAD, _CONDITIONAL)],
        "Is memory short, and can the numbers be trusted?": [row(8, _CACHE, _CHECKS)],
    },
)
