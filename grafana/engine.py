"""One engine: does speculation pay, what should be done, and why."""

from __future__ import annotations

from grafana_foundation_sdk.models import dashboard

from grafana import style, variables
from grafana.board import Band, Mark, Section, alerts, board
from grafana.panels import (
    Look,
    Panel,
    Query,
    band,
    bars,
    dashed,
    heat_over_time,
    line,
    lines,
    named,
    scatter,
    stat_tile,
    text_of,
    timeline,
)
from grafana.promql import ENGINE, ENGINE_KEY, by, number_of_word
from grafana.style import Colour

UID = "spec-decode-engine"

SHORT, LONG = "$short", "$long"
_RATIO = Look(unit="percentunit", least=0, most=1)
_SPEEDUP = Look(unit="none", decimals=2, steps=style.PAYS, no_value="cost unknown", axis=(0.9, None))
_NONE_YET = Look(unit="none", decimals=0, steps=style.NEUTRAL, no_value="none yet")
_TIMES = {"unit": style.TIMES}
_TOKENS: dict[str, object] = {"unit": style.TOKENS_A_SECOND, "decimals": 0}

_LONGEST_DRAFT = 8
"""Accepted lengths from this one on are shown together."""

_K_NOW = ENGINE("spec_decode_configured_tokens")
RESTARTS = Mark(
    "Restarts",
    f"{ENGINE.increase('spec_decode_engine_resets_total', '$__rate_interval')} > 0",
    "Counters reset: {{cause}}",
    Colour.WATCH,
)
NEW_K = Mark(
    "New K",
    # The series is gone while the server restarts, so it is compared with the last value of some minutes.
    f"{_K_NOW} != last_over_time({_K_NOW}[15m] offset $__rate_interval)",
    "Another number of draft tokens",
    Colour.TREND,
)


def _word(metric: str, label: str, words: style.Words) -> str:
    return number_of_word(ENGINE, metric, label, words, ())


def _verdict() -> Query:
    return Query(_word("spec_decode_verdict", "verdict", style.VERDICTS), "Verdict", text_of(style.VERDICTS))


def _action() -> Query:
    return Query(
        _word("spec_decode_recommendation", "action", style.ACTIONS), "Advice", text_of(style.ACTIONS)
    )


def _state() -> Query:
    return Query(_word("spec_decode_state", "state", style.STATES), "State", text_of(style.STATES))


def _verdict_tile() -> Panel:
    return stat_tile(
        "Verdict",
        "Whether speculation pays on this engine: it does by the lower 95 % bound of the speed-up, and is "
        "harmful by the upper one. Where the draft cost decides, the verdict is that it depends on the cost.",
        [_verdict()],
        _NONE_YET,
        filled=True,
    )


def _paid_tile() -> Panel:
    speedup = "spec_decode_estimated_speedup_ratio"
    faint = {**_TIMES, "color": style.fixed(Colour.UNKNOWN)}
    return stat_tile(
        "Speed-up",
        "How much faster a whole request and decoding are than without speculation, estimated over the long "
        "window, with the 95 % bounds of decoding. Harmful is when even the upper bound is below 1. Without "
        "times to first token it is decode only.",
        [
            Query(by((), ENGINE("spec_decode_end_to_end_speedup_ratio", window=LONG)), "request", _TIMES),
            Query(ENGINE(f"{speedup}_lower", window=LONG), "at least", faint),
            Query(ENGINE(speedup, window=LONG), "decoding", _TIMES),
            Query(ENGINE(f"{speedup}_upper", window=LONG), "at most", faint),
        ],
        Look(unit="none", decimals=2, steps=style.SPEEDUP, no_value="cost unknown"),
    )


def _advice_tile() -> Panel:
    return stat_tile(
        "Advice",
        "What to try, the number of tokens drafted now, and the smallest number that is as good as the "
        "best. It changes only after the new value held for a whole long window.",
        [
            _action(),
            Query(ENGINE("spec_decode_configured_tokens"), "K now", {"color": style.fixed(Colour.NOW)}),
            Query(
                by((), ENGINE("spec_decode_recommended_tokens")),
                "best K",
                {"color": style.fixed(Colour.TREND)},
            ),
        ],
        _NONE_YET,
    )


