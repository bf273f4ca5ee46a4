"""Add ONE row to the figure table, and print the outputs of the exporter as JSON.

``python -m tests.unit.figures.added_figure``: a process of its own, since every table is built at import.
"""

from __future__ import annotations

import asyncio
import gzip
import json
from datetime import UTC, datetime
from pathlib import Path

from spec_decode_exporter.config.schema import Group
from spec_decode_exporter.figures import series, table
from spec_decode_exporter.figures.acceptance import rejected_tokens
from spec_decode_exporter.figures.figure import GroupSum, ReportLine, ScalarFigure, Unit, of_window
from spec_decode_exporter.figures.ratio import ratio
from spec_decode_exporter.figures.terms import CounterTerm
from spec_decode_exporter.scrape.page.engine_table import Counter

ROW = ScalarFigure(
    key="rejected_tokens_per_draft",
    label="Rejected tokens of a draft",
    description="Mean rejected tokens of a draft in the window.",
    unit=Unit.TOKENS,
    source=(series.DRAFT_TOKENS, series.ACCEPTED, series.DRAFTS),
    group=Group.ACCEPTANCE,
    formula=of_window(lambda window: ratio(rejected_tokens(window), window[Counter.DRAFTS])),
    numerator=CounterTerm(Counter.DRAFT_TOKENS, Counter.ACCEPTED_TOKENS),
    denominator=CounterTerm(Counter.DRAFTS),
    counts="in drafts:",
    in_groups=GroupSum.RATIO_OF_SUMS,
    report=ReportLine("Acceptance", "rejected per draft"),
    comparison=ReportLine("Acceptance", "rejected per draft"),
)
TRACE = Path(__file__).parents[1] / "traces" / "restart_k3_k5.jsonl.gz"
WALL = 1_795_225_677.0
LABELS = {"target": "one", "model_name": "tiny-llama", "engine": "0"}


def snapshot():
    """Return an engine after the first 25 s of a recorded trace."""
    from spec_decode_exporter.core.cooperative_yield import finish
    from spec_decode_exporter.monitor.engine_monitor import EngineMonitor
    from spec_decode_exporter.scrape.page.sample import EngineName
    from spec_decode_exporter.scrape.page.sample_reader import SampleReader

    with gzip.open(TRACE, "rt") as lines:
        rows = [row for row in map(json.loads, lines) if row["t"] < 25]
    engine, reader = EngineMonitor((10.0, 300.0)), SampleReader()
    for row in rows:
        reading = finish(reader.read(row["page"].encode(), with_latencies=row["histograms"]))
        engine.observe(reading.samples[EngineName("tiny-llama", "0")], row["t"], WALL + row["t"], 1.0, 10.0)
    return engine.snapshot(rows[-1]["t"])


async def metrics_page(engine):
    """Return the page of /metrics."""
    from spec_decode_exporter.monitor.snapshot import Snapshot
    from tests.unit.metrics.written_page import page_of

    return await page_of(Snapshot([(LABELS, engine)]))


def observe_report(view):
    """Return the report of ``observe``."""
    from spec_decode_exporter.reports.observe.observe_report import report
    from spec_decode_exporter.reports.terminal import TerminalStyle
    from spec_decode_exporter.reports.terminal_report import text_report
    from spec_decode_exporter.views.models import ObservationView

    observation = ObservationView(
        time=WALL, version="1", engines=(view,), seconds=25.0, targets=(), events=()
    )
    return text_report(report(observation), TerminalStyle(width=120))


def comparison_report(engine):
    """Return the report of ``observe --against``, of an engine with itself."""
    from spec_decode_exporter.experiments.measure import measure
    from spec_decode_exporter.reports.reference.comparison_report import report
    from spec_decode_exporter.reports.reference.pairing import compared
    from spec_decode_exporter.reports.reference_document import MeasuredModel, ReferenceDocument
    from spec_decode_exporter.reports.terminal import TerminalStyle
    from spec_decode_exporter.reports.terminal_report import text_report

    model = MeasuredModel(
        model_name="m",
        engines=1,
        method="",
        draft_model="",
        server_version="",
        measurement=measure(engine.windows[-1], engine.latencies),
    )
    document = ReferenceDocument(
        ended=datetime.fromtimestamp(WALL, UTC),
        seconds=25.0,
        exporter_version="1",
        engines=(),
        models=(model,),
    )
    return text_report(report(compared(document, document, 0.05)), TerminalStyle(width=120))


def outputs():
    """Return the outputs by name."""
    from docs.generate.metrics import markdown
    from spec_decode_exporter.views.engine_view import engine_view
    from spec_decode_exporter.views.group_view import group_view
    from spec_decode_exporter.web.page.figure_table import figures

    engine = snapshot()
    view = engine_view(LABELS, engine)
    return {
        "metrics": asyncio.run(metrics_page(engine)),
        "snapshot": view.model_dump_json(),
        "group": group_view({}, [(LABELS, engine)]).model_dump_json(),
        "page": str(figures(view)),
        "observe": observe_report(view),
        "compare": comparison_report(engine),
        "documentation": markdown(),
    }


if __name__ == "__main__":
    table.FIGURES += (ROW,)
    print(json.dumps(outputs()))  # noqa: T201
