"""Tests of the alerts about the exporter itself."""

from __future__ import annotations

from typing import Final

from config.prometheus.generate.case import EXPORTER, TARGET, AlertCase, Firing, Series, counter, gauge, of
from config.prometheus.generate.cases.traffic import watched


def _polled(*, up: float) -> Series:
    """Return a target whose newest successful poll is of the tenth minute."""
    return {
        of("spec_decode_exporter_last_success_timestamp_seconds", TARGET): counter((10, 1), (10, 0)),
        of("spec_decode_exporter_target_up", TARGET): gauge((20, up)),
    }


_POLLS: Final = (
    AlertCase(
        "SpecDecodePollsStale",
        "fires when nothing was polled for eight minutes and nothing failed",
        _polled(up=1),
        at=18,
        fires=(
            Firing(
                TARGET,
                "chat (gpu-1:7732): the newest successful poll is 8m 0s old, and none has failed since.",
            ),
        ),
    ),
    AlertCase(
        "SpecDecodePollsStale",
        "leaves a server that is down to the alert about that",
        _polled(up=0),
        at=18,
    ),
    AlertCase(
        "SpecDecodePollsStale",
        "is silent while the newest poll is as old as the scrape, between two scrapes too",
        watched(20),
        at=17.75,
    ),
    AlertCase(
        "SpecDecodePollsSlow",
        "fires when answers take 1.5 s",
        {of("spec_decode_exporter_poll_seconds", TARGET): gauge((40, 1.5))},
        at=35,
        fires=(
            Firing(
                TARGET,
                "chat (gpu-1:7732): a poll took 1.5s on average over the last 15 minutes. The exporter therefore "
                "polls less often, and short windows contain few polls.",
            ),
        ),
    ),
    AlertCase(
        "SpecDecodePollsSlow",
        "is silent when answers took long once",
        {of("spec_decode_exporter_poll_seconds", TARGET): gauge((20, 0.004), (1, 4.0), (19, 0.004))},
        at=35,
    ),
)

_BUILD: Final = of("spec_decode_exporter_build_info", EXPORTER, version="0.1.0")

_THERE: Final = (
    AlertCase(
        "SpecDecodeExporterDown",
        "fires when an exporter that was scraped cannot be scraped",
        {of("up", EXPORTER): gauge((10, 1), (20, 0)), _BUILD: gauge((10, 1), (20, None))},
        at=20,
        fires=(
            Firing(
                EXPORTER,
                "gpu-1:7732 (job spec-decode): no scrape has succeeded for minutes. The state of its targets "
                "is unknown.",
            ),
        ),
    ),
    AlertCase(
        "SpecDecodeExporterDown",
        "is silent about the targets of other jobs",
        {
            of("up", {"job": "node", "instance": "gpu-1:9100"}): gauge((10, 1), (20, 0)),
            of("up", EXPORTER): gauge((30, 1)),
            _BUILD: gauge((30, 1)),
        },
        at=25,
    ),
    AlertCase(
        "SpecDecodeExporterDown",
        "is silent about another job's target of the same name in another cluster",
        {
            of("up", EXPORTER, cluster="a"): gauge((10, 1), (20, 0)),
            of("up", EXPORTER, cluster="b"): gauge((30, 1)),
            of("spec_decode_exporter_build_info", EXPORTER, cluster="b", version="0.1.0"): gauge((30, 1)),
        },
        at=25,
    ),
    AlertCase(
        "SpecDecodeExporterDown",
        "is silent when a scrape fails once in a while",
        {
            of("up", EXPORTER): gauge((10, 1), (1, 0), (10, 1), (1, 0), (8, 1)),
            _BUILD: gauge((10, 1), (1, None), (10, 1), (1, None), (8, 1)),
        },
        at=23,
    ),
    AlertCase(
        "SpecDecodeExporterAbsent",
        "fires when Prometheus has never heard of one",
        {of("up", {"job": "node", "instance": "gpu-1:9100"}): gauge((20, 1))},
        at=15,
        fires=(
            Firing(
                {},
                "No exporter has been scraped for minutes: speculation is not watched, and every other SpecDecode "
                "alert is silent.",
            ),
        ),
    ),
    AlertCase("SpecDecodeExporterAbsent", "is silent while one is scraped", {_BUILD: gauge((20, 1))}, at=20),
)

_NOT_READ: Final = "gpu-1:7732: the last reload of the configuration file, or of --web.config.file, failed. The exporter's log names the line."
_WEB_LOADED: Final = of("spec_decode_exporter_web_config_last_reload_successful", EXPORTER)
_LOADED: Final = of("spec_decode_exporter_config_last_reload_successful", EXPORTER)
_WEB: Final = of(
    "spec_decode_exporter_web_info", EXPORTER, external_url="https://monitoring.example.com/spec-decode"
)

_RELOADS: Final = (
    AlertCase(
        "SpecDecodeReloadFailed",
        "fires when a reload failed, also over a scrape that fails",
        {_LOADED: gauge((10, 1), (6, 0), (2, None), (12, 0))},
        at=27,
        fires=(
            Firing(
                EXPORTER,
                _NOT_READ,
            ),
        ),
    ),
    AlertCase(
        "SpecDecodeReloadFailed",
        "fires when the web side's file could not be read while the configuration was",
        {_LOADED: gauge((30, 1)), _WEB_LOADED: gauge((10, 1), (20, 0))},
        at=27,
        fires=(Firing(EXPORTER, _NOT_READ),),
    ),
    AlertCase(
        "SpecDecodeReloadFailed",
        "links to the runbook at the address that Prometheus scrapes",
        {_LOADED: gauge((10, 1), (20, 0)), _BUILD: gauge((30, 1))},
        at=27,
        fires=(Firing(EXPORTER, _NOT_READ, exporter="http://gpu-1:7732"),),
    ),
    AlertCase(
        "SpecDecodeReloadFailed",
        "links to the runbook at the external URL of an exporter",
        {_LOADED: gauge((10, 1), (20, 0)), _BUILD: gauge((30, 1)), _WEB: gauge((30, 1))},
        at=27,
        fires=(Firing(EXPORTER, _NOT_READ, exporter="https://monitoring.example.com/spec-decode"),),
    ),
    AlertCase(
        "SpecDecodeReloadFailed",
        "is silent when the next reload succeeds",
        {_LOADED: gauge((10, 1), (5, 0), (15, 1))},
        at=27,
    ),
)

EXPORTERS: Final = (*_POLLS, *_THERE, *_RELOADS)