def _accepted_tile() -> Panel:
    return stat_tile(
        "Accepted",
        "Accepted tokens over draft tokens, over both windows. No colour: what is enough depends on the "
        "draft cost.",
        [
            Query(ENGINE("spec_decode_draft_acceptance_ratio", window=SHORT), "now", line(Colour.NOW)),
            Query(ENGINE("spec_decode_draft_acceptance_ratio", window=LONG), "trend", line(Colour.TREND)),
        ],
        Look(unit="percentunit", decimals=1),
    )


def _dropped_tile() -> Panel:
    return stat_tile(
        "Against its own baseline",
        "Whether the acceptance length dropped below this engine's baseline. Sudden is a matter of seconds,"
        " slow of hours. Drafting dropped where fewer decode steps have a draft.",
        [Query(ENGINE("spec_decode_acceptance_dropped"), "{{kind}}")],
        Look(unit="none", words=style.DROPPED, steps=style.NEUTRAL, no_value="no baseline yet"),
    )


def _tiles() -> Band:
    tiles = (_verdict_tile(), _paid_tile(), _advice_tile(), _accepted_tile(), _dropped_tile())
    return Band(5, list(zip((4, 5, 7, 4, 4), tiles, strict=True)))


def _history() -> Panel:
    return timeline(
        "What it was, and since when",
        "Verdict, advice and state over the time shown.",
        [_verdict(), _action(), _state()],
        Look(unit="none"),
    )


def _speedup_over_time() -> Panel:
    metric = "spec_decode_estimated_speedup_ratio"
    bounds = band(
        ENGINE(f"{metric}_lower", window=LONG),
        ENGINE(f"{metric}_upper", window=LONG),
        ("at least", "at most"),
        Colour.TREND,
    )
    return lines(
        "Speed-up, with its bounds",
        "Estimated speed-up over no speculation: short and long window, the long one's 95 % bounds as a "
        "band, the ceiling that it would have if drafting cost nothing, and the speed-up of whole requests "
        "with their time to first token. Below the line at 1, speculation slows this engine down.",
        [
            *bounds,
            Query(
                ENGINE("spec_decode_speedup_ceiling_ratio", window=LONG), "ceiling", dashed(Colour.UNKNOWN)
            ),
            Query(ENGINE(metric, window=SHORT), "short window", line(Colour.NOW, {"custom.lineWidth": 1})),
            Query(ENGINE(metric, window=LONG), "long window", line(Colour.TREND)),
            Query(
                by((), ENGINE("spec_decode_end_to_end_speedup_ratio", window=LONG)),
                "request",
                dashed(Colour.TREND),
            ),
        ],
        _SPEEDUP,
        limit=True,
    )


def _depth() -> Panel:
    metric = "spec_decode_depth_speedup_ratio"
    return bars(
        "Speed-up by draft length",
        "Expected speed-up for each number of draft tokens, by the acceptance of each position. Beyond the "
        "positions that are drafted it is extrapolated. A hypothesis to try, not a promise.",
        [
            Query(by(("tokens",), ENGINE(metric, basis="measured")), "measured", line(Colour.NOW)),
            Query(
                by(("tokens",), ENGINE(metric, basis="extrapolated")), "extrapolated", line(Colour.UNKNOWN)
            ),
        ],
        "tokens",
        Look(unit="none", decimals=2, least=0, steps=style.PAYS, no_value="cost unknown"),
        x_title="Draft tokens",
        limit=True,
        overlaid=True,
    )


def _against_load() -> Panel:
    return scatter(
        "Speed-up against load",
        "One point for each moment of the time shown. Drafting costs more as the batch grows: where the "
        "points fall below 1 is the crossover.",
        Query(
            ENGINE("spec_decode_running_requests", window=SHORT),
            "Running requests",
            {"unit": "none", "decimals": 0},
        ),
        Query(ENGINE("spec_decode_estimated_speedup_ratio", window=SHORT), "Speed-up", _TIMES),
        Look(unit="none", decimals=2, colour=style.fixed(Colour.NOW), no_value="cost unknown"),
    )


