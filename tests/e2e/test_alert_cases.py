"""The shipped alerts, by promtool, on what Prometheus scrapes of an exporter: hours of simulated servers in seconds."""

from __future__ import annotations

import asyncio
import os
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any
from unittest.mock import Mock

import pytest
from structlog.testing import capture_logs

from spec_decode_exporter.config.mistakes import ConfigError, Problem
from spec_decode_exporter.metrics.page import MetricsPage
from tests.contract.promql import promtool
from tests.contract.rules.alert_cases import CASES, SERIES, Case
from tests.fakes.moved_fleet import TURNS, WALL, Server, running

_ALLOWED_ERRORS = {"reload_failed"}

Series = list[dict[str, str]]  # as promtool reads them: each with its name and labels, and its values


def _values(name: str, samples: Mapping[int, float]) -> str:
    """Return values in promtool's notation: its clock begins at 0, ``1x2`` is ``1 1 1``, and ``_x2`` is ``_ _``.

    A count is written exactly, and any other number with six digits.
    """
    past = WALL if "_timestamp_seconds{" in name else 0.0
    words: list[list[Any]] = []
    missing = "_"
    for scrape in range(max(samples) + 2):
        word = missing
        if scrape in samples:
            value, missing = samples[scrape] - past, "stale"
            word = f"{value:.17g}" if value.is_integer() else f"{value:.6g}"
        if words and words[-1][0] == word and word != "stale":
            words[-1][1] += 1
        else:
            words.append([word, 0])
    return " ".join(f"{word}x{more + (word == '_')}" if more else word for word, more in words)


def record(case: Case) -> Series:
    """Live through a case; fail if an exporter logs an error."""
    with capture_logs() as logs:
        recordings = [asyncio.run(_record(case, *exporter)) for exporter in case.exporters()]
    errors = [entry for entry in logs if entry["log_level"] == "error"]
    assert [entry for entry in errors if entry["event"] not in _ALLOWED_ERRORS] == []
    return [
        {"series": name, "values": _values(name, samples)}
        for recording in recordings
        for name, samples in recording.items()
    ]


def _samples(page: str, scraped: str) -> Iterator[tuple[str, float]]:
    """Yield the series that alerts use, each with the labels of its scrape before its own, and their values."""
    for line in page.splitlines():
        series, _, value = line.rpartition(" ")
        name, _, own = series.partition("{")
        if name in SERIES:
            yield name + "{" + scraped + ("," + own if own else "}"), float(value)


async def _record(
    case: Case, servers: Sequence[Server], labels: Mapping[str, str]
) -> dict[str, dict[int, float]]:
    """Return the samples of every series of an exporter with these labels, by the number of the scrape."""
    samples: dict[str, dict[int, float]] = defaultdict(dict)
    scraped = ",".join(f'{label}="{text}"' for label, text in labels.items())
    config = case.config(servers)
    mistake = ConfigError([Problem("exporter.yml:1", "tagrets", "is not a key")])
    async with running(servers, Mock(side_effect=[config, mistake]), telling=case.requests) as fleet:
        page = MetricsPage(lambda: config.metrics)
        for scrape in range(case.minutes * 60 // case.scrape):
            minute = scrape * case.scrape / 60
            if minute == case.mistake:
                with pytest.raises(ConfigError):
                    await fleet.service.reload()
            await fleet.network.send(fleet.service)
            if int(minute) not in range(*case.absent):
                is_up = int(minute) not in range(*case.down)
                text = page.text(await fleet.service.state.snapshot()) if is_up else ""
                for series, value in _samples(f"up {int(is_up)}\n{text}", scraped):
                    samples[series][scrape] = value
            await fleet.clock.advance(case.scrape, TURNS)
    return samples


@pytest.fixture(scope="module")
def lived():
    """Live through all cases, side by side, in processes that leave the processor to programs that measure time."""
    with ProcessPoolExecutor(initializer=os.nice, initargs=(10,)) as pool:
        yield {title: pool.submit(record, case) for title, case in CASES.items()}
        pool.shutdown(cancel_futures=True)


# The first case waits while processes live through all of them, beside other tests.
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("title", CASES)
def test_the_alerts_of(title, lived, prometheus_tools, tmp_path):
    path = tmp_path / "case.json"
    path.write_text(CASES[title].promtool(lived[title].result()))
    status, output = promtool("test", "rules", path)
    assert status == 0, output
