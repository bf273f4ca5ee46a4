"""What Prometheus scrapes of an exporter in the cases of the alerts: recorded once, evaluated often.

``make alert-series`` lives through every case that is not current and writes its series to tests/data/alerts. Each file
has two hashes: of the case, and of the code from a simulated server to the metrics page, without comments and docstrings.
``make test`` evaluates the files by promtool. ``make e2e`` records again where the code has changed, and evaluates that.
"""

from __future__ import annotations

import ast
import asyncio
import hashlib
import json
import lzma
import os
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from pathlib import Path
from typing import Any

from structlog.testing import capture_logs

from spec_decode_exporter.config.mistakes import ConfigError, Problem
from spec_decode_exporter.config.schema import Config
from spec_decode_exporter.metrics.page import MetricsPage
from tests.contract.rules.alert_cases import CASES, FOLDER, SERIES, Case
from tests.fakes.moved_fleet import TURNS, WALL, MovedFleet, Server, running
from tests.fakes.scenarios import scenario
from tests.paths import CHECKOUT

_PACKAGE = CHECKOUT / "exporter" / "spec_decode_exporter"
_ON_THE_WAY = (
    *("simulator", "core", "config", "scrape", "window", "figures", "costs", "analysis", "drops"),
    *("findings", "experiments", "requests", "monitor", "metrics", "app"),
)
"""Packages from the simulated server to the metrics page."""
_LIVED = CHECKOUT / "tests" / "fakes" / "moved_fleet.py"
_ALLOWED_ERRORS = {"reload_failed"}

Series = list[dict[str, str]]
"""As promtool reads them: each with its name and labels, and its values."""


class _Recording:
    """The samples of every series of an exporter, by the number of the scrape."""

    def __init__(self, labels: Mapping[str, str]) -> None:
        self._labels = ",".join(f'{label}="{text}"' for label, text in labels.items())
        self._samples: dict[str, dict[int, float]] = defaultdict(dict)

    def add(self, scrape: int, page: str) -> None:
        for line in page.splitlines():
            series, _, value = line.rpartition(" ")
            name, _, own = series.partition("{")
            if name in SERIES:
                labels = f"{self._labels},{own}" if own else f"{self._labels}}}"
                self._samples[f"{name}{{{labels}"][scrape] = float(value)

    def written(self) -> Series:
        return [{"series": name, "values": _values(name, samples)} for name, samples in self._samples.items()]


def _values(name: str, samples: Mapping[int, float]) -> str:
    """Return values in promtool's notation: its clock begins at 0, ``1x2`` is ``1 1 1``, and ``_x2`` is ``_ _``."""
    past = WALL if "_timestamp_seconds{" in name else 0.0
    words: list[list[Any]] = []
    seen = False
    for scrape in range(max(samples) + 2):
        value = samples.get(scrape)
        seen = seen or value is not None
        word = _number(value - past) if value is not None else "stale" if seen else "_"
        if words and words[-1][0] == word and word != "stale":
            words[-1][1] += 1
        else:
            words.append([word, 0])
    return " ".join(f"{word}x{more + (word == '_')}" if more else word for word, more in words)


def _number(value: float) -> str:
    """Write a count exactly, and any other number with six digits."""
    return f"{value:.17g}" if value.is_integer() else f"{value:.6g}"


def record(case: Case) -> Series:
    """Live through a case; fail if an exporter logs an error."""
    with capture_logs() as logs:
        recordings = [asyncio.run(_record(case, *exporter)) for exporter in case.exporters()]
    errors = [entry for entry in logs if entry["log_level"] == "error"]
    assert [entry for entry in errors if entry["event"] not in _ALLOWED_ERRORS] == []
    return [series for recording in recordings for series in recording.written()]