def _cost_over_time() -> Panel:
    metric, limit = "spec_decode_draft_cost_ratio", "spec_decode_break_even_cost_ratio"
    # A change of the source, which is a label, goes on in the same line.
    possible = band(
        by((), ENGINE(f"{metric}_lower"), "min"),
        by((), ENGINE(f"{metric}_upper")),
        ("lowest possible", "highest possible"),
        Colour.TREND,
    )
    return lines(
        "Draft cost, and where it breaks even",
        "Cost of one more draft token in plain decode steps, with a band of what it can be at this load. "
        "Below the break-even lines, the 95 % bounds of that cost, speculation pays; above them it does not. "
        "Where the lines cross the band, measure the cost.",
        [
            *possible,
            Query(by((), ENGINE(metric)), "assumed", line(Colour.TREND)),
            Query(ENGINE(f"{limit}_lower"), "break-even, at least", dashed(Colour.GOOD)),
            Query(ENGINE(limit), "break-even", line(Colour.NOW)),
            Query(ENGINE(f"{limit}_upper"), "break-even, at most", dashed(Colour.HARM)),
        ],
        Look(unit="percentunit", no_value="cost unknown"),
    )


def _costs() -> Panel:
    return stat_tile(
        "What it takes",
        "Cost of one more draft token in plain decode steps, and where it is known from; the acceptance "
        "from which on speculation pays at that cost; the number of running requests at which it stops "
        "paying; the share of decode steps that have a draft at all.",
        [
            Query(
                ENGINE("spec_decode_draft_cost_ratio"),
                "draft cost, {{source}}",
                {"unit": "percentunit", "decimals": 1},
            ),
            Query(
                ENGINE("spec_decode_break_even_acceptance_ratio"),
                "break-even acceptance",
                {"unit": "percentunit"},
            ),
            Query(ENGINE("spec_decode_crossover_running_requests"), "crossover load", {"decimals": 0}),
            Query(
                ENGINE("spec_decode_coverage_ratio", window=LONG),
                "steps with a draft",
                {"unit": "percentunit"},
            ),
        ],
        Look(unit="none", decimals=0, steps=((None, Colour.UNKNOWN),), no_value="unknown"),
        upright=True,
    )


def _acceptance() -> Panel:
    metric = "spec_decode_draft_acceptance_ratio"
    bounds = band(
        ENGINE(f"{metric}_lower", window=LONG),
        ENGINE(f"{metric}_upper", window=LONG),
        ("at least", "at most"),
        Colour.TREND,
    )
    return lines(
        "Acceptance, with its bounds",
        "Accepted tokens over draft tokens: the short window shows what is, the long one with its 95 % "
        "bounds the trend. Below break-even, speculation costs more than it brings. The reference is what "
        "the configuration holds the engine against, where it does.",
        [
            *bounds,
            Query(ENGINE("spec_decode_break_even_acceptance_ratio"), "break-even", dashed(Colour.HARM)),
            Query(ENGINE("spec_decode_reference_acceptance_ratio"), "reference", dashed(Colour.UNKNOWN)),
            Query(ENGINE(metric, window=SHORT), "short window", line(Colour.NOW, {"custom.lineWidth": 1})),
            Query(ENGINE(metric, window=LONG), "long window", line(Colour.TREND)),
        ],
        _RATIO,
    )


def _length() -> Panel:
    baseline = ENGINE("spec_decode_baseline_acceptance_length_tokens")
    deviation = ENGINE("spec_decode_baseline_acceptance_length_tokens_stddev")
    bounds = band(
        f"{baseline} - 2 * {deviation}",
        f"{baseline} + 2 * {deviation}",
        ("usual low", "usual high"),
        Colour.UNKNOWN,
    )
    return lines(
        "Acceptance length against its baseline",
        "Tokens that a draft gives, the bonus token included, and what this engine usually gives, two "
        "standard deviations wide. Red is where a drop is flagged.",
        [
            *bounds,
            Query(baseline, "baseline", dashed(Colour.UNKNOWN)),
            Query(
                ENGINE("spec_decode_acceptance_length_tokens", window=SHORT), "short window", line(Colour.NOW)
            ),
            Query(_while_dropped(), "dropped", line(Colour.HARM, {"custom.lineWidth": 4})),
        ],
        Look(unit="none", decimals=1),
    )


