"""The shipped alerts on what the exporter says of simulated servers, by promtool and a faster clock.

Each case lives through hours in seconds (``faster_clock``), and promtool, with every shipped rule loaded, says which
alerts fired when. An alert that fires without being named in its case is a failure, as is one that does not fire.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml

from tests.e2e.faster_clock import (
    SCRAPED,
    AnswersOfAnother,
    ContradictoryAnswers,
    NoMoreAnswers,
    Run,
    Server,
    SlowAnswers,
    SomeAnswers,
    record,
)
from tests.paths import CHECKOUT

PROMETHEUS = CHECKOUT / "config" / "prometheus"
SHIPPED = yaml.safe_load((PROMETHEUS / "prometheus.yml").read_text(encoding="utf-8"))
RULES = sorted(str(path) for pattern in SHIPPED["rule_files"] for path in PROMETHEUS.glob(pattern))
TEXT = "".join(Path(path).read_text(encoding="utf-8") for path in RULES)
ALERTS = frozenset(re.findall(r"- alert: (\w+)", TEXT))
NAMES = frozenset(re.findall(r"\b(?:spec_decode_\w+|up)\b", TEXT))
"""Every series that a rule may mean; the others are not written down."""

EAGLE = {"speculative": {"method": "eagle3"}, "cost": {"draft_cost_ratio": 0.05}}
DEAR = {"speculative": {"method": "draft_model"}, "cost": {"draft_cost_ratio": 0.3}}
DEAREST = {
    "speculative": {"method": "draft_model"},
    "cost": {"draft_cost_ratio": 0.6, "running_requests": 8},
}
UNKNOWN = {}
SMALL = {"machine": {"step": "100ms"}, "load": {"concurrency": 8}}
"""A large model with few clients: hours of it are simulated in seconds."""


def accepts(mean, spread=0.05, decay=0.95):
    return {"acceptance": {"mean": mean, "spread": spread, "decay": decay}}


MIX = [
    {"request_type": "chat", "temperature": 0, "share": 6},
    {"request_type": "creative", "temperature": 1, "share": 4, "acceptance": {"mean": 0.68, "decay": 0.92}},
]
"""As in the scenario ``mixed``, with more of each: there are few clients here."""
SCHEDULE = [[1, 6, 4], [7, 96, 0]]
GARBLED = [
    {"request_type": "chat", "temperature": 0, "share": 1},
    {"request_type": "chat", "temperature": 1, "share": 1, "acceptance": {"mean": 0.01, "spread": 0}},
]


def server(name, scenario="steady", told=EAGLE, **changes):
    return Server(name, scenario, {**SMALL, **changes}, told)


@dataclass(frozen=True)
class Fires:
    """An alert that must fire. Moments are minutes."""

    alert: str
    by: float
    target: str = ""
    over: float | None = None
    """When it must be over; None: not while the case lasts."""
    kind: str = ""
    """Of an alert with several rules."""


@dataclass(frozen=True)
class Case:
    runs: tuple[Run, ...]
    fires: tuple[Fires, ...] = ()
    evaluation: int = 15
    """Seconds between evaluations of the rules."""
    since: float = 0
    """The minute at which things begin to go wrong: no alert before."""
    also: frozenset[str] = field(default_factory=frozenset)
    """Alerts that may fire besides, of which nothing else is said; most are inhibited by those that must."""


LOW = {"SpecDecodeAcceptanceLow", "SpecDecodeWrongDraftLength"}

CASES = {
    "hours in which nothing is wrong": Case(
        (
            Run(
                (
                    server("chat"),
                    server("code", "ngram", {"speculative": {"method": "ngram"}}),
                    server("unknown", told=UNKNOWN),
                    server("rust", "rust", phases=[{"at": "30s", "load": {"concurrency": 8}}]),
                    Server("night", "idle", {"machine": SMALL["machine"]}, EAGLE),
                    server("off", told=UNKNOWN, speculation={"tokens": 0}),
                ),
                minutes=100,
            ),
        )
    ),
    "restarts, with other numbers of draft tokens and with none": Case(
        (
            Run(
                (server("chat", "restart"), server("code", "k-change"), server("batch", "off")),
                minutes=60,
            ),
        )
    ),
    "a server that speculates no more after a restart": Case(
        (Run((server("chat", phases=[{"at": "10m", "restart": {"down": "5s", "tokens": 0}}]),), minutes=60),),
        (Fires("SpecDecodeSwitchedOff", 30),),
        since=10,
    ),
    "a sudden drop": Case(
        (Run((Server("chat", "drop", {"repeat": None}, EAGLE),), minutes=14, poll="1s"),),
        (Fires("SpecDecodeSuddenDrop", 3.5, "chat", over=11),),
        since=2,
    ),
    "less accepted than the reference says": Case(
        (
            Run(
                (server("chat", told={**EAGLE, "reference": {"acceptance_ratio": 0.8}}, **accepts(0.6)),),
                minutes=40,
            ),
        ),
        (Fires("SpecDecodeAcceptanceBelowReference", 30, "chat"),),
    ),
    "a model that drops on all its engines": Case(
        (
            Run(
                (
                    Server(
                        "big",
                        "dp8",
                        {
                            "engines": 3,
                            "load": {"concurrency": 36},
                            "machine": {"step": "50ms"},
                            "phases": [
                                {"at": "4m", "acceptance": {"mean": 0.4}},
                                {"at": "8m", "acceptance": {"mean": 0.75}},
                            ],
                            "repeat": None,
                        },
                        EAGLE,
                    ),
                ),
                minutes=27,
                poll="1s",
            ),
        ),
        (
            Fires("SpecDecodeModelAcceptanceDropped", 6, over=26),
            Fires("SpecDecodeSuddenDrop", 6, "big", over=16),
        ),
        since=4,
    ),
    "acceptance that wears away over hours": Case(
        (Run((server("chat", "slow-drift", repeat=None),), minutes=190, poll="10s"),),
        (Fires("SpecDecodeSlowDrift", 185, "chat"),),
        since=30,
        also=frozenset({"SpecDecodeWrongDraftLength"}),
    ),
    "one engine below its peers": Case(
        (
            Run(
                tuple(server(f"chat-{number}", **accepts(0.75 if number else 0.5)) for number in range(4)), 75
            ),
        ),
        (Fires("SpecDecodeEngineBelowPeers", 65, "chat-0"),),
        also=frozenset({"SpecDecodeWrongDraftLength"}),
    ),
    "drafts that stop": Case(
        (Run((server("chat", "stalled", repeat=None),), minutes=22),),
        (Fires("SpecDecodeDraftsStalled", 10, "chat", over=20),),
        since=2,
    ),
    "a drafter of which nothing is accepted": Case(
        (Run((server("chat", **accepts(0, 0)),), minutes=12),),
        (Fires("SpecDecodeDrafterDead", 3, "chat"),),
        also=frozenset({"SpecDecodeNetSlowdown", *LOW}),
    ),
    "a drafter that costs more than it gives": Case(
        (Run((server("batch", "harmful", DEAR),), minutes=75),),
        (
            Fires("SpecDecodeNetSlowdown", 15, "batch"),
            Fires("SpecDecodeAcceptanceLow", 70, "batch", kind="break_even"),
        ),
        also=frozenset({"SpecDecodeWrongDraftLength"}),
    ),
    "drafts that hardly give a token more": Case(
        (Run((server("chat", told=UNKNOWN, **accepts(0.1)),), minutes=50),),
        (Fires("SpecDecodeAcceptanceLow", 45, "chat", kind="length"),),
        also=frozenset({"SpecDecodeWrongDraftLength"}),
    ),
    "drafts that are too long, and too short": Case(
        (
            Run(
                (
                    server("long", speculation={"tokens": 7}, **accepts(0.6, 0.05, 0.6)),
                    server("short", speculation={"tokens": 2}, **accepts(0.95, 0.03, 0.98)),
                ),
                minutes=85,
            ),
        ),
        (
            Fires("SpecDecodeWrongDraftLength", 80, "long", kind="too_long"),
            Fires("SpecDecodeWrongDraftLength", 80, "short", kind="too_short"),
        ),
    ),
    "load at a boundary of a schedule, and far from one": Case(
        (
            Run(
                tuple(
                    server(
                        name,
                        told={**EAGLE, "speculative": {"method": "eagle3", "schedule": SCHEDULE}},
                        speculation={"tokens_per_batch_size": SCHEDULE},
                        load={"rate": rate},
                        outputs={"mean": 80, "spread": 0.5, "max": 400},
                    )
                    for name, rate in (("boundary", 1.0), ("calm", 0.1))
                ),
                minutes=60,
            ),
        ),
        (Fires("SpecDecodeWrongDraftLength", 45, "boundary", kind="schedule"),),
    ),
    "a model that repeats itself": Case(
        (Run((server("chat", **accepts(1, 0, 1)),), minutes=65),),
        (Fires("SpecDecodeOutputSuspicious", 62, "chat", kind="first_position"),),
        also=frozenset({"SpecDecodeWrongDraftLength"}),
    ),
    "an arm that is slower than its baseline": Case(
        tuple(
            Run((one,), 50, labels={**SCRAPED, "instance": f"{one.name}:7732", "arm": one.name})
            for one in (
                server("baseline", told=UNKNOWN, speculation={"tokens": 0}),
                server("dear", told=UNKNOWN, speculation={"cost": 0.3}, **accepts(0.3)),
                server("good", told=UNKNOWN),
            )
        ),
        (Fires("SpecDecodeArmSlower", 45),),
        # Of the arm that accepts little and has no known draft cost.
        also=frozenset({"SpecDecodeAcceptanceLow", "SpecDecodeWrongDraftLength"}),
    ),
    "requests of which few draft badly": Case(
        (
            Run(
                (
                    server(
                        "chat",
                        machine={"step": "200ms"},
                        speculation={"tokens": 8},
                        acceptance={"mean": 0.85, "spread": 0.05, "decay": 1},
                        phases=[{"at": "5h", "acceptance": {"spread": 0.4}}],
                    ),
                ),
                minutes=6 * 60,
                poll="10s",
                scrape=60,
            ),
        ),
        (Fires("SpecDecodeTailLatencyWidening", 355, "chat"),),
        evaluation=60,
        since=300,
        also=frozenset({"SpecDecodeSuddenDrop", "SpecDecodeSlowDrift", "SpecDecodeWrongDraftLength"}),
    ),
    "more requests than the cache can hold": Case(
        (
            Run(
                (
                    server(
                        "chat",
                        machine={"step": "200ms", "kv_tokens": 9000},
                        load={"rate": 0.15},
                        phases=[{"at": "10m", "load": {"rate": 0.8}}, {"at": "35m", "load": {"rate": 0.05}}],
                    ),
                ),
                minutes=75,
            ),
        ),
        (
            Fires("SpecDecodeKvCachePressure", 30, "chat", over=70, kind="preemptions"),
            Fires("SpecDecodeKvCachePressure", 35, "chat", over=70, kind="usage"),
        ),
        since=10,
    ),
    "requests of two kinds, of which one loses": Case(
        (Run((server("chat", "mixed", DEAREST, mix=MIX),), minutes=75, requests=True),),
        (
            # Of a model and of a kind of its requests, not of a target.
            Fires("SpecDecodeMixedWorkload", 45),
            Fires("SpecDecodeRequestTypeLoses", 60),
        ),
        also=frozenset({"SpecDecodeWrongDraftLength"}),
    ),
    "requests of one kind": Case(
        (Run((server("chat"),), minutes=75, requests=True),),
    ),
    "requests of which many are garbled": Case(
        (Run((server("chat", mix=GARBLED),), minutes=60, requests=True),),
        (Fires("SpecDecodeOutputSuspicious", 55, kind="rejected"),),
        also=frozenset(
            {
                "SpecDecodeAcceptanceLow",
                "SpecDecodeMixedWorkload",
                "SpecDecodeRequestTypeLoses",
                "SpecDecodeWrongDraftLength",
            }
        ),
    ),
    "a server that is gone for minutes, and one that never came": Case(
        (
            Run(
                (
                    server("chat", phases=[{"at": "5m", "restart": {"down": "10m"}}]),
                    server("never", phases=[{"at": "1s", "restart": {"down": "30m"}}]),
                ),
                minutes=40,
            ),
        ),
        (
            Fires("SpecDecodeTargetDown", 11, "chat", over=16, kind="down"),
            Fires("SpecDecodeTargetDown", 25, "never", over=31),
        ),
        since=5,
    ),
    "an address of another program": Case(
        (Run((Server("prometheus", "steady", SMALL, EAGLE, AnswersOfAnother),), minutes=10),),
        (Fires("SpecDecodeTargetDown", 7, "prometheus", kind="no_engine"),),
    ),
    "one address for several servers": Case(
        (Run((Server("balancer", "steady", SMALL, EAGLE, behind=2),), minutes=20),),
        (Fires("SpecDecodeCountersUntrusted", 16, "balancer", kind="saw_tooth"),),
    ),
    "counters that contradict each other": Case(
        (Run((Server("chat", "steady", SMALL, EAGLE, ContradictoryAnswers),), minutes=15),),
        (Fires("SpecDecodeCountersUntrusted", 10, "chat", kind="inconsistent"),),
    ),
    "polls that fail, and polls that take long": Case(
        (
            Run(
                (
                    Server("failing", "steady", SMALL, EAGLE, SomeAnswers),
                    Server("slow", "steady", SMALL, EAGLE, SlowAnswers),
                ),
                minutes=35,
            ),
        ),
        (
            Fires("SpecDecodePollsUnhealthy", 32, "failing", kind="failing"),
            Fires("SpecDecodePollsUnhealthy", 32, "slow", kind="slow"),
        ),
    ),
    "an exporter that waits for ever": Case(
        (Run((Server("chat", "steady", SMALL, EAGLE, NoMoreAnswers),), minutes=20),),
        (Fires("SpecDecodePollsUnhealthy", 16, "chat", kind="stale"),),
        since=10,
    ),
    "an exporter that is not scraped for a while": Case(
        (Run((server("chat"),), minutes=30, down=range(5, 20)),),
        (Fires("SpecDecodeExporterDown", 15, over=21, kind="down"),),
        since=5,
    ),
    "no exporter at all": Case(
        (Run((server("chat"),), minutes=30, absent=range(5, 25)),),
        (Fires("SpecDecodeExporterDown", 22, over=26, kind="absent"),),
        since=5,
    ),
    "a configuration with a mistake": Case(
        (Run((server("chat"),), minutes=30, mistake=5),),
        (Fires("SpecDecodeExporterDegraded", 22),),
        since=5,
    ),
}

WITHOUT_A_SCENARIO = {
    "SpecDecodeServerErrorsRising": "requests to simulated servers never fail",
    "SpecDecodePrefixCacheLost": "simulated servers never lose their prefix cache; promtool's cases have it",
}


@pytest.fixture(scope="module")
def recordings():
    """Every case's recordings, as they become ready: processes live through them side by side."""
    with ProcessPoolExecutor(initializer=_politely) as pool:
        yield {title: [pool.submit(record, run) for run in case.runs] for title, case in CASES.items()}
        pool.shutdown(cancel_futures=True)


