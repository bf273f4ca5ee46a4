"""Speed-up by time and draft length, and what makes it smaller: cost and load."""

from __future__ import annotations

from grafana import style
from grafana.board import Band
from grafana.engine.looks import LONG, SHORT, SPEEDUP, TIMES
from grafana.panels import Look, Panel, Query, band, bars, dashed, line, lines, scatter, stat_tile
from grafana.promql import ENGINE, by
from grafana.style import Colour


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
        "How much faster decoding is than without speculation, estimated over the short and the long window, "
        "the long one's 95 % bounds as a band. Below the line at 1, speculation slows this engine down.",
        [
            *bounds,
            Query(ENGINE(metric, window=SHORT), "short window", line(Colour.NOW, {"custom.lineWidth": 1})),
            Query(ENGINE(metric, window=LONG), "long window", line(Colour.TREND)),
        ],
        SPEEDUP,
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
        Query(ENGINE("spec_decode_estimated_speedup_ratio", window=SHORT), "Speed-up", TIMES),
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


def _losses() -> Panel:
    ceiling = ENGINE("spec_decode_speedup_ceiling_ratio", window=LONG)
    return lines(
        "What takes the gain away",
        "The speed-up that decoding would have if drafting cost nothing, the one that it has, and that of "
        "whole requests with their time to first token. The first gap is the cost of drafting, the second is "
        "time that speculation does not shorten.",
        [
            Query(ceiling, "ceiling", dashed(Colour.UNKNOWN)),
            Query(ENGINE("spec_decode_estimated_speedup_ratio", window=LONG), "decoding", line(Colour.NOW)),
            Query(
                by((), ENGINE("spec_decode_end_to_end_speedup_ratio", window=LONG)),
                "request",
                line(Colour.TREND),
            ),
        ],
        SPEEDUP,
        limit=True,
    )


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


def bands() -> list[Band]:
    """Return the speed-up, and by draft length."""
    return [Band(8, [(14, _speedup_over_time()), (10, _depth())])]


def costs() -> list[Band]:
    """Return the cost of drafting, and the load that it rises with."""
    return [Band(8, [(14, _cost_over_time()), (10, _requests())])]


def details() -> list[Band]:
    """Return what makes the speed-up smaller."""
    return [Band(8, [(10, _losses()), (10, _against_load()), (4, _costs())])]
