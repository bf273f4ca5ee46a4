"""Tests of the alerts about whether speculation pays."""

from __future__ import annotations

from typing import Final

from config.prometheus.generate.case import ENGINE, EXPORTER, AlertCase, Firing, Series, counter, gauge, of
from config.prometheus.generate.cases.traffic import ACTIONS, VERDICTS, among, drafting

_WHERE: Final = "llama on chat (engine 0, gpu-1:7732): "
_LOWER: Final = "Lower num_speculative_tokens (now unknown), or restart without --speculative-config."
_LOSS: Final = "for at least 5m the speed-up was at most {} even at its upper 95 % bound; the estimate is 0.73 at 6 running requests."


def _slow(minutes: float, *upper: tuple[float, float | None], verdict: str = "harmful") -> Series:
    """Positions accepted with 0.40 0.15 0.05 0.01 at a cost of 0.3: 1.61 / 2.2 = 0.73."""
    return {
        of("spec_decode_estimated_speedup_ratio", window="5m"): gauge((minutes, 0.732)),
        of("spec_decode_estimated_speedup_ratio_upper", window="5m"): gauge(*upper),
        of("spec_decode_running_requests", window="5m"): gauge((minutes, 6)),
        of("spec_decode_drafts_total"): counter((minutes, 200)),
        **among("spec_decode_verdict", "verdict", VERDICTS, verdict, minutes),
    }


_SLOWDOWN: Final = (
    AlertCase(
        "SpecDecodeNetSlowdown",
        "fires when even the upper bound of the speed-up is below 1",
        _slow(20, (20, 0.78)),
        at=16,
        fires=(Firing({**ENGINE, "window": "5m"}, _WHERE + _LOSS.format("0.78"), _LOWER),),
    ),
    AlertCase(
        "SpecDecodeNetSlowdown",
        "goes on while the windowed series are away for two minutes",
        _slow(20, (16, 0.78), (2, None), (2, 0.78)),
        at=17.5,
        fires=(Firing({**ENGINE, "window": "5m"}, _WHERE + _LOSS.format("0.78"), _LOWER),),
    ),
    AlertCase(
        "SpecDecodeNetSlowdown",
        "is silent while the upper bound touches 1 now and then",
        _slow(20, (7, 0.97), (1, 1.01), (7, 0.97), (1, 1.02), (4, 0.97)),
        at=20,
    ),
    AlertCase(
        "SpecDecodeNetSlowdown",
        "is silent where the verdict is unclear: since the last change the cost decides",
        _slow(20, (20, 0.78), verdict="unclear"),
        at=20,
    ),
    AlertCase(
        "SpecDecodeNetSlowdown",
        "is silent at one draft in two seconds, 300 in ten minutes",
        {**_slow(20, (20, 0.78)), of("spec_decode_drafts_total"): counter((20, 0.5))},
        at=20,
    ),
)


def _accepting(
    tokens_a_second: float, minutes: float, source: str = "measured", lowest: float = 0.27
) -> Series:
    """Every step drafts four tokens, so the break-even cost is the acceptance ratio."""
    return {
        of("spec_decode_drafts_total"): counter((minutes, 200)),
        of("spec_decode_draft_tokens_total"): counter((minutes, 800)),
        of("spec_decode_accepted_tokens_total"): counter((minutes, tokens_a_second)),
        of("spec_decode_break_even_acceptance_ratio"): gauge((minutes, 0.30)),
        of("spec_decode_break_even_cost_ratio"): gauge((minutes, tokens_a_second / 800)),
        of("spec_decode_draft_cost_ratio", source=source): gauge((minutes, 0.30)),
        of("spec_decode_draft_cost_ratio_lower", source=source): gauge((minutes, lowest)),
    }