def _while_dropped() -> str:
    length = ENGINE("spec_decode_acceptance_length_tokens", window=SHORT)
    flags = " or ".join(ENGINE("spec_decode_acceptance_dropped", kind=kind) for kind in ("sudden", "slow"))
    return f"{length} and on ({', '.join(ENGINE_KEY)}) ({by(ENGINE_KEY, flags)} == 1)"


def _while_drafting_dropped() -> str:
    tokens = ENGINE("spec_decode_effective_tokens_per_step", window=LONG)
    flag = ENGINE("spec_decode_acceptance_dropped", kind="drafting")
    return f"{tokens} and ignoring (window, kind) {flag} == 1"


def _positions_now() -> Panel:
    metric = "spec_decode_position_acceptance_ratio"
    return bars(
        "Acceptance by position",
        "Share of drafts that are accepted up to each position. A smooth slope is normal; a cliff means "
        "that the draft model loses the thread there. A last position above 30 % has room for more tokens, "
        "below 10 % it is waste.",
        [
            Query(by(("position",), ENGINE(metric, window=SHORT)), "short window", line(Colour.NOW)),
            Query(by(("position",), ENGINE(metric, window=LONG)), "long window", line(Colour.TREND)),
        ],
        "position",
        _RATIO,
        x_title="Position",
    )


def _positions_over_time() -> Panel:
    selector = ENGINE("spec_decode_position_acceptance_ratio", window=SHORT)
    return heat_over_time(
        "Acceptance by position over time",
        "Each row is a draft position, from the first at the bottom; the brighter, the more is accepted.",
        Query(by(("position",), selector), "{{position}}"),
        Look(unit="percentunit", decimals=0),
        y_title="position",
        of_buckets=False,
    )


def _conditional() -> Panel:
    selector = ENGINE("spec_decode_position_conditional_acceptance_ratio", window=LONG)
    return lines(
        "Accepted if the one before was",
        "How good the drafter is at each position, given that it got there. Lines that lie together mean "
        "that quality does not wear off with depth; the decay is that of all positions together.",
        [
            Query(
                selector, "position {{position}}", {"color": style.shades(Colour.NOW), "custom.lineWidth": 1}
            ),
            Query(ENGINE("spec_decode_acceptance_decay_ratio", window=LONG), "decay", dashed(Colour.UNKNOWN)),
        ],
        _RATIO,
    )


def _accepted_lengths() -> Panel:
    return bars(
        "Accepted tokens of a draft",
        "Share of drafts by the exact number of accepted tokens, without the bonus token, in the"
        " long window. Many at 0 and many at the far right are two kinds of requests.",
        [Query(_length_shares(), "share of drafts", line(Colour.TREND))],
        "length",
        Look(unit="percentunit", decimals=0, least=0),
        x_title="Accepted tokens",
    )


def _length_shares() -> str:
    """Return P(length = j) = p(j-1) - p(j), as one vector with the label ``length``.

    The metric of the same meaning is off by default; these are made of what is on.
    """
    terms = []
    for length in range(_LONGEST_DRAFT + 1):
        last = length == _LONGEST_DRAFT
        share = (
            _reached(length)
            if last
            else f"{_reached(length)} - ({_reached(length + 1)} or {_reached(length)} * 0)"
        )
        name = f"{length} or more" if last else str(length)
        terms.append(f'label_replace({share}, "length", "{name}", "", "")')
    return " or ".join(terms)


def _reached(length: int) -> str:
    """Return the share of drafts with at least N accepted tokens."""
    metric = "spec_decode_position_acceptance_ratio"
    if length:
        return by((), ENGINE(metric, window=LONG, position=str(length - 1)))
    return f"{by((), ENGINE(metric, window=LONG))} ^ 0"


