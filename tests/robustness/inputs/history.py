"""Answers of a history with baselines, at their bounds and just beyond them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Final

from spec_decode_exporter.config.http_settings import HttpSettings
from spec_decode_exporter.core.tasks import Pace
from spec_decode_exporter.discovery.target import Target
from spec_decode_exporter.history.baseline_reader import (
    MAX_BODY,
    PAGE,
    SCRAPES_SLICE,
    BaselineReader,
    server_of,
)
from spec_decode_exporter.history.history_pages import MAX_LAYOUTS, TargetSamples
from spec_decode_exporter.history.history_targets import HistoryTarget
from spec_decode_exporter.history.query_api import HistoryError, QueryApi, Selector
from spec_decode_exporter.scrape.client import Client
from spec_decode_exporter.scrape.engines import ENGINES
from tests.robustness.faults import sends, serving
from tests.robustness.inputs.row import Make, Row, as_json
from tests.robustness.inputs.server_pages import JSON, answer

_NAME: Final = "vllm:generation_tokens_total"
_SECONDS: Final = 1e5  # seconds of the samples that are asked for
_TARGET: Final = Target("http://10.0.0.1:8000/metrics", "chat")


@asynccontextmanager
async def _history(data: bytes) -> AsyncIterator[QueryApi]:
    """Serve the bytes as every answer of a history; yield what asks it."""
    async with serving(sends(answer(data, JSON))) as server:
        client = Client(HttpSettings(), timeout=60.0, max_body=MAX_BODY)
        try:
            yield QueryApi(server.url(), client)
        finally:
            await client.close()


async def _read_servers(data: bytes) -> object:
    async with _history(data) as api:
        servers = await BaselineReader(api, "", 0.0, 1.0).servers()
        return server_of(_TARGET, servers, is_only_target=False)


async def _read_samples(data: bytes) -> object:
    async with _history(data) as api:
        pace, found = Pace(SCRAPES_SLICE), []
        reader = TargetSamples(api, HistoryTarget(ENGINES[0], "vllm:", {}, frozenset()), PAGE)
        for _, samples in reader.scrapes(await api.samples(Selector(_NAME), _SECONDS, int(_SECONDS))):
            found.append(samples)
            await pace.done()
        return found


def _series(number: int) -> Make:
    """Return a list of series of as many servers, one of which is the target."""
    return as_json(
        lambda: {
            "status": "success",
            "data": [{"__name__": _NAME, "instance": f"10.0.0.1:{8000 + place}"} for place in range(number)],
        }
    )


def _matrix(engines: Sequence[Iterable[int]]) -> bytes:
    """Return samples of engines, each at these moments."""
    result = [
        {"metric": {"__name__": _NAME, "engine": str(number)}, "values": [[one, str(one)] for one in moments]}
        for number, moments in enumerate(engines)
    ]
    return as_json({"status": "success", "data": {"resultType": "matrix", "result": result}})()


ROWS: Final = (
    Row(
        name="series of `baseline.prometheus`",
        read=_read_servers,
        rejects=HistoryError,
        worst={"as many servers as fit": _series(12_000)},
        beyond={
            "bytes": _series(20_000),
        },
    ),
    Row(
        name="samples of `baseline.prometheus`",
        read=_read_samples,
        rejects=HistoryError,
        worst={
            "the longest series": lambda: _matrix([range(40_000)]),
            "as many engines as a page may have": lambda: _matrix([range(20)] * 250),
        },
        beyond={
            "bytes": lambda: _matrix([range(70_000)]),
            "engines that come and go": lambda: _matrix([[n] for n in range(MAX_LAYOUTS + 2)]),
        },
    ),
)
