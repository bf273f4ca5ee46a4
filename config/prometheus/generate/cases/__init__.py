"""The tests of the rules."""

from __future__ import annotations

from typing import Final

from config.prometheus.generate.case import AlertCase, RuleCase
from config.prometheus.generate.cases.aggregates import AGGREGATES
from config.prometheus.generate.cases.arms import ARMS
from config.prometheus.generate.cases.drops import DROPS
from config.prometheus.generate.cases.exporter import EXPORTERS
from config.prometheus.generate.cases.pay import PAY
from config.prometheus.generate.cases.raw import RAW
from config.prometheus.generate.cases.requests import REQUESTS as SINGLE_REQUESTS
from config.prometheus.generate.cases.server import REQUESTS, SERVER
from config.prometheus.generate.cases.silent import SILENT
from config.prometheus.generate.cases.trust import TRUST

__all__ = ("ALERT_CASES", "RULE_CASES", "SILENT")

ALERT_CASES: Final[tuple[AlertCase, ...]] = (*PAY, *DROPS, *SINGLE_REQUESTS, *SERVER, *TRUST, *EXPORTERS)

RULE_CASES: Final[dict[str, tuple[RuleCase, ...]]] = {
    "aggregates": AGGREGATES,
    "arms": ARMS,
    "server": REQUESTS,
    "raw-counters": RAW,
}
