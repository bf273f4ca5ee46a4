"""Write a page from a snapshot: the golden page, switches and failures."""

from __future__ import annotations

import gzip
import json
import os
from dataclasses import replace
from math import inf, nan
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from spec_decode_exporter.config.schema import Metrics, Profile
from spec_decode_exporter.core.cooperative_yield import finish
from spec_decode_exporter.core.internal_errors import RECOVERED_AFTER, InternalErrors
from spec_decode_exporter.metrics import snapshot_writer as module
from spec_decode_exporter.metrics.engine_metrics import ENGINE_METRICS
from spec_decode_exporter.metrics.negotiation import Format
from spec_decode_exporter.metrics.page_writer import PIECE_WORK
from spec_decode_exporter.metrics.selection import Selection, selected_metrics
from spec_decode_exporter.metrics.snapshot_writer import SnapshotWriter
from spec_decode_exporter.monitor.engine_monitor import EngineMonitor
from spec_decode_exporter.monitor.snapshot import Snapshot
from spec_decode_exporter.monitor.target_status import ExporterStatus, TargetStatus
from spec_decode_exporter.scrape.page.sample import EngineName
from spec_decode_exporter.scrape.page.sample_reader import SampleReader
from tests.unit.metrics.written_page import EVERYTHING, families_by, families_of, page_of

TESTS = Path(__file__).parents[1]
GOLDEN = Path(__file__).parent / "golden"
WALL = 1_795_225_677.0
LABELS = {"target": "one", "model_name": "m", "engine": "0"}


@pytest.fixture(name="status", scope="module")
def status_fixture():
    return TargetStatus(
        up=True,
        engine_kind="vllm",
        front_end="python",
        page="filtered",
        version="0.32.0",
        polls=21,
        failures={"refused": 1},
        poll_seconds=0.0021,
        poll_bytes=2048,
        interval=1.0,
        last_success=WALL + 24.022,
    )


@pytest.fixture(name="recorded", scope="module")
def recorded_fixture(status):
    """Snapshot after the first 25 s of a recorded trace, of one target of two."""
    with gzip.open(TESTS / "traces" / "restart_k3_k5.jsonl.gz", "rt") as lines:
        rows = [row for row in map(json.loads, lines) if row["t"] < 25]
    watch, reader = EngineMonitor((10.0, 300.0)), SampleReader()
    for row in rows:
        reading = finish(reader.read(row["page"].encode(), with_latencies=row["histograms"]))
        sample = reading.samples[EngineName("tiny-llama", "0")]
        watch.observe(sample, row["t"], WALL + row["t"], 1.0, 10.0)
    engine = {"target": "one", "model_name": "tiny-llama", "engine": "0", "team": "a", "zone": ""}
    exporter = ExporterStatus("1.2.3", "abc", "3.11.9", {"static": 1, "file": 1}, True, WALL, 4711)
    return Snapshot(
        [(engine, watch.snapshot(rows[-1]["t"]))],
        [
            ({"target": "one", "team": "a", "zone": ""}, status),
            ({"target": 'tw"o', "team": "", "zone": "b"}, TargetStatus()),
        ],
        [({}, exporter)],
    )


@pytest.mark.parametrize("profile", Profile)
async def test_the_page_of_a_recorded_trace_is_the_golden_one(recorded, profile):
    """After a wanted change: ``UPDATE_GOLDEN=1 pytest tests/unit/metrics``, then read the difference."""
    found = await page_of(recorded, selected_metrics(Metrics(profile=profile), (10.0, 300.0)))
    file = GOLDEN / f"restart_k3_k5.{profile}.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        file.write_text(found, encoding="utf-8")
    assert found == file.read_text(encoding="utf-8")


ODD = 'a "quoted" \\\\ name\nof two lines, 100 %s'


class TestFailures:
    @pytest.fixture(name="fragile")
    def fragile_fixture(self, monkeypatch):
        """Metric table with one metric that raises while the list is not empty."""
        failing = [True]
        row = next(one for one in ENGINE_METRICS if one.name == "spec_decode_acceptance_length_tokens")

        def read(findings):
            if failing:
                raise ZeroDivisionError
            return row.read(findings)

        rows = tuple(replace(one, read=read) if one is row else one for one in ENGINE_METRICS)
        monkeypatch.setattr(
            module,
            "PARTS",
            (module.PagePart(rows, lambda snapshot: snapshot.engines), *module.PARTS[1:]),
        )
        return failing

    def test_it_recovers_and_a_failure_a_minute_later_is_logged_again(self, fragile, recorded, clock):
        errors = InternalErrors(clock.monotonic)
        writer = SnapshotWriter(lambda: EVERYTHING, errors)
        with capture_logs() as logs:
            list(families_by(writer, recorded))
            fragile.clear()
            clock.now += RECOVERED_AFTER + 1
            names = {family.name for family in families_by(writer, recorded)}
            fragile.append(True)
            list(families_by(writer, recorded))
        assert "spec_decode_acceptance_length_tokens" in names
        assert [log["event"] for log in logs] == ["internal_error", "internal_error_ended", "internal_error"]

    def test_an_engine_that_a_metric_cannot_read_is_omitted_alone(self, busy, recorded):
        broken = replace(busy, totals=None)
        snapshot = Snapshot([(LABELS, broken), (LABELS | {"engine": "1"}, busy)])
        writer = SnapshotWriter(lambda: EVERYTHING)
        with capture_logs() as logs:
            pages = [{family.name: family for family in families_by(writer, snapshot)} for _ in range(3)]
        drafts, ratio = pages[-1]["spec_decode_drafts"], pages[-1]["spec_decode_draft_acceptance_ratio"]
        assert {sample.labels["engine"] for sample in drafts.samples} == {"1"}
        assert {sample.labels["engine"] for sample in ratio.samples} == {"0", "1"}
        assert [(log["event"], log["engine"]) for log in logs] == [("internal_error", "0")]

    @pytest.mark.parametrize("number", [inf, -inf, nan, 10**400])
    def test_infinite_numbers_are_omitted(self, monkeypatch, recorded, number):
        row = replace(ENGINE_METRICS[0], read=lambda _: [((), number)])
        monkeypatch.setattr(module, "PARTS", (module.PagePart((row,), lambda snapshot: snapshot.engines),))
        assert families_of(recorded) == []

    def test_an_engine_with_other_labels_than_the_first_is_omitted(self, busy):
        snapshot = Snapshot(
            [(LABELS, busy), (LABELS | {"zone": "a"}, busy), (LABELS | {"engine": "2"}, busy)]
        )
        with capture_logs() as logs:
            families = families_of(snapshot)
        engines = {sample.labels["engine"] for family in families for sample in family.samples}
        assert engines == {"0", "2"}
        assert [(log["event"], log["part"]) for log in logs] == [("internal_error", "metrics")]


def test_a_large_family_is_written_in_pieces_with_one_header(busy):
    engines = [(LABELS | {"engine": str(number)}, busy) for number in range(3 * PIECE_WORK)]
    writer = SnapshotWriter(lambda: Selection(frozenset({"spec_decode_drafts_total"})))
    pieces = list(writer.pieces(Snapshot(engines), Format.TEXT_0_0_4))
    assert len(pieces) > 3
    assert max(piece.work for piece in pieces) < 2 * PIECE_WORK
    text = "".join(piece.text for piece in pieces)
    assert text.count("# TYPE") == 1
    assert text.count("spec_decode_drafts_total{") == len(engines)
