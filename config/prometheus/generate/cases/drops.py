"""Tests of the alerts about acceptance that drops, and drafting that stops."""

from __future__ import annotations

from typing import Final

from config.prometheus.generate.case import ENGINE, AlertCase, Firing, Gauge, Series, counter, gauge, of
from config.prometheus.generate.cases.traffic import STATES, among, described

_WHERE: Final = "llama on chat (engine 0, gpu-1:7732): "


def _dropped(kind: str, flag: Gauge, short: Gauge, minutes: float) -> Series:
    return {
        of("spec_decode_acceptance_dropped", kind=kind): flag,
        of("spec_decode_acceptance_length_tokens", window="30s"): short,
        of("spec_decode_acceptance_length_tokens", window="5m"): short,
        of("spec_decode_baseline_acceptance_length_tokens"): gauge((minutes, 2.10)),
    }


_SUDDEN: Final = (
    AlertCase(
        "SpecDecodeSuddenDrop",
        "fires two minutes after the exporter's flag at the latest, at any scrape interval",
        _dropped("sudden", gauge((10, 0), (5, 1)), gauge((10, 2.10), (5, 1.42)), 15),
        at=12,
        fires=(
            Firing(
                {**ENGINE, "kind": "sudden"},
                f"{_WHERE}a draft gives 1.42 tokens over the last 30s, and gave 2.10 before.",
            ),
        ),
    ),
    AlertCase(
        "SpecDecodeSuddenDrop",
        "goes on when the drop ends in a stall and the series with it",
        _dropped("sudden", gauge((10, 0), (2, 1), (6, None)), gauge((10, 2.10), (2, 1.42), (6, None)), 18),
        at=17,
        # As it stood when the flag was last known.
        fires=(
            Firing(
                {**ENGINE, "kind": "sudden"},
                f"{_WHERE}a draft gives unknown tokens over the last 30s, and gave 2.10 before.",
            ),
        ),
    ),
    AlertCase(
        "SpecDecodeSuddenDrop",
        "is over six minutes after acceptance is back",
        _dropped("sudden", gauge((10, 0), (5, 1), (10, 0)), gauge((10, 2.10), (5, 1.42), (10, 2.08)), 25),
        at=21.5,
    ),
    AlertCase(
        "SpecDecodeSuddenDrop",
        "is silent when acceptance sways around its baseline",
        _dropped("sudden", gauge((20, 0)), gauge((5, 2.10), (5, 1.95), (5, 2.25), (5, 2.05)), 20),
        at=15,
    ),
    AlertCase(
        "SpecDecodeSuddenDrop",
        "is silent when the flag is taken back within a minute",
        _dropped("sudden", gauge((10, 0), (1, 1), (5, 0)), gauge((10, 2.10), (1, 1.9), (5, 2.10)), 16),
        at=11,
    ),
    AlertCase(
        "SpecDecodeSuddenDrop",
        "is silent when the engine drafts less, and drafts are accepted as before",
        _dropped("drafting", gauge((10, 0), (5, 1)), gauge((15, 2.10)), 15),
        at=15,
    ),
    AlertCase(
        "SpecDecodeSuddenDrop",
        "is silent when the drop is a slow one",
        _dropped("slow", gauge((10, 0), (5, 1)), gauge((10, 2.10), (5, 1.75)), 15),
        at=15,
    ),
)


def _drafting(flag: Gauge, covered: Gauge, tokens: Gauge) -> Series:
    return {
        of("spec_decode_acceptance_dropped", kind="drafting"): flag,
        of("spec_decode_coverage_ratio", window="30s"): covered,
        of("spec_decode_effective_tokens_per_step", window="30s"): tokens,
    }


