"""Numbers on a server's metrics page: counters, gauges and histograms, at their bounds and just beyond."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from itertools import product
from math import inf
from typing import Final
from unittest.mock import patch

from spec_decode_exporter.config.schema import Config
from spec_decode_exporter.discovery.target import Target
from spec_decode_exporter.monitor.event_log import EventLog
from spec_decode_exporter.monitor.state import Remembered
from spec_decode_exporter.monitor.target_monitor import Shared, TargetMonitor
from spec_decode_exporter.scrape.client import HttpResponse
from spec_decode_exporter.scrape.engines import MEANINGS, Counter, Gauge, Latency
from spec_decode_exporter.scrape.errors import PollError
from spec_decode_exporter.scrape.layout import MAX_NUMBER_CHARACTERS
from spec_decode_exporter.scrape.sample import (
    MAX_COUNT,
    MAX_GAUGES,
    MAX_POSITIONS,
    MAX_SECONDS,
)
from spec_decode_exporter.views.engine_view import EngineView
from spec_decode_exporter.window.poll import MAX_INCREMENT
from tests.conftest import FakeClock
from tests.robustness.inputs.row import RejectedError, Row

_NAMES: Final = {
    type_: [
        name.decode()
        for name, meaning in MEANINGS.items()
        if meaning.prefix == "vllm:" and isinstance(meaning.quantity, type_) and meaning.age == 0
    ]
    for type_ in (Counter, Gauge, Latency)
}
_POSITION: Final = "vllm:spec_decode_num_accepted_tokens_per_pos_total"
_DRAFTS: Final = "vllm:spec_decode_num_drafts_total"
_ENGINES: Final = 110
"""Engines of a large page that fits into the usual ``poll.max_body``."""


class _Server:
    """Client that returns pages in turn; the last is repeated."""

    spent = 0.0

    def __init__(self, *pages: bytes) -> None:
        self._pages = list(pages)

    async def get(self, url: str, *, max_body: int | None = None) -> HttpResponse:
        if "metrics" not in url:
            raise PollError("refused", "nothing is here")
        page = self._pages.pop(0) if len(self._pages) > 1 else self._pages[0]
        return HttpResponse(page, "text/plain", 0.001)

    async def close(self) -> None:
        """Close nothing."""


async def _watched(page: bytes) -> TargetMonitor:
    """Poll the page twice after one with zeros, and read all output.

    Raises:
        RejectedError: A poll failed.
    """
    zeros = re.sub(rb"(?m) \S+$", b" 0", page)
    config = Config.model_validate({"poll": {"filter": "off", "histogram_interval": "1s"}})
    server, clock = _Server(zeros, page, page), FakeClock()
    with patch("spec_decode_exporter.monitor.target_monitor.Client", lambda *_, **__: server):
        shared = Shared(clock, Remembered(), EventLog("1"))
        watch = TargetMonitor(Target("http://hostile/metrics", "hostile"), config, shared)
    poller = watch.poller()
    for _ in range(3):
        clock.now += 1  # so that histograms are due in each
        await poller.poll()
        if not watch.status().record.up:
            raise RejectedError(watch.status().record.failure_text)
    for labels, snapshot in watch.snapshots():
        EngineView(labels=labels, snapshot=snapshot).model_dump_json()
    return watch


async def _read(page: bytes) -> object:
    return await _watched(page)


async def _read_gauges(page: bytes) -> object:
    """Raise ``RejectedError`` also for an absent gauge: its value is rejected, the page is not."""
    watch = await _watched(page)
    for engine, *_ in watch.engines.values():
        sample = engine.history.sample
        for name in _NAMES[Gauge]:
            gauge = MEANINGS[name.encode()].quantity
            if sample is not None and name.encode() in page and sample.gauge(gauge) is None:
                raise RejectedError(f"{name} is absent")
    return watch


def _page(samples: Mapping[str, object], engines: int = 1) -> Callable[[], bytes]:
    """Return a generator of a page with these samples, by name and labels, for each engine."""

    def generate() -> bytes:
        lines = [
            f'{name}{{engine="{engine}",model_name="m"{labels}}} {value}'
            for engine in range(engines)
            for (name, _, labels), value in ((key.partition(" "), value) for key, value in samples.items())
        ]
        return "\n".join([*lines, ""]).encode()

    return generate


def _counters(value: object) -> dict[str, object]:
    return dict.fromkeys(_NAMES[Counter], value)


def _positions(value: object, number: int = MAX_POSITIONS) -> dict[str, object]:
    return {f'{_POSITION} ,position="{position}"': value for position in range(number)}


def _buckets(value: object, bounds: tuple[object, ...]) -> dict[str, object]:
    return {f'{name} ,le="{bound}"': value for name, bound in product(_NAMES[Latency], bounds)}


def _gauges(factor: float) -> dict[str, object]:
    return {name: factor * MAX_GAUGES[MEANINGS[name.encode()].quantity] for name in _NAMES[Gauge]}


_MOST: Final = MAX_COUNT - 1
_LEAPS: Final = MAX_INCREMENT // 10**9
_BOUNDS: Final = (*(n / 1000 for n in range(1, 30)), MAX_SECONDS, "+Inf")

ROWS: tuple[Row, ...] = (
    Row(
        name="counters of a metrics page",
        read=_read,
        worst={
            "every counter at the most": _page({**_counters(_MOST), **_positions(_MOST)}),
            "every counter at the most, of many engines": _page(_counters(_MOST), _ENGINES),
            "times that leap as far as is counted": _page(_counters(_LEAPS - 1)),
            "fractions below a nanosecond": _page(_counters(1e-320)),
            "numbers that are slow to read": _page(
                _counters("5" * (MAX_NUMBER_CHARACTERS - 5) + f"e-{MAX_NUMBER_CHARACTERS}"), _ENGINES
            ),
            "tokens without drafts": _page({**_counters(_MOST), _DRAFTS: 0}),
            "drafts without tokens": _page({**_counters(0), _DRAFTS: _MOST}),
        },
        beyond={
            "value": _page(_counters(MAX_COUNT)),
            "sign": _page({_DRAFTS: -1}),
            "number": _page({_DRAFTS: "NaN"}),
            "characters of a number": _page({_DRAFTS: "5" * MAX_NUMBER_CHARACTERS + "e-512"}),
            "infinity": _page({_DRAFTS: "+Inf"}),
            "sum": _page({_DRAFTS: _MOST, f'{_DRAFTS} ,pod="1"': _MOST}),
        },
    ),
    Row(
        name="gauges of a metrics page",
        read=_read_gauges,
        worst={
            "every gauge at the most": _page({**_counters(1000), **_gauges(1)}),
            "every gauge at the most, of many engines": _page(_gauges(1), _ENGINES),
            "gauges that are hardly a number": _page({**_counters(1000), **_gauges(1e-320)}),
        },
        beyond={
            "value": _page(_gauges(1.0001)),
            "the largest number": _page(dict.fromkeys(_NAMES[Gauge], 1.7976931348623157e308)),
            "sign": _page(dict.fromkeys(_NAMES[Gauge], -1e-9)),
            "number": _page(dict.fromkeys(_NAMES[Gauge], "NaN")),
            "infinity": _page(dict.fromkeys(_NAMES[Gauge], inf)),
        },
    ),
    Row(
        name="histogram buckets of a metrics page",
        read=_read,
        worst={
            "every bucket at the most": _page(_buckets(_MOST, _BOUNDS)),
            "every bucket at the most, of many engines": _page(_buckets(_MOST, _BOUNDS), _ENGINES // 2),
            "bounds that are hardly a number": _page(
                _buckets(1000, (0, 5e-324, 1e-320, MAX_SECONDS, "+Inf"))
            ),
            "counts that are not cumulative": _page(
                {**_buckets(_MOST, (0.1,)), **_buckets(0, (1,)), **_buckets(1, ("+Inf",))}
            ),
        },
        beyond={
            "bound": _page(_buckets(1, (2 * MAX_SECONDS, "+Inf"))),
            "sign of the bound": _page(_buckets(1, (-1, "+Inf"))),
            "infinity of the bound": _page(_buckets(1, ("-Inf", "+Inf"))),
            "number in the bound": _page(_buckets(1, ("NaN", "+Inf"))),
            "length of the bound": _page(_buckets(1, ("9" * 400, "-1"))),
            "count": _page(_buckets(MAX_COUNT, (1, "+Inf"))),
        },
    ),
)
