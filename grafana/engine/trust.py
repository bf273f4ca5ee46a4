"""Consistency of the server's counters."""

from __future__ import annotations

from grafana import style
from grafana.board import Band
from grafana.panels import Look, Query, lines, text_of, timeline
from grafana.promql import ENGINE, by


def bands() -> list[Band]:
    """Return checks of the server's counters, and their restarts."""
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
    return [Band(7, [(16, checks), (8, restarts)])]