_DRAFTING: Final = (
    AlertCase(
        "SpecDecodeDraftingDropped",
        "fires two minutes after the exporter's flag at the latest, at any scrape interval",
        _drafting(gauge((10, 0), (5, 1)), gauge((10, 0.42), (5, 0.01)), gauge((10, 1.90), (5, 1.02))),
        at=12,
        fires=(
            Firing(
                {**ENGINE, "kind": "drafting"},
                f"{_WHERE}over the last 30s, 1% of the decode steps had a draft, and a step gave 1.02 tokens.",
            ),
        ),
    ),
    AlertCase(
        "SpecDecodeDraftingDropped",
        "is over six minutes after drafts are back",
        _drafting(
            gauge((10, 0), (5, 1), (10, 0)),
            gauge((10, 0.42), (5, 0.01), (10, 0.41)),
            gauge((10, 1.90), (5, 1.02), (10, 1.88)),
        ),
        at=21.5,
    ),
    AlertCase(
        "SpecDecodeDraftingDropped",
        "is silent when the flag is taken back within a minute",
        _drafting(
            gauge((10, 0), (1, 1), (5, 0)),
            gauge((10, 0.42), (1, 0.2), (5, 0.40)),
            gauge((10, 1.90), (1, 1.5), (5, 1.85)),
        ),
        at=11,
    ),
    AlertCase(
        "SpecDecodeDraftingDropped",
        "is silent when drafts are accepted less, which is a sudden drop",
        _dropped("sudden", gauge((10, 0), (5, 1)), gauge((10, 2.10), (5, 1.42)), 15),
        at=15,
    ),
)

_SLOW: Final = (
    AlertCase(
        "SpecDecodeSlowDrift",
        "fires a quarter of an hour after the exporter's flag",
        _dropped("slow", gauge((10, 0), (20, 1)), gauge((10, 2.10), (20, 1.75)), 30),
        at=27,
        fires=(
            Firing(
                {**ENGINE, "kind": "slow"},
                f"{_WHERE}a draft gives 1.75 tokens over the last 5m, and is well below its value of some hours ago. "
                "Some server defects cause this until a restart.",
            ),
        ),
    ),
    AlertCase(
        "SpecDecodeSlowDrift",
        "is silent when the flag lasts ten minutes",
        _dropped("slow", gauge((10, 0), (10, 1), (10, 0)), gauge((30, 2.0)), 30),
        at=30,
    ),
)


def _flags(*dropped: float, kind: str = "sudden", minutes: float = 4, **labels: str) -> Series:
    return {
        of("spec_decode_acceptance_dropped", {**ENGINE, "engine": str(number), **labels}, kind=each): (
            gauge((10, 0), (minutes, flag if each == kind else 0), (10, 0))
        )
        for number, flag in enumerate(dropped)
        for each in ("sudden", "slow")
    }


_LOCAL: Final = ("localhost:8000", "localhost:8000", "[::1]:8000", "[::1]:8000")

_MANY: Final = Firing(
    {"job": "spec-decode", "model_name": "llama"},
    "llama: acceptance has dropped on 50% of its engines that have a baseline, at the same time. They share "
    "the workload, the model and its drafter.",
)


_TOGETHER: Final = (
    AlertCase(
        "SpecDecodeModelAcceptanceDropped",
        "fires when two engines of four drop together",
        _flags(1, 0, 1, 0),
        at=13,
        fires=(_MANY,),
    ),
    AlertCase(
        "SpecDecodeModelAcceptanceDropped",
        "fires when the servers of two sidecars of four drop, each called localhost by its own",
        {
            name: values
            for number, flag in enumerate((1, 0, 1, 0))
            for name, values in _flags(flag, instance=f"10.0.0.{number}:7732", target=_LOCAL[number]).items()
        },
        at=13,
        fires=(_MANY,),
    ),
    AlertCase(
        "SpecDecodeModelAcceptanceDropped", "is silent when one of four drops", _flags(1, 0, 0, 0), at=13
    ),
    AlertCase(
        "SpecDecodeModelAcceptanceDropped", "is silent when two of five drop", _flags(1, 0, 1, 0, 0), at=13
    ),
    AlertCase("SpecDecodeModelAcceptanceDropped", "is silent when the only one drops", _flags(1), at=13),
    AlertCase(
        "SpecDecodeModelAcceptanceDropped",
        "is silent when the only one drops and two exporters see it",
        {**_flags(1), **_flags(1, instance="gpu-2:7732")},
        at=13,
    ),
    AlertCase(
        "SpecDecodeModelAcceptanceDropped",
        "is silent when all of them drift slowly",
        _flags(1, 1, 1, 1, kind="slow"),
        at=13,
    ),
    AlertCase(
        "SpecDecodeModelAcceptanceDropped",
        "is silent when the flags are taken back within a minute",
        _flags(1, 1, 1, 1, minutes=1),
        at=11,
    ),
)


