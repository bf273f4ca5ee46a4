"""Answers of a history with baselines, at their bounds and just beyond them."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any, Final

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
from tests.robustness.inputs.row import Make, Read, Row, filled, served_json

_NAME: Final = "vllm:generation_tokens_total"
_SECONDS: Final = 1e5  # seconds of the samples that are asked for
_TARGET: Final = Target("http://10.0.0.1:8000/metrics", "chat")


def _answered(use: Callable[[QueryApi], Awaitable[object]]) -> Read:
    async def read(data: bytes) -> object:
        async with served_json(data) as url:
            client = Client(HttpSettings(), timeout=60.0, max_body=MAX_BODY)
            try:
                return await use(QueryApi(url, client))
            finally:
                await client.close()

    return read


async def _servers(api: QueryApi) -> object:
    servers = await BaselineReader(api, "", 0.0, 1.0).servers()
    return server_of(_TARGET, servers, is_only_target=False)


async def _samples(api: QueryApi) -> object:
    pace, found = Pace(SCRAPES_SLICE), []
    reader = TargetSamples(api, HistoryTarget(ENGINES[0], "vllm:", {}, frozenset()), PAGE)
    for _, samples in reader.scrapes(await api.samples(Selector(_NAME), _SECONDS, int(_SECONDS))):
        found.append(samples)
        await pace.done()
    return found


def _success(data: Any) -> bytes:
    return json.dumps({"status": "success", "data": data}, separators=(",", ":")).encode()


def _series(number: int, **labels: str) -> Make:
    """Return a list of series of as many servers, one of which is the target."""
    return lambda: _success(
        [{"__name__": _NAME, "instance": f"10.0.0.1:{8000 + place}", **labels} for place in range(number)]
    )


def _matrix(series: int, samples: int, **labels: str) -> Make:
    values = [[place, str(place)] for place in range(samples)]
    return lambda: _matrix_of([{"engine": str(place), **labels} for place in range(series)], lambda _: values)


def _matrix_of(series: list[dict[str, str]], values: Callable[[int], list[Any]]) -> bytes:
    result = [
        {"metric": {"__name__": _NAME, **labels}, "values": values(place)}
        for place, labels in enumerate(series)
    ]
    return _success({"resultType": "matrix", "result": result})


def _comings_and_goings() -> bytes:
    """Return the samples of engines of which each scrape shows another one."""
    return _matrix_of([{"engine": str(n)} for n in range(MAX_LAYOUTS + 2)], lambda place: [[place, "1"]])


ROWS: Final = (
    Row(
        name="series of `baseline.prometheus`",
        read=_answered(_servers),
        rejects=HistoryError,
        worst={"as many servers as fit": _series(12_000)},
        beyond={
            "bytes": _series(20_000),
            "values": filled(b'{"status":"success","data":[', b"[],", b"[]]}", MAX_BODY),
            "servers that fit": lambda: _success(
                [{"__name__": _NAME, "instance": "10.0.0.1:8000", "x": f"\x1b{n}"} for n in range(9)]
            ),
        },
    ),
    Row(
        name="samples of `baseline.prometheus`",
        read=_answered(_samples),
        rejects=HistoryError,
        worst={
            "the longest series": _matrix(1, 40_000),
            "as many engines as a page may have": _matrix(250, 20),
        },
        beyond={
            "bytes": _matrix(1, 70_000),
            "values": filled(b'{"status":"success","data":[', b"[],", b"[]]}", MAX_BODY),
            "engines that come and go": _comings_and_goings,
        },
    ),
)
