"""One engine: does speculation pay, what should be done, and why."""

from __future__ import annotations

from typing import Any

from grafana import style, variables
from grafana.board import Band, Mark, Section, alerts, board
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

UID = "spec-decode-engine"

_SHORT, _LONG = "$short", "$long"
_RATIO = Look(unit="percentunit", least=0, most=1)
_SPEEDUP = Look(unit="none", decimals=2, steps=style.PAYS, no_value="cost unknown", axis=(0.9, None))
_TIME = Look(unit="s", least=0)
_SHORTER = Look(unit="none", decimals=2, least=0, steps=style.SHORTER, no_value="no comparable baseline")
_NONE_YET = Look(unit="none", decimals=0, steps=style.NEUTRAL, no_value="none yet")
_TIMES = {"unit": style.TIMES}
_THIN = {"custom.lineWidth": 1}
_THICK = {"custom.lineWidth": 4}

_K_NOW = ENGINE("spec_decode_configured_tokens")
_MARKS = [
    alerts(ENGINE),
    Mark(
        "Restarts",
        f"{ENGINE.increase('spec_decode_engine_resets_total', '$__rate_interval')} > 0",
        "Counters reset: {{cause}}",
        Colour.WATCH,
    ),
    Mark(
        "New K",
        # The series is gone while the server restarts, so it is compared with the last value of some minutes.
        f"{_K_NOW} != last_over_time({_K_NOW}[15m] offset $__rate_interval)",
        "Another number of draft tokens",
        Colour.TREND,
    ),
]


def _word(name: str, metric: str, label: str, words: style.Words) -> Query:
    return Query(number_of_word(ENGINE, metric, label, words, ()), name, text_of(words))


_VERDICT = _word("Verdict", "spec_decode_verdict", "verdict", style.VERDICTS)
_ADVICE = _word("Advice", "spec_decode_recommendation", "action", style.ACTIONS)
_STATE = _word("State", "spec_decode_state", "state", style.STATES)
_DROPPED = Query(ENGINE("spec_decode_acceptance_dropped"), "Baseline, {{kind}}", text_of(style.DROPPED))


def _verdict() -> list[Band]:
    speedup = ENGINE("spec_decode_estimated_speedup_ratio", window=_LONG)
    faint = {**_TIMES, "color": style.fixed(Colour.UNKNOWN)}
    verdict = stat_tile(
        "Verdict",
        "Whether speculation pays: it does by the lower 95 % bound of the speed-up, and is harmful by the "
        "upper one. It covers the time since the last change, at most the long window: the speed-up beside "
        "it, over the whole long window, may differ for some minutes after a change.",
        [_VERDICT],
        _NONE_YET,
        filled=True,
    )
    advice = stat_tile(
        "Advice",
        "What to try, the number of tokens drafted now, and the smallest number that is as good as the best.",
        [
            _ADVICE,
            Query(_K_NOW, "K now", {"color": style.fixed(Colour.NOW)}),
            Query(
                by((), ENGINE("spec_decode_recommended_tokens")),
                "best K",
                {"color": style.fixed(Colour.TREND)},
            ),
        ],
        _NONE_YET,
    )
    paid = stat_tile(
        "Speed-up",
        "Speed of a whole request and of decoding relative to no speculation, over the long window, with "
        "the 95 % bounds of decoding.",
        [
            Query(by((), ENGINE("spec_decode_end_to_end_speedup_ratio", window=_LONG)), "request", _TIMES),
            Query(_bound(speedup, "lower"), "at least", faint),
            Query(speedup, "decoding", _TIMES),
            Query(_bound(speedup, "upper"), "at most", faint),
        ],
        Look(unit="none", decimals=2, steps=style.SPEEDUP, no_value="cost unknown"),
    )
    history = timeline(
        "What it was, and since when",
        "Verdict, advice and state, and whether acceptance or drafting dropped below the engine's own "
        "baseline: suddenly, or slowly over hours.",
        [_VERDICT, _ADVICE, _STATE, _DROPPED],
        Look(unit="none"),
    )
    return [Band(5, [(6, verdict), (9, advice), (9, paid)]), Band(7, [(24, history)])]


def _bound(selector: str, side: str) -> str:
    """Return the selector of a bound of a metric."""
    metric, matchers = selector.split("{", 1)
    return f"{metric}_{side}{{{matchers}"


def _bounds(metric: str) -> tuple[Query, Query]:
    selector = ENGINE(metric, window=_LONG)
    return band(_bound(selector, "lower"), _bound(selector, "upper"), ("at least", "at most"), Colour.TREND)


