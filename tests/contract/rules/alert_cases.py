"""Cases of the shipped alerts: simulated servers, and what must fire when. The table is tests/data/alerts/cases.yml."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import yaml
from pydantic import BaseModel, ConfigDict

from spec_decode_exporter.config.schema import Config
from tests.contract.rules.shipped import PROMETHEUS
from tests.fakes import moved_fleet
from tests.paths import DATA

SHIPPED: Final = yaml.safe_load((PROMETHEUS / "prometheus.yml").read_text(encoding="utf-8"))
RULES: Final = sorted(path for pattern in SHIPPED["rule_files"] for path in PROMETHEUS.glob(pattern))
_TEXT = "".join(path.read_text(encoding="utf-8") for path in RULES)
SERIES: Final = frozenset(re.findall(r"\b(?:spec_decode_\w+|up)\b", _TEXT))
"""Every series that a rule may mean; the others are not recorded."""
SCRAPED: Final = {"job": "spec-decode", "instance": "exporter:7732"}
"""The labels that Prometheus gives to everything of an exporter."""

WITHOUT_A_CASE: Final = {
    "SpecDecodeServerErrorsRising": "requests to simulated servers never fail",
    "SpecDecodeSlowDrift": "it compares with the day before; promtool's cases have it",
    "SpecDecodePrefixCacheLost": "simulated servers never lose their prefix cache; promtool's cases have it",
}


class Row(BaseModel):
    """A part of the table: a key with a typing mistake is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Fires(Row):
    """An alert that must fire."""

    alert: str
    by: float
    target: str = ""
    over: float | None = None  # when it must be over; None: not while the case lasts
    kind: str = ""  # of an alert with several rules


class CaseServer(Row):
    """A simulated server and its keys in the exporter's configuration, as in ``tests.fakes.moved_fleet.Server``."""

    scenario: str = "steady"
    changes: Mapping[str, Any] = {}
    told: Mapping[str, Any] = {}
    answers: str = "Answers"
    behind: int = 1


class Case(Row):
    """Servers to watch, and the alerts that must fire."""

    servers: Mapping[str, CaseServer]
    minutes: int
    poll: str = "5s"
    scrape: int = 15  # seconds between scrapes, and between evaluations of the rules as they are shipped
    since: float = 0  # when things begin to go wrong: no alert fires before
    fires: Sequence[Fires] = ()
    also: frozenset[str] = frozenset()
    """Alerts that may fire besides, of which nothing else is asserted; most are inhibited by those that must."""
    down: tuple[int, int] = (0, 0)  # from when to when scrapes of the exporter fail
    absent: tuple[int, int] = (0, 0)  # from when to when Prometheus does not know of it
    mistake: int | None = None  # when a configuration with an error is loaded
    requests: bool = False
    """Whether what the servers' responses say is sent to the exporter, with every scrape."""
    arms: bool = False
    """Whether each server has an exporter of its own, with the server's name as label ``arm``."""

    def exporters(self) -> Iterator[tuple[Sequence[moved_fleet.Server], Mapping[str, str]]]:
        """Yield the servers of each exporter, and the labels that Prometheus adds."""
        servers = [
            moved_fleet.Server(
                name, row.scenario, row.changes, row.told, getattr(moved_fleet, row.answers), row.behind
            )
            for name, row in self.servers.items()
        ]
        if not self.arms:
            yield servers, SCRAPED
            return
        for one in servers:
            yield [one], {**SCRAPED, "instance": f"{one.name}:7732", "arm": one.name}

    def config(self, servers: Sequence[moved_fleet.Server]) -> Config:
        """Return the configuration of an exporter."""
        targets = [server.target() for server in servers]
        requests = {"ingest": self.requests}
        return Config.model_validate(
            {"targets": targets, "poll": {"interval": self.poll}, "requests": requests}
        )

    def promtool(self, series: Sequence[Mapping[str, str]]) -> str:
        """Return the file that ``promtool test rules`` evaluates with every scrape.

        It must find nothing before ``since``, each alert in its time, and no other alert.
        """
        found = []
        if self.since:
            found.append(_expectation('ALERTS{alertstate="firing"}', self.since, over=self.since))
        for fires in self.fires:
            kind = f'kind="{fires.kind}", ' if fires.kind else ""
            own = f'ALERTS{{alertname="{fires.alert}", {kind}target="{fires.target}", alertstate="firing"}}'
            found.append(_expectation(own, fires.by, {fires.alert}))
            if fires.over is not None:
                found.append(_expectation(own, fires.over))
        others = "|".join(sorted(self.also)) or "none"
        named = {fires.alert for fires in self.fires}
        firing = f'ALERTS{{alertname!~"{others}", alertstate="firing"}}'
        found.append(_expectation(firing, self.minutes, named, over=self.minutes))
        interval = f"{self.scrape}s"
        test = {"interval": interval, "input_series": series, "promql_expr_test": found}
        rules = [str(path) for path in RULES]
        return json.dumps({"rule_files": rules, "evaluation_interval": interval, "tests": [test]})


def _expectation(
    series: str, minute: float, alerts: frozenset[str] | set[str] = frozenset(), *, over: float | None = None
) -> Mapping[str, Any]:
    """Return what promtool asks at a minute, or over all minutes before: the names of just these alerts."""
    found = f"last_over_time({series}[{round(over * 60)}s])" if over else series
    return {
        "expr": f"group by (alertname) ({found})",
        "eval_time": f"{round(minute * 60)}s",
        "exp_samples": [{"labels": f'{{alertname="{alert}"}}', "value": 1} for alert in sorted(alerts)],
    }


CASES: Final = {
    title: Case.model_validate(row)
    for title, row in yaml.safe_load((DATA / "alerts" / "cases.yml").read_text(encoding="utf-8")).items()
    if title != "x-shared"
}