def _fleet(
    *accepted: float,
    minutes: float,
    drafts: float = 200.0,
    tokens: tuple[int, ...] = (4, 4, 4, 4),
    instance: str = ENGINE["instance"],
) -> Series:
    series: Series = {}
    for number, each in enumerate(accepted):
        labels = {**ENGINE, "engine": str(number), "instance": instance}
        series = {
            **series,
            **described(minutes, labels, tokens=tokens[number]),
            of("spec_decode_drafts_total", labels): counter((minutes, drafts)),
            of("spec_decode_accepted_tokens_total", labels): counter((minutes, each * drafts)),
        }
    return series


_LIKE: Final = {"method": "eagle3", "draft_model": "llama-eagle3", "tokens": "4"}

_PEERS: Final = (
    AlertCase(
        "SpecDecodeEngineBelowPeers",
        "fires for the engine at 2.40 when the others are at 3.30, 3.30 and 3.20",
        # The median of 2.40 3.20 3.30 3.30 is 3.25, and 2.40 is 0.7385 of it.
        _fleet(2.3, 2.3, 2.2, 1.4, minutes=66),
        at=66,
        fires=(
            Firing(
                {**ENGINE, "engine": "3", **_LIKE},
                "llama on chat (engine 3, gpu-1:7732): the acceptance length of the last 30 minutes is 73.85% of the "
                "median of the engines with the same model, method and draft tokens.",
            ),
        ),
    ),
    AlertCase(
        "SpecDecodeEngineBelowPeers",
        "is silent at 3.00 of 3.25",
        _fleet(2.3, 2.3, 2.2, 2.0, minutes=66),
        at=66,
    ),
    AlertCase(
        "SpecDecodeEngineBelowPeers",
        "is silent when the other drafts fewer tokens and is no peer",
        _fleet(2.3, 2.3, 2.2, 1.4, minutes=66, tokens=(4, 4, 4, 2)),
        at=66,
    ),
    AlertCase(
        "SpecDecodeEngineBelowPeers",
        "is silent among two: the correct one is unknown",
        _fleet(2.3, 1.4, minutes=66),
        at=66,
    ),
    AlertCase(
        "SpecDecodeEngineBelowPeers",
        "is silent among two that two exporters watch",
        {**_fleet(2.3, 1.4, minutes=66), **_fleet(2.3, 1.4, minutes=66, instance="gpu-2:7732")},
        at=66,
    ),
    AlertCase(
        "SpecDecodeEngineBelowPeers",
        "is silent at two drafts a second, 3600 in half an hour",
        _fleet(2.3, 2.3, 2.2, 1.4, minutes=66, drafts=2),
        at=66,
    ),
    AlertCase(
        "SpecDecodeEngineBelowPeers",
        "is silent about an engine with 3600 drafts in half an hour, however busy the others are",
        {
            **_fleet(2.3, 2.3, 2.2, 1.4, minutes=66),
            of("spec_decode_drafts_total", {**ENGINE, "engine": "3"}): counter((66, 2)),
            of("spec_decode_accepted_tokens_total", {**ENGINE, "engine": "3"}): counter((66, 2.8)),
        },
        at=66,
    ),
)