def _tokens() -> Panel:
    drafted, accepted = (ENGINE.rate(f"spec_decode_{what}_tokens_total") for what in ("draft", "accepted"))
    return lines(
        "Drafted tokens: accepted and rejected",
        "Tokens drafted a second, by what became of them: all of it is drafted, the grey part for nothing. "
        "The line is what the engine generated in all.",
        [
            Query(accepted, "accepted", line(Colour.NOW, _TOKENS)),
            Query(f"{drafted} - {accepted}", "rejected", line(Colour.UNKNOWN, _TOKENS)),
            Query(
                ENGINE.rate("spec_decode_generation_tokens_total"),
                "generated",
                line(Colour.TREND, _unstacked()),
            ),
        ],
        Look(unit="cps", least=0),
        stacked=True,
    )


def _unstacked() -> dict[str, object]:
    return {
        **_TOKENS,
        "custom.stacking": {"mode": "none", "group": "B"},
        "custom.lineWidth": 2,
        "custom.fillOpacity": 0,
    }


def _spread() -> Panel:
    buckets = ENGINE.rate("spec_decode_poll_acceptance_ratio_bucket")
    return heat_over_time(
        "Spread of acceptance",
        "Draft tokens a second by the acceptance rate of the second in which they were drafted. Two bands "
        "are two kinds of load. Over polls, not over requests.",
        Query(by(("le",), buckets, "sum"), "{{le}}"),
        Look(unit="cps", decimals=1),
        y_title="acceptance of a poll",
        of_buckets=True,
    )


def _latency(title: str, description: str, latency: str, *more: Query) -> Panel:
    selector = ENGINE("spec_decode_latency_seconds", latency=latency)
    panel = lines(
        title,
        description,
        [Query(by(("percentile",), selector), "{{percentile}}"), *more],
        Look(unit="s", least=0),
    )
    return named(panel, {name: {"color": style.fixed(colour)} for name, colour in style.PERCENTILES.items()})


def _requests() -> Panel:
    return lines(
        "Requests",
        "Mean running and waiting requests over the short window, and the load at which speculation stops "
        "paying, where the cost is known at several loads.",
        [
            Query(ENGINE("spec_decode_running_requests", window=SHORT), "running", line(Colour.NOW)),
            Query(ENGINE("spec_decode_waiting_requests", window=SHORT), "waiting", line(Colour.BAD)),
            Query(ENGINE("spec_decode_crossover_running_requests"), "crossover", dashed(Colour.HARM)),
        ],
        Look(unit="none", decimals=0, least=0),
    )


def _latencies() -> Band:
    mean = ENGINE("spec_decode_time_per_output_token_seconds", window=LONG)
    per_token = _latency(
        "Time per output token",
        "Percentiles over requests of the time per token after the first, and the mean over tokens: long "
        "requests count for more in the mean. This is what speculation is for.",
        "time_per_output_token",
        Query(mean, "mean, by tokens", dashed(Colour.TREND)),
    )
    to_first = _latency(
        "Time to first token",
        "Percentiles and mean over requests. Speculation does not shorten it; a growing one is a queue, long "
        "prompts or a lost prefix cache.",
        "time_to_first_token",
        Query(ENGINE("spec_decode_time_to_first_token_seconds"), "mean", dashed(Colour.TREND)),
    )
    return Band(8, [(8, per_token), (8, to_first), (8, _requests())])


def _resources() -> Band:
    cache = lines(
        "KV cache",
        "Share of the KV cache in use, and share of prompt tokens found in the prefix cache. A draft "
        "model's memory comes out of the KV cache.",
        [
            Query(ENGINE("spec_decode_kv_cache_usage_ratio"), "in use", line(Colour.NOW)),
            Query(ENGINE("spec_decode_prefix_cache_hit_ratio"), "prefix hits", line(Colour.TREND)),
        ],
        _RATIO,
    )
    preemptions = lines(
        "Preemptions",
        "Requests a second that lost their place because the KV cache was full; their work is done again.",
        [Query(ENGINE("spec_decode_preemptions_per_second"), "preemptions", line(Colour.BAD))],
        Look(unit="cps", least=0, axis=(None, 1)),
    )
    steps = lines(
        "Tokens per step",
        "Tokens that a decode step really gives, with a draft or without, beside what a draft gives. They "
        "part where many steps have no draft. Red is where drafting dropped.",
        [
            Query(
                ENGINE("spec_decode_effective_tokens_per_step", window=LONG), "of a step", line(Colour.NOW)
            ),
            Query(
                ENGINE("spec_decode_acceptance_length_tokens", window=LONG),
                "of a draft",
                dashed(Colour.TREND),
            ),
            Query(_while_drafting_dropped(), "drafting dropped", line(Colour.HARM, {"custom.lineWidth": 4})),
        ],
        Look(unit="none", decimals=1, least=0),
    )
    return Band(8, [(8, cache), (8, preemptions), (8, steps)])


