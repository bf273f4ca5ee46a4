"""Add ONE row to the figure table and one to the metric table, and print the outputs of the exporter as JSON.

``python -m tests.unit.analysis.added_figure``: a process of its own, since every table is built at import.
"""

import asyncio
import json

from spec_decode_exporter.analysis import figure_table
from spec_decode_exporter.analysis.figure_table import TOKENS, Figure, Line
from spec_decode_exporter.config.schema import Group, Profile

ROW = Figure(
    TOKENS,
    key="decoded_tokens_per_draft",
    label="Decoded tokens of a draft",
    help="Mean decoded tokens of a draft in the window.",
    over=("decoded_tokens", "drafts"),
    counts="in drafts:",
    report=Line("Acceptance", "decoded per draft"),
    compared=Line("Acceptance", "decoded per draft"),
)
METRIC = f"spec_decode_{ROW.key}"
WALL = 1_795_225_677.0
LABELS = {"target": "one", "model_name": "tiny-llama", "engine": "0"}


def snapshot():
    from spec_decode_exporter.monitor.engine_monitor import EngineMonitor
    from spec_decode_exporter.scrape.sample import EngineName, SampleReader
    from tests.fakes.engines import poll, trace

    rows = [row for row in trace("restart_k3_k5") if row["t"] < 25]
    engine, reader = EngineMonitor((10.0, 300.0)), SampleReader()
    for row in rows:
        reading = reader.read(row["page"].encode(), with_latencies=row["histograms"])
        poll(engine, reading.samples[EngineName("tiny-llama", "0")], row["t"], WALL, 10.0)
    return engine.snapshot


def comparison_report(observation):
    """Return the report of ``observe --against``, of an observation with itself."""
    from spec_decode_exporter.reports.comparison import as_text, compared
    from spec_decode_exporter.reports.saved_snapshot import SavedSnapshot
    from spec_decode_exporter.reports.text import TextStyle

    saved = SavedSnapshot.model_validate(observation)
    return as_text(compared(saved, saved), TextStyle())


def outputs():
    from docs.generate.metrics import markdown
    from spec_decode_exporter.monitor.snapshot import Snapshot
    from spec_decode_exporter.reports.observation_report import report
    from spec_decode_exporter.reports.observation_view import ObservationView
    from spec_decode_exporter.reports.text import TextStyle
    from spec_decode_exporter.views.engine_view import EngineView
    from spec_decode_exporter.web.fleet import PageQuery
    from tests.unit.metrics.written_page import page_of
    from tests.unit.web.pages import shown

    engine = snapshot()
    view = EngineView(labels=LABELS, snapshot=engine)
    fleet = Snapshot([(LABELS, engine)])
    observation = ObservationView(
        time=WALL, version="1", engines=(view,), seconds=25.0, targets=(), events=()
    )
    return {
        "metrics": asyncio.run(page_of(fleet)),
        "snapshot": view.model_dump_json(),
        "page": asyncio.run(shown(fleet, PageQuery("", (view.id,)))),
        "observe": report(observation, TextStyle()),
        "compare": comparison_report(observation),
        "documentation": markdown(),
    }


def add():
    figure_table.FIGURES += (ROW,)
    figure_table.FIGURE[ROW.key] = ROW
    figure_table.COMPARED += (ROW,)
    from spec_decode_exporter.metrics import metric, table

    table.METRICS += tuple(metric.figure_metrics(Group.ACCEPTANCE, Profile.STANDARD, METRIC))


if __name__ == "__main__":
    add()
    print(json.dumps(outputs()))  # noqa: T201