def _faster() -> list[Band]:
    metric, depth = "spec_decode_estimated_speedup_ratio", "spec_decode_depth_speedup_ratio"
    over_time = lines(
        "Speed-up, with its bounds",
        "Estimated decoding speed relative to no speculation; the band is the long window's 95 % bounds. "
        "Below the line at 1, speculation slows this engine down.",
        [
            *_bounds(metric),
            Query(ENGINE(metric, window=_SHORT), "short window", line(Colour.NOW, _THIN)),
            Query(ENGINE(metric, window=_LONG), "long window", line(Colour.TREND)),
        ],
        _SPEEDUP,
        limit=True,
    )
    by_depth = bars(
        "Speed-up by draft length",
        "Expected speed-up for each number of draft tokens, extrapolated beyond those that are drafted. A "
        "hypothesis to try, not a promise.",
        [
            Query(by(("tokens",), ENGINE(depth, basis=basis)), basis, line(colour))
            for basis, colour in (("measured", Colour.NOW), ("extrapolated", Colour.UNKNOWN))
        ],
        "tokens",
        Look(unit="none", decimals=2, least=0, steps=style.PAYS, no_value="cost unknown"),
        x_title="Draft tokens",
        limit=True,
        overlaid=True,
    )
    return [Band(8, [(14, over_time), (10, by_depth)])]


def _accepted() -> list[Band]:
    metric, position = "spec_decode_draft_acceptance_ratio", "spec_decode_position_acceptance_ratio"
    over_time = lines(
        "Acceptance, with its bounds",
        "Accepted tokens over draft tokens; the band is the long window's 95 % bounds. Below break-even, "
        "speculation costs more than it saves. The reference is configured.",
        [
            *_bounds(metric),
            Query(ENGINE("spec_decode_break_even_acceptance_ratio"), "break-even", dashed(Colour.HARM)),
            Query(ENGINE("spec_decode_reference_acceptance_ratio"), "reference", dashed(Colour.UNKNOWN)),
            Query(ENGINE(metric, window=_SHORT), "short window", line(Colour.NOW, _THIN)),
            Query(ENGINE(metric, window=_LONG), "long window", line(Colour.TREND)),
        ],
        _RATIO,
    )
    by_position = bars(
        "Acceptance by position",
        "Share of drafts that are accepted up to each position. A smooth slope is normal, a cliff is not. A "
        "last position above 30 % has room for more tokens, below 10 % it is waste.",
        [
            Query(by(("position",), ENGINE(position, window=_SHORT)), "short window", line(Colour.NOW)),
            Query(by(("position",), ENGINE(position, window=_LONG)), "long window", line(Colour.TREND)),
        ],
        "position",
        _RATIO,
        x_title="Position",
    )
    return [Band(8, [(14, over_time), (10, by_position)])]


def _costs() -> list[Band]:
    metric, limit = "spec_decode_draft_cost_ratio", "spec_decode_break_even_cost_ratio"
    # A change of the source, which is a label, goes on in the same line.
    possible = band(
        by((), ENGINE(f"{metric}_lower"), "min"),
        by((), ENGINE(f"{metric}_upper")),
        ("lowest possible", "highest possible"),
        Colour.TREND,
    )
    cost = lines(
        "Draft cost, and where it breaks even",
        "Cost of one more draft token in plain decode steps, with a band of what it can be. Speculation "
        "pays below the break-even lines (95 % bounds). Where they cross the band, measure the cost.",
        [
            *possible,
            Query(by((), ENGINE(metric)), "assumed", line(Colour.TREND)),
            Query(ENGINE(f"{limit}_lower"), "break-even, at least", dashed(Colour.GOOD)),
            Query(ENGINE(limit), "break-even", line(Colour.NOW)),
            Query(ENGINE(f"{limit}_upper"), "break-even, at most", dashed(Colour.HARM)),
        ],
        Look(unit="percentunit", no_value="cost unknown"),
    )
    requests = lines(
        "Requests",
        "Mean running and waiting requests over the short window, and the load at which speculation stops "
        "paying, if the cost is known at several loads.",
        [
            Query(ENGINE("spec_decode_running_requests", window=_SHORT), "running", line(Colour.NOW)),
            Query(ENGINE("spec_decode_waiting_requests", window=_SHORT), "waiting", line(Colour.BAD)),
            Query(ENGINE("spec_decode_crossover_running_requests"), "crossover", dashed(Colour.HARM)),
        ],
        Look(unit="none", decimals=0, least=0),
    )
    return [Band(8, [(14, cost), (10, requests)])]