def _trust() -> Band:
    checks = timeline(
        "Identities of the counters",
        "Whether the server's own counters agree with each other. While one is broken, distrust what is "
        "above.",
        [Query(ENGINE("spec_decode_consistent"), "{{check}}", text_of(style.HOLDS))],
        Look(unit="none"),
    )
    restarts = lines(
        "Restarts of the counters",
        "Resets of the server's counters: by a restart, or lower than before without "
        "one. Several in a row are a load balancer in front of several servers.",
        [
            Query(
                by(("cause",), ENGINE.increase("spec_decode_engine_resets_total", "$__rate_interval"), "sum"),
                "{{cause}}",
            )
        ],
        Look(unit="short", decimals=0, least=0, colour=style.by_name(), axis=(None, 1)),
    )
    return Band(7, [(16, checks), (8, restarts)])


def _gpu() -> Band:
    # dcgm-exporter is another job, and does not know which engine runs on a GPU.
    used, free = (f'DCGM_FI_DEV_FB_{what}{{Hostname=~"$gpu_host"}}' for what in ("USED", "FREE"))
    memory = lines(
        "GPU memory in use",
        "Memory of every GPU of the hosts chosen at the top, from NVIDIA's dcgm-exporter, which does not "
        "know what runs on which GPU. Empty without a dcgm-exporter.",
        [Query(used, "{{Hostname}} GPU {{gpu}}")],
        Look(unit="mbytes", least=0, colour=style.by_name(), no_value="no dcgm-exporter"),
    )
    share = lines(
        "Share of GPU memory in use",
        "The same as a share. vLLM reserves its KV cache at the start, so it is flat; what a draft model "
        "takes is seen in the KV cache above.",
        [Query(f"{used} / ({used} + {free})", "{{Hostname}} GPU {{gpu}}")],
        Look(unit="percentunit", least=0, most=1, colour=style.by_name(), no_value="no dcgm-exporter"),
    )
    return Band(8, [(12, memory), (12, share)])


def engine() -> dashboard.Dashboard:
    """Return the dashboard of one engine."""
    pays = [
        Band(8, [(12, _speedup_over_time()), (12, _cost_over_time())]),
        Band(8, [(10, _depth()), (10, _against_load()), (4, _costs())]),
    ]
    return board(
        UID,
        "Speculative decoding / Engine",
        "One engine: does speculation pay, what should be done, and why.",
        variables=[
            variables.datasource(),
            variables.job(),
            variables.model_name('job=~"$job"'),
            variables.one_instance(),
            variables.one_target(),
            variables.one_engine(),
            *variables.windows(),
            variables.gpu_host(),
        ],
        marks=[alerts(ENGINE), RESTARTS, NEW_K],
        sections=[
            Section([_tiles(), Band(5, [(24, _history())])]),
            Section(pays, "Does it pay?"),
            Section(
                [
                    Band(8, [(12, _acceptance()), (12, _length())]),
                    Band(8, [(7, _positions_now()), (8, _positions_over_time()), (9, _conditional())]),
                    Band(8, [(7, _accepted_lengths()), (8, _spread()), (9, _tokens())]),
                ],
                "How much is accepted",
            ),
            Section([_latencies(), _resources()], "Latency and load"),
            Section([_trust()], "Can the numbers be trusted?"),
            Section([_gpu()], "GPU memory (needs dcgm-exporter)", collapsed=True),
        ],
    )