_BREAK_EVEN: Final = (
    AlertCase(
        "SpecDecodeAcceptanceBelowBreakEven",
        "fires when a fifth is accepted and three tenths must be",
        _accepting(160, 62),
        at=62,
        fires=(
            Firing(
                ENGINE,
                f"{_WHERE}20% of the draft tokens of the last 30 minutes were accepted; break-even is 30%.",
                _LOWER,
            ),
        ),
    ),
    AlertCase(
        "SpecDecodeAcceptanceBelowBreakEven",
        "is silent when it is hardly below: 0.29 of 0.30",
        _accepting(232, 62, lowest=0.30),
        at=62,
    ),
    AlertCase(
        "SpecDecodeAcceptanceBelowBreakEven",
        "is silent when the cost is only the default of the method",
        _accepting(160, 62, source="typical"),
        at=62,
    ),
    AlertCase(
        "SpecDecodeAcceptanceBelowBreakEven",
        "is silent when the cost may be lower: it was configured for another load",
        _accepting(160, 62, source="configured", lowest=0.15),
        at=62,
    ),
    AlertCase(
        "SpecDecodeAcceptanceBelowBreakEven",
        "is silent at one draft in two seconds, 900 in half an hour",
        {**_accepting(160, 62), of("spec_decode_drafts_total"): counter((62, 0.5))},
        at=62,
    ),
)


def _short(tokens_a_second: float, minutes: float) -> Series:
    return {
        of("spec_decode_drafts_total"): counter((minutes, 200)),
        of("spec_decode_accepted_tokens_total"): counter((minutes, tokens_a_second)),
    }


_SHORT: Final = Firing(
    ENGINE,
    f"{_WHERE}a draft gave 1.15 tokens on average over up to 30 minutes, including the bonus token; below 1.2 "
    "speculation rarely pays.",
    _LOWER,
)

_LENGTH: Final = (
    AlertCase(
        "SpecDecodeAcceptanceLengthLow",
        "fires at 1.15 tokens a draft",
        _short(30, 50),
        at=50,
        fires=(_SHORT,),
    ),
    AlertCase("SpecDecodeAcceptanceLengthLow", "is silent at 1.25", _short(50, 50), at=50),
    AlertCase(
        "SpecDecodeAcceptanceLengthLow",
        "is silent where drafting is known to be so cheap that it pays, as an n-gram search can be",
        {
            **_short(30, 50),
            of("spec_decode_estimated_speedup_ratio_lower", window="5m"): gauge((50, 1.04)),
            of("spec_decode_draft_cost_ratio", source="configured"): gauge((50, 0.01)),
        },
        at=50,
    ),
    AlertCase(
        "SpecDecodeAcceptanceLengthLow",
        "fires where drafting is cheap and may not pay all the same",
        {
            **_short(30, 50),
            of("spec_decode_estimated_speedup_ratio_lower", window="5m"): gauge((50, 0.98)),
            of("spec_decode_draft_cost_ratio", source="configured"): gauge((50, 0.03)),
        },
        at=50,
        fires=(_SHORT,),
    ),
    AlertCase(
        "SpecDecodeAcceptanceLengthLow",
        "fires where it would pay at the typical cost, and not at every possible one",
        {
            **_short(30, 50),
            of("spec_decode_estimated_speedup_ratio", window="5m"): gauge((50, 1.04)),
            of("spec_decode_estimated_speedup_ratio_lower", window="5m"): gauge((50, 0.71)),
            of("spec_decode_draft_cost_ratio", source="typical"): gauge((50, 0.01)),
        },
        at=50,
        fires=(_SHORT,),
    ),
    AlertCase(
        "SpecDecodeAcceptanceLengthLow",
        "is silent with 900 drafts in half an hour",
        {
            of("spec_decode_drafts_total"): counter((50, 0.5)),
            of("spec_decode_accepted_tokens_total"): counter((50, 0.05)),
        },
        at=50,
    ),
)

PLAIN: Final = {**ENGINE, "instance": "gpu-1:7732", "arm": "baseline"}
EAGLE: Final = {**ENGINE, "instance": "gpu-2:7732", "arm": "eagle"}


def arms(
    minutes: float,
    *,
    requests: float = 2.0,
    decoding: float = 6.545,
    step: float = 0.060,
    of_baseline: float = 1.0,
    of_arm: float = 1.0,
) -> Series:
    """Return two sidecars, one beside a vLLM without speculation.

    The baseline decodes six requests at a time in steps of 25 ms: 240 steps and 240 tokens a second, 25 ms a
    token. The other's steps take 60 ms and give 2.2 tokens, 27.3 ms a token: 0.917 of the speed. Both serve two
    requests a second of 120 tokens after the first; so the slower one has 6.545 of them in decoding.
    """
    steps = decoding / step
    plain = {"decode_steps": 240, "decode_seconds": 6, "first_tokens": 2, "generation_tokens": 242}
    eagle = {
        "decode_steps": steps,
        "decode_seconds": decoding,
        "first_tokens": requests,
        "generation_tokens": 2.2 * steps + requests,
    }
    return {
        of(f"spec_decode_{name}_total", labels): counter((minutes, each * traffic))
        for labels, totals, traffic in ((PLAIN, plain, of_baseline), (EAGLE, eagle, of_arm))
        for name, each in totals.items()
    }


