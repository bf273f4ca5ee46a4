"""Engines at work, in figures that fit together; every case begins from these and changes what it is about.

The engine has six requests in decoding at a time and a step takes 30 ms, so it does 200 steps a second, each with
a draft of four tokens. Its positions are accepted with 0.80, 0.65, 0.50 and 0.35: 460 tokens a second, an
acceptance length of 3.30 and 660 tokens a second from steps. A request has 132 of them, so five begin a second.
At a cost of 0.1 a draft token the speed-up is 3.30 / 1.4 = 2.36 and break-even 0.10: docs/explanation/semantics.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from config.prometheus.generate.case import ENGINE, EXPORTER, TARGET, Series, counter, gauge, of

DRAFTS: Final = 200.0
DRAFT_TOKENS: Final = 800.0
ACCEPTED: Final = 460.0
POSITIONS: Final = (160.0, 130.0, 100.0, 70.0)
FIRST: Final = 5.0
GENERATED: Final = 665.0
DECODING: Final = 6.0

STATES: Final = ("disabled", "unknown", "idle", "active", "stalled", "unreachable")
VERDICTS: Final = ("optimal", "healthy", "marginal", "poor", "harmful", "unclear", "insufficient")
ACTIONS: Final = (
    "keep",
    "increase",
    "decrease",
    "disable",
    "limit_batch",
    "switch_method",
    "measure_cost",
    "collect",
)
CHECKS: Final = (
    "positions_add_up",
    "positions_decrease",
    "accepted_within_drafted",
    "drafted_within_configured",
    "one_server",
)
REASONS: Final = ("refused", "timeout", "status", "too_large", "malformed", "tls", "dns")


def drafting(minutes: float, labels: Mapping[str, str] = ENGINE, *, rate: float = 1.0) -> Series:
    """Return the counters of an engine at ``rate`` times the traffic above."""

    def at(per_second: float) -> tuple[float, float]:
        return minutes, per_second * rate

    return {
        of("spec_decode_drafts_total", labels): counter(at(DRAFTS)),
        of("spec_decode_draft_tokens_total", labels): counter(at(DRAFT_TOKENS)),
        of("spec_decode_accepted_tokens_total", labels): counter(at(ACCEPTED)),
        of("spec_decode_generation_tokens_total", labels): counter(at(GENERATED)),
        of("spec_decode_first_tokens_total", labels): counter(at(FIRST)),
        of("spec_decode_decode_steps_total", labels): counter(at(DRAFTS)),
        of("spec_decode_decode_seconds_total", labels): counter(at(DECODING)),
        **{
            of("spec_decode_position_accepted_tokens_total", labels, position=str(position)): counter(
                at(each)
            )
            for position, each in enumerate(POSITIONS)
        },
        **windowed(minutes, labels, *(each / DRAFTS for each in POSITIONS)),
    }


def windowed(minutes: float, labels: Mapping[str, str], *ratios: float) -> Series:
    """Return what the exporter says of each position over its long window."""
    return {
        of("spec_decode_position_acceptance_ratio", labels, window="5m", position=str(position)): gauge(
            (minutes, ratio)
        )
        for position, ratio in enumerate(ratios)
    }


def described(
    minutes: float, labels: Mapping[str, str] = ENGINE, *, method: str = "eagle3", tokens: int = 4
) -> Series:
    """Return what is known of an engine's speculation."""
    info = {"method": method, "method_source": "configured", "draft_model": "llama-eagle3"}
    return {
        of("spec_decode_engine_info", labels, **info): gauge((minutes, 1)),
        of("spec_decode_configured_tokens", labels): gauge((minutes, tokens)),
    }


def among(metric: str, label: str, members: tuple[str, ...], which: str, minutes: float) -> Series:
    """Return a state set of the engine, of which ``which`` is 1."""
    return {
        of(metric, {**ENGINE, label: member}): gauge((minutes, float(member == which))) for member in members
    }


def evaluated(minutes: float, *, state: str, verdict: str, action: str) -> Series:
    """Return what the exporter says of the engine."""
    return {
        **among("spec_decode_state", "state", STATES, state, minutes),
        **among("spec_decode_verdict", "verdict", VERDICTS, verdict, minutes),
        **among("spec_decode_recommendation", "action", ACTIONS, action, minutes),
        **{
            of("spec_decode_acceptance_dropped", kind=kind): gauge((minutes, 0))
            for kind in ("sudden", "slow", "drafting")
        },
        **{of("spec_decode_consistent", check=check): gauge((minutes, 1)) for check in CHECKS},
        **{
            of("spec_decode_engine_resets_total", cause=cause): gauge((minutes, 0))
            for cause in ("restart", "decrease")
        },
    }


def watched(minutes: float) -> Series:
    """Return what the exporter says of itself and of its target while all is well; a poll a second."""
    return {
        of("up", EXPORTER): gauge((minutes, 1)),
        of("spec_decode_exporter_build_info", EXPORTER, version="0.1.0"): gauge((minutes, 1)),
        of("spec_decode_exporter_config_last_reload_successful", EXPORTER): gauge((minutes, 1)),
        of("spec_decode_exporter_target_up", TARGET): gauge((minutes, 1)),
        of("spec_decode_exporter_target_engines", TARGET): gauge((minutes, 1)),
        of("spec_decode_exporter_polls_total", TARGET): counter((minutes, 1)),
        **{
            of("spec_decode_exporter_poll_failures_total", TARGET, reason=reason): gauge((minutes, 0))
            for reason in REASONS
        },
        of("spec_decode_exporter_poll_seconds", TARGET): gauge((minutes, 0.004)),
        # The clock of a test begins at 0, and so does this one: the newest poll is as old as the scrape.
        of("spec_decode_exporter_last_success_timestamp_seconds", TARGET): counter((minutes, 1)),
    }
