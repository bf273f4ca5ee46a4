"""Tests of the alerts about whether the server is there, and its counters can be trusted."""

from __future__ import annotations

from typing import Final

from config.prometheus.generate.case import ENGINE, TARGET, AlertCase, Firing, Series, counter, gauge, of
from config.prometheus.generate.cases.traffic import CHECKS, REASONS

_WHERE: Final = "llama on chat (engine 0, gpu-1:7732): "


def _up(*phases: tuple[float, float]) -> Series:
    return {of("spec_decode_exporter_target_up", TARGET): gauge(*phases)}


_DOWN: Final = Firing(
    TARGET,
    "chat (gpu-1:7732): no poll has succeeded for minutes. Either the server was up before, or it has not come up "
    "within 20m.",
)

_TARGETS: Final = (
    AlertCase(
        "SpecDecodeTargetDown",
        "fires when a server that was up is down for minutes",
        _up((30, 1), (10, 0)),
        at=37,
        fires=(_DOWN,),
    ),
    AlertCase(
        "SpecDecodeTargetDown",
        "fires when a new server was up for ten minutes and is down",
        _up((10, 1), (10, 0)),
        at=17,
        fires=(_DOWN,),
    ),
    AlertCase(
        "SpecDecodeTargetDown",
        "fires when a server has not come up in 25 minutes",
        _up((30, 0)),
        at=25,
        fires=(_DOWN,),
    ),
    AlertCase(
        "SpecDecodeTargetDown",
        "goes on when it has been down for ten hours",
        _up((30, 1), (610, 0)),
        at=630,
        fires=(_DOWN,),
    ),
    AlertCase("SpecDecodeTargetDown", "is silent while a model loads for 15 minutes", _up((15, 0)), at=15),
    AlertCase(
        "SpecDecodeTargetDown",
        "is silent when a server is away for two minutes",
        _up((30, 1), (2, 0), (10, 1)),
        at=35,
    ),
)


def _engines(*phases: tuple[float, float | None]) -> Series:
    return {of("spec_decode_exporter_target_engines", TARGET): gauge(*phases)}


_WITHOUT_ENGINE: Final = (
    AlertCase(
        "SpecDecodeTargetWithoutEngine",
        "fires when a page has had no engine for five minutes",
        _engines((20, 0)),
        at=8,
        fires=(
            Firing(
                TARGET,
                "chat (gpu-1:7732): its page was read for minutes and has no engine; its speculation is not "
                "watched.",
            ),
        ),
    ),
    AlertCase(
        "SpecDecodeTargetWithoutEngine",
        "is silent while the page has had no engine for four minutes",
        _engines((10, 1), (4, 0), (10, 1)),
        at=14,
    ),
    AlertCase(
        "SpecDecodeTargetWithoutEngine",
        "leaves a server that is down to the alert about that",
        {**_engines((10, 1), (20, None)), **_up((10, 1), (20, 0))},
        at=12,
    ),
)


def _resets(restarts: float, decreases: float, one_server: float = 1) -> Series:
    """Return N resets a second, after ten quiet minutes."""
    return {
        of("spec_decode_engine_resets_total", cause="restart"): counter((10, 0), (20, restarts)),
        of("spec_decode_engine_resets_total", cause="decrease"): counter((10, 0), (20, decreases)),
        of("spec_decode_consistent", check="one_server"): gauge((10, 1), (20, one_server)),
    }


def _teeth(resets: int) -> Firing:
    return Firing(
        ENGINE,
        f"{_WHERE}its counters reset {resets} times in up to 10 minutes. Causes are one address for several servers, "
        "or a server that crashes in a loop.",
    )


_SAW: Final = (
    AlertCase(
        "SpecDecodeCountersSawTooth",
        "fires when every other poll meets another server",
        _resets(0, 0.5),
        at=26,
        fires=(_teeth(300),),
    ),
    AlertCase(
        "SpecDecodeCountersSawTooth",
        "fires when creation times come back, however seldom",
        _resets(1 / 120, 0, one_server=0),
        at=26,
        fires=(_teeth(5),),
    ),
    AlertCase(
        "SpecDecodeCountersSawTooth",
        "is silent when a server restarts every three minutes",
        _resets(1 / 180, 0),
        at=26,
    ),
)


def _checks(broken: str, value: float) -> Series:
    return {
        of("spec_decode_consistent", check=check): gauge((10, 1), (20, value if check == broken else 1))
        for check in CHECKS
    }


_IDENTITIES: Final = (
    AlertCase(
        "SpecDecodeCountersInconsistent",
        "fires when the positions do not add up",
        _checks("positions_add_up", 0),
        at=20,
        fires=(
            Firing(
                {**ENGINE, "check": "positions_add_up"},
                f"{_WHERE}the identity positions_add_up is broken. Figures computed from these counters are wrong; the "
                "exporter's log has the difference.",
            ),
        ),
    ),
    AlertCase("SpecDecodeCountersInconsistent", "is silent while all hold", _checks("", 1), at=20),
    AlertCase(
        "SpecDecodeCountersInconsistent",
        "leaves several servers behind one address to the alert about that",
        _checks("one_server", 0),
        at=20,
    ),
)


def _polls(failing: float, up: float = 1) -> Series:
    return {
        of("spec_decode_exporter_polls_total", TARGET): counter((50, 1)),
        **{
            of("spec_decode_exporter_poll_failures_total", TARGET, reason=reason): counter(
                (50, failing if reason == "timeout" else 0)
            )
            for reason in REASONS
        },
        of("spec_decode_exporter_target_up", TARGET): gauge((50, up)),
    }


_POLLS: Final = (
    AlertCase(
        "SpecDecodePollsFailing",
        "fires when three polls of ten time out",
        _polls(0.3),
        at=45,
        fires=(
            Firing(
                TARGET,
                "chat (gpu-1:7732): 30% of the polls of the last 15 minutes failed. Windows have gaps.",
            ),
        ),
    ),
    AlertCase("SpecDecodePollsFailing", "is silent when one of twenty does", _polls(0.05), at=45),
    AlertCase(
        "SpecDecodePollsFailing",
        "leaves a server that is down to the alert about that",
        _polls(1, up=0),
        at=45,
    ),
)

TRUST: Final = (*_TARGETS, *_WITHOUT_ENGINE, *_SAW, *_IDENTITIES, *_POLLS)