_SLOWER: Final = (
    "llama: arm eagle gives output tokens at 91.67% of the speed of arm baseline, over up to 30 minutes."
)

_ARMS: Final = (
    AlertCase(
        "SpecDecodeArmSlower",
        "fires when an arm takes 27.3 ms a token and the baseline 25 ms, at the same requests a second",
        arms(50),
        at=50,
        fires=(Firing({"model_name": "llama", "arm": "eagle"}, _SLOWER),),
    ),
    AlertCase(
        "SpecDecodeArmSlower",
        "fires when a balancer by load gives the slower arm half the requests, and as many at a time",
        arms(50, requests=1.0, decoding=6.0),
        at=50,
        fires=(Firing({"model_name": "llama", "arm": "eagle"}, _SLOWER),),
    ),
    AlertCase(
        "SpecDecodeArmSlower",
        "is silent when the arm serves five times the requests: the load is not comparable",
        arms(50, requests=10.0, decoding=32.7),
        at=50,
    ),
    AlertCase(
        "SpecDecodeArmSlower",
        "is silent at 25.8 ms a token",
        arms(50, step=0.0567, decoding=6.185),
        at=50,
    ),
    AlertCase(
        "SpecDecodeArmSlower",
        "is silent with 90 requests of the arm in half an hour",
        arms(50, of_baseline=0.03, of_arm=0.025),
        at=50,
    ),
    AlertCase(
        "SpecDecodeArmSlower",
        "is silent with 90 requests of the baseline in half an hour",
        arms(50, of_baseline=0.025, of_arm=0.03),
        at=50,
    ),
    AlertCase(
        "SpecDecodeArmSlower",
        "is silent when the baseline is gone",
        {name: values for name, values in arms(50).items() if "baseline" not in name},
        at=50,
    ),
)


def _last(
    accepted: float, action: str, minutes: float, *, configured: float = 4, **recommended: float
) -> Series:
    return {
        **drafting(minutes),
        of("spec_decode_position_accepted_tokens_total", position="3"): counter((minutes, accepted)),
        of("spec_decode_configured_tokens"): gauge((minutes, configured)),
        **{
            of("spec_decode_recommended_tokens", basis=basis): gauge((minutes, tokens))
            for basis, tokens in recommended.items()
        },
        **among("spec_decode_recommendation", "action", ACTIONS, action, minutes),
    }


def _lowered(accepted: float, minutes: float, action: str = "collect", **recommended: float) -> Series:
    """Return an engine whose K of six became four after an hour: what is not four's ends there, or stands still."""
    return {
        **_last(accepted, action, 60 + minutes, **recommended),
        of("spec_decode_configured_tokens"): gauge((60, 6), (minutes, 4)),
        **{
            of("spec_decode_position_accepted_tokens_total", position=position): counter(
                (60, 60), (minutes, 0)
            )
            for position in ("4", "5")
        },
        **{
            of("spec_decode_position_acceptance_ratio", window="5m", position=position): gauge(
                (60, 0.3), (minutes, None)
            )
            for position in ("4", "5")
        },
    }


def _raised() -> Series:
    """Return an engine whose K of three became four after an hour and a quarter."""
    name = of("spec_decode_position_accepted_tokens_total", position="3")
    return {
        **_last(40, "collect", 120),
        of("spec_decode_configured_tokens"): gauge((75, 3), (45, 4)),
        name: counter((75, 0), (45, 40)),
    }


def _position(share: str, recommended: int | None) -> Firing:
    """Return the alert about the last of four positions that is accepted in ``share`` of the drafts."""
    if recommended is None:
        action = "Set num_speculative_tokens one lower (now 4)."
    elif recommended:
        action = f"Set num_speculative_tokens to {recommended} (now 4)."
    else:
        action = "Restart without --speculative-config: num_speculative_tokens 0 (now 4)."
    return Firing(
        ENGINE, f"{_WHERE}the last position was accepted in {share} of the drafts of up to an hour.", action
    )


