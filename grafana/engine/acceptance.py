"""Acceptance: how much, up to which position, and whether it dropped."""

from __future__ import annotations

from grafana import style
from grafana.board import Band
from grafana.engine.looks import LONG, RATIO, SHORT
from grafana.panels import (
    Look,
    Panel,
    Query,
    band,
    bars,
    bars_of_queries,
    dashed,
    heat_over_time,
    line,
    lines,
)
from grafana.promql import ENGINE, ENGINE_KEY, by
from grafana.style import Colour

_TOKENS: dict[str, object] = {"unit": style.TOKENS_A_SECOND, "decimals": 0}

_LONGEST_DRAFT = 8
"""Accepted lengths from this one on are shown together."""


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
        RATIO,
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
        RATIO,
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
        RATIO,
    )


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


def _accepted_lengths() -> Panel:
    lengths = range(_LONGEST_DRAFT + 1)
    names = [*(str(length) for length in lengths[:-1]), f"{lengths[-1]} or more"]
    return bars_of_queries(
        "Accepted tokens of a draft",
        "Share of drafts by the exact number of accepted tokens, without the bonus token, in the"
        " long window. Many at 0 and many at the far right are two kinds of requests.",
        [Query(_share(length), name) for length, name in zip(lengths, names, strict=True)],
        "share of drafts",
        Look(unit="percentunit", decimals=0, least=0, colour=style.fixed(Colour.TREND)),
    )


def _share(length: int) -> str:
    """Return P(length = j) = p(j-1) - p(j), of the last one all that is left.

    The metric of the same meaning is in the profile `full` alone; this is made of what `standard` has.
    """
    reached = _reached(length)
    if length == _LONGEST_DRAFT:
        return reached
    return f"{reached} - ({_reached(length + 1)} or {reached} * 0)"


def _reached(length: int) -> str:
    """Return the share of drafts with at least N accepted tokens."""
    metric = "spec_decode_position_acceptance_ratio"
    if length:
        return by((), ENGINE(metric, window=LONG, position=str(length - 1)))
    return f"{by((), ENGINE(metric, window=LONG))} ^ 0"


def _while_drafting_dropped() -> str:
    tokens = ENGINE("spec_decode_effective_tokens_per_step", window=LONG)
    flag = ENGINE("spec_decode_acceptance_dropped", kind="drafting")
    return f"{tokens} and ignoring (window, kind) {flag} == 1"


def _steps() -> Panel:
    return lines(
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


def bands() -> list[Band]:
    """Return how much is accepted, and up to which position."""
    return [Band(8, [(14, _acceptance()), (10, _positions_now())])]


def drops() -> list[Band]:
    """Return what dropped: tokens of a draft, or the share of steps with one."""
    return [Band(8, [(12, _length()), (12, _steps())])]


def details() -> list[Band]:
    """Return how acceptance is spread over positions, drafts and time."""
    return [
        Band(8, [(12, _positions_over_time()), (12, _conditional())]),
        Band(8, [(7, _accepted_lengths()), (8, _spread()), (9, _tokens())]),
    ]
