"""Reading baselines of histories: how long each slice keeps the event loop from its polls.

    python -m benchmarks.history_baseline [--days 14] [--smoke]

A server of its own process has the counters of an engine; the first tenth of the time is without speculation.
The reader of baselines finds it and reads its last day, as in the exporter. Beside it a task takes each turn
of the event loop; the longest processor time between two turns is how late a poll may be.
"""

from __future__ import annotations

import asyncio
import time
from typing import NamedTuple

from benchmarks.history import history_server
from benchmarks.history_server import END
from benchmarks.options import end, parsed, parser
from benchmarks.table import table
from spec_decode_exporter.config.schema import PrometheusSettings
from spec_decode_exporter.history.baseline_reader import KEYS, MAX_VALUES, BaselineReader
from spec_decode_exporter.history.history_baselines import open_client
from spec_decode_exporter.history.query_api import QueryApi

MAX_TURN = 0.1
"""Maximum processor seconds of a turn: a tenth of a poll interval."""


class Reading(NamedTuple):
    """Cost of reading one baseline."""

    period: str
    seconds: float
    cpu_seconds: float
    longest_turn: float


async def measured(port: int, lookback: float) -> Reading:
    """Return the cost of reading the baseline of the server at a port."""
    settings = PrometheusSettings(url=f"http://127.0.0.1:{port}", lookback=f"{round(lookback)}s")
    client = open_client(settings)
    begun, used = time.monotonic(), time.process_time()
    turns = [0.0]
    watching = asyncio.ensure_future(_watch(turns))
    try:
        reader = BaselineReader(
            QueryApi(settings.url, client, remedies=KEYS, max_values=MAX_VALUES), "", END - lookback, END
        )
        (server,) = await reader.servers()
        (baseline,) = (await reader.read(server)).values()
    finally:
        watching.cancel()
        await client.close()
    period = baseline.period(END)
    assert period
    return Reading(period.name, time.monotonic() - begun, time.process_time() - used, max(turns))


async def _watch(turns: list[float]) -> None:
    """Note the longest processor time between two turns of the event loop."""
    last = time.process_time()
    while True:
        await asyncio.sleep(0)
        now = time.process_time()
        turns[0] = max(turns[0], now - last)
        last = now


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--days", type=float, default=14.0)
    options = parsed(arguments, days=0.5)
    rows, missed = [], []
    # At 1 s two weeks would be gigabytes of the server.
    for interval, days in ((15, options.days), (1, options.days / 7)):
        seconds = int(days * 86_400)
        with history_server(1, seconds, interval) as port:
            reading = asyncio.run(measured(port, seconds))
        rows.append(
            [
                f"{interval} s",
                reading.period,
                f"{reading.seconds:.1f}",
                f"{reading.cpu_seconds:.1f}",
                f"{1e3 * reading.longest_turn:.0f}",
            ]
        )
        if reading.longest_turn > MAX_TURN:
            missed.append(f"a turn of {reading.longest_turn:.2f} s at {interval} s, at most {MAX_TURN} s")
    table(["scrapes", "baseline", "seconds", "CPU seconds", "longest turn, ms"], rows)
    end(options, missed)


if __name__ == "__main__":
    main()