_DEPTH: Final = (
    AlertCase(
        "SpecDecodeLastPositionWasted",
        "fires when the last position is accepted in 1 draft of 20 and fewer are recommended",
        _last(10, "decrease", 80, measured=3),
        at=80,
        fires=(_position("5%", 3),),
    ),
    AlertCase(
        "SpecDecodeLastPositionWasted",
        "is silent where three are as good, and it is not worth a change by itself",
        _last(19, "keep", 80, measured=3),
        at=80,
    ),
    AlertCase(
        "SpecDecodeLastPositionWasted",
        "fires where it is better to draft nothing",
        _last(10, "disable", 80, measured=0),
        at=80,
        fires=(_position("5%", 0),),
    ),
    AlertCase(
        "SpecDecodeLastPositionWasted",
        "is silent about the counters of positions that are drafted no more, two hours after six became four",
        _lowered(70, 130),
        at=185,
    ),
    AlertCase(
        "SpecDecodeLastPositionWasted",
        "fires when the last of the positions that are left is wasted, two hours after six became four",
        _lowered(10, 130),
        at=185,
        fires=(_position("5%", None),),
    ),
    AlertCase(
        "SpecDecodeLastPositionWasted",
        "is silent in the hour after three became four, whose counter began in it",
        _raised(),
        at=100,
    ),
    AlertCase(
        "SpecDecodeLastPositionWasted",
        "fires with an unknown draft cost",
        _last(10, "decrease", 80),
        at=80,
        fires=(_position("5%", None),),
    ),
    AlertCase(
        "SpecDecodeLastPositionWasted",
        "is silent when the last position is accepted in 23 drafts of 100, though fewer are recommended",
        _last(46, "decrease", 80, measured=3),
        at=80,
    ),
    AlertCase(
        "SpecDecodeLastPositionWasted",
        "is silent when there is only one position",
        _last(10, "collect", 80, configured=1),
        at=80,
    ),
    AlertCase(
        "SpecDecodeLastPositionWasted",
        "is silent when drafting is so cheap that the last position pays all the same",
        _last(10, "keep", 80, measured=4),
        at=80,
    ),
    AlertCase(
        "SpecDecodeLastPositionWasted",
        "is silent with 720 drafts in the hour",
        {
            **_last(10, "decrease", 80, measured=3),
            of("spec_decode_drafts_total"): counter((80, 0.2)),
        },
        at=80,
    ),
    AlertCase(
        "SpecDecodeLongerDraftWorthTrying",
        "fires when the last position is accepted in 7 drafts of 20 and more are recommended",
        _last(70, "increase", 80, extrapolated=6),
        at=80,
        fires=(_position("35%", 6),),
    ),
    AlertCase(
        "SpecDecodeLongerDraftWorthTrying",
        "is silent when the last position is accepted in 1 draft of 4, though drafting is cheap",
        _last(50, "increase", 80, extrapolated=6),
        at=80,
    ),
    AlertCase(
        "SpecDecodeLongerDraftWorthTrying",
        "fires when six were drafted before, of which the counters stand still",
        _lowered(80, 130, "increase", extrapolated=6),
        at=185,
        fires=(_position("40%", 6),),
    ),
    AlertCase(
        "SpecDecodeLongerDraftWorthTrying",
        "is silent when four are as good as more",
        _last(70, "keep", 80, measured=4),
        at=80,
    ),
    AlertCase(
        "SpecDecodeLongerDraftWorthTrying",
        "is silent with 720 drafts in the hour",
        {
            **_last(70, "increase", 80, extrapolated=6),
            of("spec_decode_drafts_total"): counter((80, 0.2)),
        },
        at=80,
    ),
)

_ARM: Final = {**EXPORTER, "experiment": "drafter", "arm": "eagle", "baseline": "off"}
_OF_ARM: Final = {"basis": "time_per_output_token", "window": "5m"}


def _held(*phases: tuple[float, float | None, float | None], **more: str) -> Series:
    """Return the bounds of an arm's speed-up: minutes, and its lower and upper bound in them."""
    labels = {**_OF_ARM, **more}
    name = "spec_decode_experiment_speedup_ratio"
    return {
        of(f"{name}_lower", _ARM, **labels): gauge(*((minutes, lower) for minutes, lower, _ in phases)),
        of(f"{name}_upper", _ARM, **labels): gauge(*((minutes, upper) for minutes, _, upper in phases)),
    }


