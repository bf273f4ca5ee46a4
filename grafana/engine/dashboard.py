"""One engine: does speculation pay, what should be done, and why."""

from __future__ import annotations

from grafana_foundation_sdk.models import dashboard

from grafana import variables
from grafana.board import Mark, Section, alerts, board
from grafana.engine import acceptance, serving, speedup, trust, verdict
from grafana.promql import ENGINE
from grafana.style import Colour

UID = "spec-decode-engine"

_K_NOW = ENGINE("spec_decode_configured_tokens")
RESTARTS = Mark(
    "Restarts",
    f"{ENGINE.increase('spec_decode_engine_resets_total', '$__rate_interval')} > 0",
    "Counters reset: {{cause}}",
    Colour.WATCH,
)
NEW_K = Mark(
    "New K",
    # The series is gone while the server restarts, so it is compared with the last value of some minutes.
    f"{_K_NOW} != last_over_time({_K_NOW}[15m] offset $__rate_interval)",
    "Another number of draft tokens",
    Colour.TREND,
)


def _sections() -> list[Section]:
    """Return the rows in the order of an operator's questions; the collapsed ones are about causes."""
    return [
        Section(verdict.bands()),
        Section(speedup.bands(), "Is it faster?"),
        Section(acceptance.bands(), "How much is accepted?"),
        Section(speedup.costs(), "What does drafting cost, and at what load?"),
        Section(serving.bands(), "How long do requests take?"),
        Section(speedup.details(), "Why is the gain not larger?", collapsed=True),
        Section(acceptance.drops(), "Did acceptance drop?", collapsed=True),
        Section(acceptance.details(), "How is acceptance spread?", collapsed=True),
        Section(serving.details(), "Mean times, cache and preemptions", collapsed=True),
        Section(trust.bands(), "Can the numbers be trusted?", collapsed=True),
        Section(serving.gpu(), "GPU memory (needs dcgm-exporter)", collapsed=True),
    ]


def engine() -> dashboard.Dashboard:
    """Return the dashboard of one engine."""
    return board(
        UID,
        "Speculative decoding / Engine",
        "One engine: does speculation pay, what should be done, and why.",
        variables=[
            variables.datasource(),
            variables.job(),
            variables.model_name('job=~"$job"'),
            variables.one_instance(),
            variables.one_target(),
            variables.one_engine(),
            *variables.windows(),
            variables.gpu_host(),
        ],
        marks=[alerts(ENGINE), RESTARTS, NEW_K],
        sections=_sections(),
    )