def _quantiles(title: str, description: str, metric: str, look: Look = _TIME) -> Panel:
    queries = [Query(by(("quantile",), ENGINE(metric)), "{{quantile}}")]
    panel = lines(title, description, queries, look, limit=look is _SHORTER)
    looks = {
        label: {"color": style.fixed(colour), "displayName": percentile(label)}
        for label, colour in style.QUANTILES.items()
    }
    return named(panel, looks)


def _latency() -> list[Band]:
    per_token = _quantiles(
        "Time per output token",
        "Percentiles over requests of the time per token after the first. This is what speculation is for.",
        "spec_decode_time_per_output_token_quantile_seconds",
    )
    to_first = _quantiles(
        "Time to first token",
        "Percentiles over requests. Speculation does not shorten it; a growing one is a queue, long prompts "
        "or a lost prefix cache.",
        "spec_decode_time_to_first_token_quantile_seconds",
    )
    return [Band(8, [(12, per_token), (12, to_first)])]


def _shorter() -> list[Band]:
    compared = [
        _quantiles(
            f"{title}, over the baseline's",
            "Percentiles over those of requests without speculation, with similar prompts, contexts and "
            "load. Below the line at 1 they are shorter. Buckets are wide: the exporter's page has bounds.",
            f"spec_decode_{quantity}_quantile_baseline_ratio",
            _SHORTER,
        )
        for title, quantity in (
            ("Time per output token", "time_per_output_token"),
            ("Time to first token", "time_to_first_token"),
        )
    ]
    return [Band(8, [(12, each) for each in compared])]


def _gain() -> list[Band]:
    losses = lines(
        "What takes the gain away",
        "Speed-up if drafting cost nothing, of decoding, and of whole requests. The first gap is the cost "
        "of drafting, the second the time to first token.",
        [
            Query(
                ENGINE("spec_decode_speedup_ceiling_ratio", window=_LONG), "ceiling", dashed(Colour.UNKNOWN)
            ),
            Query(ENGINE("spec_decode_estimated_speedup_ratio", window=_LONG), "decoding", line(Colour.NOW)),
            Query(
                by((), ENGINE("spec_decode_end_to_end_speedup_ratio", window=_LONG)),
                "request",
                line(Colour.TREND),
            ),
        ],
        _SPEEDUP,
        limit=True,
    )
    drafted, accepted = (ENGINE.rate(f"spec_decode_{what}_tokens_total") for what in ("draft", "accepted"))
    look = {"unit": style.TOKENS_A_SECOND, "decimals": 0}
    alone = {
        "custom.stacking": {"mode": "none", "group": "B"},
        "custom.lineWidth": 2,
        "custom.fillOpacity": 0,
    }
    tokens = lines(
        "Drafted tokens: accepted and rejected",
        "Draft tokens a second, by what became of them. The line is what the engine generated in all.",
        [
            Query(accepted, "accepted", line(Colour.NOW, look)),
            Query(f"{drafted} - {accepted}", "rejected", line(Colour.UNKNOWN, look)),
            Query(
                ENGINE.rate("spec_decode_generation_tokens_total"),
                "generated",
                line(Colour.TREND, {**look, **alone}),
            ),
        ],
        Look(unit="cps", least=0),
        stacked=True,
    )
    return [Band(8, [(12, losses), (12, tokens)])]


def _while_dropped(length: str) -> str:
    flag = ENGINE("spec_decode_acceptance_dropped", kind="sudden")
    return f"{length} and on ({', '.join(ENGINE_KEY)}) ({flag} == 1)"