def _since_yesterday(accepted: float, *, before: float = 460.0) -> Series:
    """Return one engine over 26 hours, of which the last two hours are today."""
    return {
        **described(1560),
        of("spec_decode_drafts_total"): counter((1560, 200)),
        of("spec_decode_accepted_tokens_total"): counter((1440, before), (120, accepted)),
    }


_YESTERDAY: Final = (
    AlertCase(
        "SpecDecodeModelBelowYesterday",
        "fires at 2.50 tokens a draft when it was 3.30 yesterday",
        _since_yesterday(300),
        at=1558,
        fires=(
            Firing(
                {"job": "spec-decode", "model_name": "llama", **_LIKE},
                "llama (eagle3, 4 draft tokens): the acceptance length of the last hour is 75.76% of what it was in "
                "the same hour yesterday, over all engines.",
            ),
        ),
    ),
    AlertCase(
        "SpecDecodeModelBelowYesterday",
        "is silent at 3.10 when it was 3.30 yesterday",
        _since_yesterday(420),
        at=1558,
    ),
    AlertCase(
        "SpecDecodeModelBelowYesterday",
        "is silent by 7200 drafts in today's hour",
        {
            **_since_yesterday(3),
            of("spec_decode_drafts_total"): counter((1440, 200), (120, 2)),
        },
        at=1558,
    ),
    AlertCase(
        "SpecDecodeModelBelowYesterday",
        "is silent by 7200 drafts in yesterday's hour",
        {
            **_since_yesterday(300, before=4.6),
            of("spec_decode_drafts_total"): counter((1440, 2), (120, 200)),
        },
        at=1558,
    ),
    AlertCase(
        "SpecDecodeModelBelowYesterday",
        "is silent on the first day, however low",
        _since_yesterday(20, before=20),
        at=1400,
    ),
)


def _referred(
    reference: float | None, *upper: tuple[float, float | None], drafts: float = 200.0, minutes: float = 40
) -> Series:
    """Return an engine with a reference, and the upper bound of its acceptance rate in each phase."""
    return {
        of("spec_decode_reference_acceptance_ratio"): gauge((minutes, reference)),
        of("spec_decode_draft_acceptance_ratio_upper", window="5m"): gauge(*upper),
        # The short window is less sure, and is not what is gone by.
        of("spec_decode_draft_acceptance_ratio_upper", window="30s"): gauge((minutes, 0.9)),
        of("spec_decode_drafts_total"): counter((minutes, drafts)),
    }


_REFERENCE: Final = (
    AlertCase(
        "SpecDecodeAcceptanceBelowReference",
        "fires when the upper bound is at 0.65 for a quarter of an hour and the reference is 0.72",
        _referred(0.72, (10, 0.74), (30, 0.65)),
        at=31,
        fires=(
            Firing(
                ENGINE,
                f"{_WHERE}for at least 5m at most 65% of the draft tokens were accepted even at the upper 95 % bound; "
                "the reference is 72%.",
            ),
        ),
    ),
    AlertCase(
        "SpecDecodeAcceptanceBelowReference",
        "is silent for the first minutes after a fall",
        _referred(0.72, (10, 0.74), (30, 0.65)),
        at=23,
    ),
    AlertCase(
        "SpecDecodeAcceptanceBelowReference",
        "is silent when the fall is of less than 5 points",
        _referred(0.72, (40, 0.68)),
        at=40,
    ),
    AlertCase(
        "SpecDecodeAcceptanceBelowReference",
        "is silent when chance takes the bound up again every few minutes",
        _referred(0.72, (8, 0.65), (1, 0.68), (8, 0.65), (1, 0.68), (8, 0.65), (1, 0.68), (8, 0.65)),
        at=35,
    ),
    AlertCase(
        "SpecDecodeAcceptanceBelowReference",
        "is silent where no reference is configured, or it is of another number of draft tokens",
        _referred(None, (40, 0.3)),
        at=40,
    ),
    AlertCase(
        "SpecDecodeAcceptanceBelowReference",
        "is silent where too few requests pass through for bounds",
        _referred(0.72, (40, None)),
        at=40,
    ),
    AlertCase(
        "SpecDecodeAcceptanceBelowReference",
        "is silent at 240 drafts in ten minutes",
        _referred(0.72, (40, 0.65), drafts=0.4),
        at=40,
    ),
    AlertCase(
        "SpecDecodeAcceptanceBelowReference",
        "is over once the engine has been idle for a quarter of an hour",
        {
            **_referred(0.72, (20, 0.65), (40, None), minutes=60),
            of("spec_decode_drafts_total"): counter((20, 200), (40, 0)),
        },
        at=55,
    ),
)

