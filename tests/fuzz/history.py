"""Parsers of a history: the answers of a query API, and recordings."""

from __future__ import annotations

import gzip
from math import isfinite
from typing import Final

from spec_decode_exporter.analysis.evaluation_inputs import Assumptions
from spec_decode_exporter.history.engine_slots import EngineSlots, PlainPeriods
from spec_decode_exporter.history.page_rows import RowReader
from spec_decode_exporter.history.query_api import HistoryError, QueryApi
from spec_decode_exporter.history.recorded_page import recorded_page
from spec_decode_exporter.history.recording import FORMAT, RecordingError, read_recording
from spec_decode_exporter.history.slot_evaluation import evaluated
from spec_decode_exporter.scrape.http.client import HttpResponse
from tests.fuzz.harness import Harness, file_of, finished, sane

MAX_SCRAPES: Final = 200


class Answer:
    """A client whose answer is always the same."""

    def __init__(self, body):
        self._body = body

    async def get(self, address, *, max_body=None):
        return HttpResponse(self._body, "application/json", 0.0)

    async def close(self):
        """Close nothing."""


def check_samples(data: bytes) -> None:
    """Read the samples of an answer, and evaluate them."""
    api = QueryApi("http://prometheus:9090", Answer(data))
    for request in (api.time(), api.series("{}", 0.0, 1.0), api.metric_names(0.0, 1.0)):
        try:
            finished(request)
        except HistoryError as error:
            sane(error)
    try:
        series = finished(api.samples("{}", 1.0, 1))
        rows = sorted(list(RowReader().read(series))[:MAX_SCRAPES], key=lambda row: row[0])
    except HistoryError as error:
        sane(error)
        return
    engines, last = {}, 0.0
    for time, samples in rows:
        for name, sample in samples.items() if time > last else ():
            if name not in engines:
                engines[name] = EngineSlots(Assumptions(), PlainPeriods(), 900.0, 15.0)
            engines[name].observe(sample, time)
        last = max(last, time)
    for engine in engines.values():
        engine.close()
        for slot in evaluated(engine.slots, PlainPeriods(), Assumptions()):
            assert isfinite(slot.seconds)


def check_recording(data: bytes) -> None:
    """Read a recording as it is, and any lines as those of one."""
    for content in (data, gzip.compress(f'{{"format":"{FORMAT}"}}\n'.encode() + data + b"\n", 1)):
        try:
            for _, polled, _ in read_recording(file_of(content, "recording.gz")):
                recorded_page(polled.reading.samples, lambda created: created)
        except RecordingError as error:
            sane(error)


SAMPLES = Harness(
    check_samples,
    (
        "status", "success", "data", "resultType", "matrix", "result", "metric", "values", "__name__",
        "vllm:generation_tokens_total", "vllm:spec_decode_num_drafts_total", "position", "model_name", "NaN", "1",
    ),
    json=True,
)  # fmt: skip
RECORDING = Harness(
    check_recording,
    (
        "target", "moment", "wall", "interval", "kind", "vllm", "front_end", "engines", "model", "engine", "counters",
        "positions", "gauges", "created", "latencies", "queue", "answers", "method", "tokens", "draft_model",
    ),
    json=True,
)  # fmt: skip
