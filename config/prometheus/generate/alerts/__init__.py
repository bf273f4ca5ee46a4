"""The alerts, by the file that they are written to."""

from __future__ import annotations

from typing import Final

from config.prometheus.generate.alerts.drops import DROPS
from config.prometheus.generate.alerts.exporter import EXPORTER
from config.prometheus.generate.alerts.pay import PAY
from config.prometheus.generate.alerts.requests import REQUESTS
from config.prometheus.generate.alerts.server import SERVER
from config.prometheus.generate.alerts.trust import TRUST
from config.prometheus.generate.rule import Alert, File

FILES: Final = (
    File("pay", "Does speculation pay?", {"spec-decode-pay": PAY}),
    File("drops", "Did acceptance drop, or drafting stop?", {"spec-decode-drops": DROPS}),
    File("requests", "Which requests gain, and which lose?", {"spec-decode-requests": REQUESTS}),
    File("server", "Latency, memory and errors of servers that speculate.", {"spec-decode-server": SERVER}),
    File("trust", "Is the server there, and can its counters be trusted?", {"spec-decode-trust": TRUST}),
    File("exporter", "Does the exporter do its work?", {"spec-decode-exporter": EXPORTER}),
)

ALERTS: Final[tuple[Alert, ...]] = (*PAY, *DROPS, *REQUESTS, *SERVER, *TRUST, *EXPORTER)
"""Every alert."""