_LOST: Final = Firing(
    {**_ARM, **_OF_ARM},
    "Experiment drafter (gpu-1:7732): for 15 minutes arm eagle was at most 1.04 times as fast as off, by the time "
    "per output token and even at its upper 95 % bound; on the day before it was faster than that even at its "
    "lower one.",
)

_EXPERIMENT: Final = (
    AlertCase(
        "SpecDecodeExperimentArmLostItsGain",
        "fires when an arm that was faster for hours is as fast as the baseline",
        _held((180, 1.42, 1.55), (40, 0.98, 1.04)),
        at=205,
        fires=(_LOST,),
    ),
    AlertCase(
        "SpecDecodeExperimentArmLostItsGain",
        "is silent for the first minutes, which a window of five minutes cannot tell from the time before",
        _held((180, 1.42, 1.55), (40, 0.98, 1.04)),
        at=193,
    ),
    AlertCase(
        "SpecDecodeExperimentArmLostItsGain",
        "is silent while the arm is still significantly faster, though less than before",
        _held((180, 1.42, 1.55), (40, 1.1, 1.2)),
        at=215,
    ),
    AlertCase(
        "SpecDecodeExperimentArmLostItsGain",
        "is silent when it is only less sure than it was",
        _held((180, 1.42, 1.55), (40, 0.95, 1.6)),
        at=215,
    ),
    AlertCase(
        "SpecDecodeExperimentArmLostItsGain",
        "is silent about an arm that never had a gain",
        _held((180, 0.95, 1.01), (40, 0.7, 0.8)),
        at=215,
    ),
    AlertCase(
        "SpecDecodeExperimentArmLostItsGain",
        "is silent about an arm that was compared for an hour only",
        _held((60, 1.42, 1.55), (40, 0.98, 1.04)),
        at=95,
    ),
    AlertCase(
        "SpecDecodeExperimentArmLostItsGain",
        "is silent when the arms are idle, or under loads that differ: then nothing is compared",
        _held((180, 1.42, 1.55), (40, None, None)),
        at=215,
    ),
    AlertCase(
        "SpecDecodeExperimentArmLostItsGain",
        "is silent about the short window, and about other bases",
        {
            **_held((180, 1.42, 1.55), (40, 0.98, 1.04), window="30s"),
            **_held((180, 1.42, 1.55), (40, 0.98, 1.04), basis="end_to_end"),
        },
        at=215,
    ),
)


def _scheduled(*phases: tuple[float, float | None], window: str = "5m") -> Series:
    """Return an engine with a schedule and 9 running requests: minutes, and the share of polls in which K changed."""
    minutes = sum(length for length, _ in phases)
    return {
        of("spec_decode_schedule_change_ratio", window=window): gauge(*phases),
        of("spec_decode_running_requests", window="5m"): gauge((minutes, 9)),
    }


_FLIPS: Final = (
    AlertCase(
        "SpecDecodeScheduleFlips",
        "fires half an hour after the load came to a boundary",
        _scheduled((10, 0), (50, 0.5)),
        at=45,
        fires=(
            Firing(
                {**ENGINE, "window": "5m"},
                f"{_WHERE}the number of draft tokens changed in 50% of the polls of the last 15 minutes, at 9 running "
                "requests.",
            ),
        ),
    ),
    AlertCase(
        "SpecDecodeScheduleFlips",
        "is silent while load passes a boundary now and then",
        _scheduled((60, 0.2)),
        at=60,
    ),
    AlertCase(
        "SpecDecodeScheduleFlips",
        "is silent when load was at a boundary for ten minutes",
        _scheduled((20, 0), (10, 0.6), (30, 0)),
        at=32,
    ),
    AlertCase(
        "SpecDecodeScheduleFlips",
        "is over half an hour after the schedule was removed",
        _scheduled((40, 0.6), (40, None)),
        at=72,
    ),
    AlertCase(
        "SpecDecodeScheduleFlips",
        "is silent about the short window",
        _scheduled((60, 0.6), window="30s"),
        at=60,
    ),
)

PAY: Final = (*_SLOWDOWN, *_BREAK_EVEN, *_LENGTH, *_ARMS, *_EXPERIMENT, *_DEPTH, *_FLIPS)