_STALLED: Final = (
    AlertCase(
        "SpecDecodeDraftsStalled",
        "fires when an engine generates and has stopped drafting",
        {
            **among("spec_decode_state", "state", STATES, "active", 20),
            of("spec_decode_state", state="active"): gauge((10, 1), (10, 0)),
            of("spec_decode_state", state="stalled"): gauge((10, 0), (10, 1)),
            of("spec_decode_generation_tokens_per_second", window="30s"): gauge((20, 241)),
        },
        at=10.5,
        fires=(
            Firing(
                {**ENGINE, "state": "stalled"},
                f"{_WHERE}it drafted before, and drafted nothing for two minutes or more while it generated 241 tokens a second.",
            ),
        ),
    ),
    AlertCase(
        "SpecDecodeDraftsStalled",
        "is silent while speculation is switched off",
        among("spec_decode_state", "state", STATES, "disabled", 20),
        at=20,
    ),
)


def _dead(drafts: float, *accepted: tuple[float, float]) -> Series:
    return {
        of("spec_decode_drafts_total"): counter((30, drafts)),
        of("spec_decode_accepted_tokens_total"): counter(*accepted),
    }


_DEAD: Final = (
    AlertCase(
        "SpecDecodeDrafterDead",
        "fires when nothing has been accepted for a while",
        _dead(200, (10, 460), (20, 0)),
        at=24,
        fires=(
            Firing(
                ENGINE,
                f"{_WHERE}120000 drafts in up to 10 minutes, and no draft token was accepted. Every draft costs time.",
            ),
        ),
    ),
    AlertCase(
        "SpecDecodeDrafterDead",
        "is silent when one draft token in a hundred is accepted",
        _dead(200, (30, 8)),
        at=30,
    ),
    AlertCase(
        "SpecDecodeDrafterDead",
        "is silent when hardly anything is drafted: 240 in ten minutes",
        _dead(0.4, (30, 0)),
        at=30,
    ),
)


def _first(accepted: float, drafts: float = 200.0) -> Series:
    return {
        of("spec_decode_drafts_total"): counter((70, drafts)),
        of("spec_decode_position_accepted_tokens_total", position="0"): counter((70, accepted * drafts)),
        of("spec_decode_position_accepted_tokens_total", position="1"): counter(
            (70, 0.9 * accepted * drafts)
        ),
    }


_REPETITION: Final = (
    AlertCase(
        "SpecDecodeFirstPositionNearOne",
        "fires when 199 of 200 first tokens are accepted for an hour",
        _first(0.995),
        at=66,
        fires=(
            Firing(
                ENGINE,
                f"{_WHERE}the first position was accepted in 99.5% of the drafts of the last 30 minutes.",
            ),
        ),
    ),
    AlertCase(
        "SpecDecodeFirstPositionNearOne", "is silent with a very good drafter: 0.95", _first(0.95), at=66
    ),
    AlertCase(
        "SpecDecodeFirstPositionNearOne",
        "is silent with 720 drafts in half an hour",
        _first(0.995, drafts=0.4),
        at=66,
    ),
)

DROPS: Final = (
    *_SUDDEN,
    *_DRAFTING,
    *_SLOW,
    *_TOGETHER,
    *_PEERS,
    *_YESTERDAY,
    *_REFERENCE,
    *_STALLED,
    *_DEAD,
    *_REPETITION,
)