async def _record(case: Case, servers: Sequence[Server], labels: Mapping[str, str]) -> _Recording:
    recording, config = _Recording(labels), case.config(servers)
    configs = iter([config])
    async with running(servers, lambda: _next(configs), telling=case.requests) as fleet:
        page = MetricsPage(lambda: config.metrics)
        for scrape in range(case.minutes * 60 // case.scrape):
            minute = scrape * case.scrape / 60
            if minute == case.mistake:
                await _reload(fleet)
            await fleet.network.send(fleet.service)
            if int(minute) not in range(*case.absent):
                is_up = int(minute) not in range(*case.down)
                text = page.text(await fleet.service.state.snapshot()) if is_up else ""
                recording.add(scrape, f"up {int(is_up)}\n{text}")
            await fleet.clock.advance(case.scrape, TURNS)
    return recording


def _next(configs: Iterator[Config]) -> Config:
    for config in configs:
        return config
    raise ConfigError([Problem("exporter.yml:1", "tagrets", "is not a key")])


async def _reload(fleet: MovedFleet) -> None:
    try:
        await fleet.service.reload()
    except ConfigError:
        return
    raise AssertionError("the mistake was not noticed")


def case_hash(case: Case) -> str:
    """Return the hash of a case without what must fire, with the scenarios of its servers."""
    names = sorted({server.scenario for server in case.servers.values()})
    scenarios = [scenario(name).model_dump_json() for name in names]
    told = case.model_dump_json(exclude={"fires", "also", "since"})
    return hashlib.sha256("\n".join([told, *scenarios]).encode()).hexdigest()[:16]


def code_hash() -> str:
    """Return the hash of the code that a recording depends on."""
    files = [_LIVED, *(path for name in _ON_THE_WAY for path in sorted((_PACKAGE / name).rglob("*.py")))]
    texts = (f"{path.relative_to(CHECKOUT)}\n{code_of(path.read_text(encoding='utf-8'))}" for path in files)
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:16]


def code_of(text: str) -> str:
    """Return a module without docstrings and lines that are only comments."""
    lines = text.splitlines()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            for number in range(node.lineno - 1, node.end_lineno or node.lineno):
                lines[number] = ""
    return "\n".join(line for line in lines if line.strip() and not line.lstrip().startswith("#"))


def path_of(title: str) -> Path:
    """Return the file of a case."""
    return FOLDER / f"{re.sub(r'[^a-z]+', '-', title.lower())}.json.xz"


def read(title: str) -> Mapping[str, Any]:
    """Return the hashes and the series of a case; without a file, no hash."""
    path = path_of(title)
    return json.loads(lzma.decompress(path.read_bytes())) if path.exists() else {"case": "", "code": ""}


def write(title: str, series: Series) -> None:
    """Write the file of a case."""
    document = {"case": case_hash(CASES[title]), "code": code_hash(), "series": series}
    path_of(title).write_bytes(lzma.compress(json.dumps(document, indent=0).encode(), preset=9))


def recorded(titles: Iterable[str], pool: ProcessPoolExecutor) -> dict[str, Future[Series]]:
    """Record cases side by side."""
    return {title: pool.submit(record, CASES[title]) for title in titles}


def outdated() -> list[str]:
    """Return the cases whose file is of other code or of another case."""
    code, found = code_hash(), {title: read(title) for title in CASES}
    return [
        title
        for title, file in found.items()
        if (file["case"], file["code"]) != (case_hash(CASES[title]), code)
    ]


def polite_pool() -> ProcessPoolExecutor:
    """Return processes that leave the processor to programs that measure time."""
    return ProcessPoolExecutor(initializer=os.nice, initargs=(10,))


def main() -> None:
    """Write the series that are outdated; delete those of no case."""
    for path in set(FOLDER.glob("*.xz")) - {path_of(title) for title in CASES}:
        path.unlink()
    with polite_pool() as pool:
        for title, series in recorded(sys.argv[1:] or outdated(), pool).items():
            write(title, series.result())
            sys.stdout.write(f"{title}: {path_of(title).stat().st_size:,} bytes\n")


if __name__ == "__main__":
    main()
