"""Verdict and advice, and since when they hold."""

from __future__ import annotations

from grafana import style
from grafana.board import Band
from grafana.engine.looks import LONG, TIMES
from grafana.panels import Look, Panel, Query, stat_tile, text_of, timeline
from grafana.promql import ENGINE, by, number_of_word
from grafana.style import Colour

_NONE_YET = Look(unit="none", decimals=0, steps=style.NEUTRAL, no_value="none yet")


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
    faint = {**TIMES, "color": style.fixed(Colour.UNKNOWN)}
    return stat_tile(
        "Speed-up",
        "How much faster a whole request and decoding are than without speculation, estimated over the long "
        "window, with the 95 % bounds of decoding. Harmful is when even the upper bound is below 1. Without "
        "times to first token it is decode only.",
        [
            Query(by((), ENGINE("spec_decode_end_to_end_speedup_ratio", window=LONG)), "request", TIMES),
            Query(ENGINE(f"{speedup}_lower", window=LONG), "at least", faint),
            Query(ENGINE(speedup, window=LONG), "decoding", TIMES),
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


def _dropped_tile() -> Panel:
    return stat_tile(
        "Against its own baseline",
        "Whether the acceptance length dropped below this engine's baseline. Sudden is a matter of seconds,"
        " slow of hours. Drafting dropped where fewer decode steps have a draft.",
        [Query(ENGINE("spec_decode_acceptance_dropped"), "{{kind}}")],
        Look(unit="none", words=style.DROPPED, steps=style.NEUTRAL, no_value="no baseline yet"),
    )


def _history() -> Panel:
    return timeline(
        "What it was, and since when",
        "Verdict, advice and state over the time shown.",
        [_verdict(), _action(), _state()],
        Look(unit="none"),
    )


def bands() -> list[Band]:
    """Return verdict, advice, speed-up and drops as they are now, and since when."""
    tiles = (_verdict_tile(), _advice_tile(), _paid_tile(), _dropped_tile())
    return [Band(5, list(zip((4, 8, 7, 5), tiles, strict=True))), Band(5, [(24, _history())])]