def _drops() -> list[Band]:
    baseline = ENGINE("spec_decode_baseline_acceptance_length_tokens")
    deviation = ENGINE("spec_decode_baseline_acceptance_length_tokens_stddev")
    length = ENGINE("spec_decode_acceptance_length_tokens", window=_SHORT)
    usual = (f"{baseline} - 2 * {deviation}", f"{baseline} + 2 * {deviation}")
    against = lines(
        "Acceptance length against its baseline",
        "Tokens that a draft gives, the bonus token included, and what this engine usually gives, two "
        "standard deviations wide. Red is a detected drop.",
        [
            *band(*usual, ("usual low", "usual high"), Colour.UNKNOWN),
            Query(baseline, "baseline", dashed(Colour.UNKNOWN)),
            Query(length, "short window", line(Colour.NOW)),
            Query(_while_dropped(length), "dropped", line(Colour.HARM, _THICK)),
        ],
        Look(unit="none", decimals=1),
    )
    step = ENGINE("spec_decode_effective_tokens_per_step", window=_LONG)
    drafting = ENGINE("spec_decode_acceptance_dropped", kind="drafting")
    steps = lines(
        "Tokens per step",
        "Tokens that a decode step gives, with a draft or without, and what a draft gives. They differ "
        "where many steps have no draft. Red is a drop of drafting.",
        [
            Query(step, "of a step", line(Colour.NOW)),
            Query(
                ENGINE("spec_decode_acceptance_length_tokens", window=_LONG),
                "of a draft",
                dashed(Colour.TREND),
            ),
            Query(
                f"{step} and ignoring (window, kind) {drafting} == 1",
                "drafting dropped",
                line(Colour.HARM, _THICK),
            ),
        ],
        Look(unit="none", decimals=1, least=0),
    )
    return [Band(8, [(12, against), (12, steps)])]


def _spread() -> list[Band]:
    metric = "spec_decode_interval_acceptance_ratio"
    quantiles = ENGINE("spec_decode_interval_acceptance_quantile_ratio", window=_LONG)
    over_polls = lines(
        "Spread of acceptance over polls",
        "Least, greatest and percentiles of the acceptance rates of the long window's polls, weighted by "
        "draft tokens. Far apart: two kinds of load take turns.",
        [
            *band(
                ENGINE(f"{metric}_min", window=_LONG),
                ENGINE(f"{metric}_max", window=_LONG),
                ("least", "greatest"),
                Colour.FAINT,
            ),
            Query(by(("quantile",), quantiles), "quantile {{quantile}}", {"color": style.shades(Colour.NOW)}),
        ],
        _RATIO,
    )
    conditional = lines(
        "Accepted if the one before was",
        "How good the drafter is at each position, given that it got there. Lines that lie together mean "
        "that quality does not wear off with depth; the decay pools all positions.",
        [
            Query(
                ENGINE("spec_decode_position_conditional_acceptance_ratio", window=_LONG),
                "position {{position}}",
                {"color": style.shades(Colour.NOW), **_THIN},
            ),
            Query(
                ENGINE("spec_decode_acceptance_decay_ratio", window=_LONG), "decay", dashed(Colour.UNKNOWN)
            ),
        ],
        _RATIO,
    )
    return [Band(8, [(12, over_polls), (12, conditional)])]


def _server() -> list[Band]:
    right = {"unit": "cps", "custom.axisPlacement": "right"}
    cache = lines(
        "KV cache and preemptions",
        "Share of the KV cache in use, which a draft model makes smaller, and of prompt tokens from the "
        "prefix cache. Preempted requests do their work again.",
        [
            Query(ENGINE("spec_decode_kv_cache_usage_ratio"), "in use", line(Colour.NOW)),
            Query(ENGINE("spec_decode_prefix_cache_hit_ratio"), "prefix hits", line(Colour.TREND)),
            Query(ENGINE("spec_decode_preemptions_per_second"), "preemptions", line(Colour.BAD, right)),
        ],
        Look(unit="percentunit", least=0, axis=(None, 1)),
    )
    checks = timeline(
        "Identities of the counters",
        "Whether the server's own counters agree with each other. While one is broken, distrust what is "
        "above.",
        [Query(ENGINE("spec_decode_consistent"), "{{check}}", text_of(style.HOLDS))],
        Look(unit="none"),
    )
    return [Band(8, [(12, cache), (12, checks)])]


def engine() -> dict[str, Any]:
    """Return the dashboard of one engine: rows in the order of an operator's questions, causes collapsed."""
    return board(
        UID,
        "Speculative decoding / Engine",
        "One engine: does speculation pay, what should be done, and why.",
        variables=[variables.SOURCE, variables.JOB, *variables.ONE_ENGINE, *variables.WINDOWS],
        marks=_MARKS,
        sections=[
            Section(_verdict()),
            Section(_faster(), "Is it faster?"),
            Section(_accepted(), "How much is accepted?"),
            Section(_costs(), "What does drafting cost, and at what load?"),
            Section(_latency(), "How long do requests take?"),
            Section(_shorter(), "Are requests shorter than without speculation?", collapsed=True),
            Section(_gain(), "Why is the gain not larger?", collapsed=True),
            Section(_drops(), "Did acceptance drop?", collapsed=True),
            Section(_spread(), "How is acceptance spread?", collapsed=True),
            Section(_server(), "Is memory short, and can the numbers be trusted?", collapsed=True),
        ],
    )