def _politely():
    """Leave the processor to those who measure time."""
    os.nice(10)


def test_every_alert_has_a_scenario():
    named = {fires.alert for case in CASES.values() for fires in case.fires}
    assert named | set(WITHOUT_A_SCENARIO) == ALERTS
    assert named.isdisjoint(WITHOUT_A_SCENARIO)


# The first case waits while processes live through all of them, beside other tests.
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("title", CASES)
def test_the_alerts_of(title, recordings, prometheus_tools, tmp_path):
    case, recorded = CASES[title], [future.result() for future in recordings[title]]
    assert [one.errors for one in recorded] == [[]] * len(recorded)
    tests = {
        "rule_files": RULES,
        "evaluation_interval": f"{case.evaluation}s",
        "tests": [
            {
                "interval": f"{case.runs[0].scrape}s",
                "input_series": [series for one in recorded for series in one.promtool(NAMES)],
                "promql_expr_test": list(expectations(case)),
            }
        ],
    }
    path = tmp_path / "tests.json"
    path.write_text(json.dumps(tests))
    done = subprocess.run(
        [shutil.which("promtool"), "test", "rules", path], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def expectations(case):
    """Yield what promtool must find: nothing before things went wrong, each alert in its time, and no other one."""
    if case.since:
        yield expectation('ALERTS{alertstate="firing"}', case.since, over=case.since)
    for fires in case.fires:
        kind = f'kind="{fires.kind}", ' if fires.kind else ""
        own = f'ALERTS{{alertname="{fires.alert}", {kind}target="{fires.target}", alertstate="firing"}}'
        yield expectation(own, fires.by, {fires.alert})
        if fires.over is not None:
            yield expectation(own, fires.over)
    others = "|".join(sorted(case.also)) or "none"
    named = {fires.alert for fires in case.fires}
    end = case.runs[0].minutes
    yield expectation(f'ALERTS{{alertname!~"{others}", alertstate="firing"}}', end, named, over=end)


def expectation(series, minute, alerts=frozenset(), *, over=None):
    """Return what promtool asks at a minute, or over all minutes before: the names of just these alerts."""
    found = f"last_over_time({series}[{round(over * 60)}s])" if over else series
    return {
        "expr": f"group by (alertname) ({found})",
        "eval_time": f"{round(minute * 60)}s",
        "exp_samples": [{"labels": f'{{alertname="{alert}"}}', "value": 1} for alert in sorted(alerts)],
    }
