"""Query API of a Prometheus that has the counters of some engines, from a process of its own.

    python -m benchmarks.history_server ENGINES SECONDS INTERVAL

Each engine is a server of its own with load by day and night: the first tenth of the time without
speculation, then with four draft tokens, of which fewer are accepted in the afternoon of each day. Prints its
port and the Unix time of the newest sample.
"""

from __future__ import annotations

import json
import random
import re
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import accumulate
from math import exp, sin
from urllib.parse import parse_qs, urlsplit

END = 1_790_000_000
POSITIONS = 4
_DAY = 86_400
_STEP = 0.02


class Engine:
    """Series of one engine: values at every scrape."""

    def __init__(self, number: int, seconds: int, interval: int) -> None:
        self.instance = f"vllm-{number}:8000"
        self._labels = {"instance": self.instance, "job": "vllm", "model_name": "llama", "engine": "0"}
        draw = random.Random(number)
        self.times = list(range(END - seconds, END + 1, interval))
        enabled = self.times[0] + seconds // 10
        self.enabled = next(place for place, time in enumerate(self.times) if time > enabled)
        """Place of the first scrape with drafts; before it there are no such series."""
        rows = [_row(draw, time, interval, drafts=time > enabled) for time in self.times]
        columns = list(zip(*rows, strict=True))
        names = (
            "generation_tokens_total",
            "time_to_first_token_seconds_count",
            "time_to_first_token_seconds_sum",
            "inter_token_latency_seconds_count",
            "inter_token_latency_seconds_sum",
            "prompt_tokens_total",
            "prefix_cache_queries_total",
            "prefix_cache_hits_total",
            "e2e_request_latency_seconds_count",
            "e2e_request_latency_seconds_sum",
            "num_preemptions_total",
            "spec_decode_num_drafts_total",
            "spec_decode_num_draft_tokens_total",
            "spec_decode_num_accepted_tokens_total",
        )
        self.series: list[tuple[dict[str, str], list[str]]] = []
        for name, column in zip(names, columns, strict=False):
            self._add(name, [f"{value:.10g}" for value in accumulate(column)])
        for position in range(POSITIONS):
            column = columns[len(names) + position]
            name = "spec_decode_num_accepted_tokens_per_pos_total"
            self._add(name, [str(value) for value in accumulate(column)], position=str(position))
        for gauge, value in zip(("num_requests_running", "num_requests_waiting"), (-1, None), strict=True):
            self._add(gauge, [str(row[value]) if value else "0" for row in rows])
        self._add("kv_cache_usage_perc", ["0.5"] * len(rows))
        self._add("generation_tokens_created", [str(self.times[0] - 60)] * len(rows))

    def _add(self, name: str, values: list[str], **labels: str) -> None:
        self.series.append(({"__name__": f"vllm:{name}", **self._labels, **labels}, values))


def _row(draw: random.Random, time: int, interval: int, *, drafts: bool) -> tuple[float, ...]:
    """Return the increments of a scrape, and the running requests."""
    running = round(6 + 4 * sin(time / _DAY * 6.283)) + draw.randrange(2)
    probability = 0.75 if time % _DAY < _DAY * 0.6 else 0.5
    slower = 1.3 if drafts else 1.0
    steps = round(running * interval / _STEP / slower * (1 + draw.gauss(0.0, 0.02)))
    accepted = [
        round(steps * probability ** (place + 1) * exp(draw.gauss(0.0, 0.02))) if drafts else 0
        for place in range(POSITIONS)
    ]
    accepted = list(accumulate(accepted, min))
    first = max(1, round(running * interval / 8))
    tokens = steps + sum(accepted) + first
    drafted = steps if drafts else 0
    head = (tokens, first, 0.2 * first, steps, steps * _STEP * slower, 400 * first, 400 * first, 100 * first)
    return (*head, first, 8.0 * first, 0, drafted, POSITIONS * drafted, sum(accepted), *accepted, running)


class Handler(BaseHTTPRequestHandler):
    """Answers the queries of the exporter."""

    engines: tuple[Engine, ...] = ()
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Answer a query."""
        parts = urlsplit(self.path)
        values = {name: each[0] for name, each in parse_qs(parts.query).items()}
        if values.get("query") == "time()":
            data = json.dumps({"resultType": "scalar", "result": [END, str(END)]})
        elif parts.path.endswith("/series"):
            data = json.dumps([labels for engine in self.engines for labels, _ in engine.series])
        else:
            data = self._samples(values)
        body = f'{{"status":"success","data":{data}}}'.encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Log nothing."""

    def _samples(self, values: dict[str, str]) -> str:
        instance = re.search(r'instance="([^"]*)"', values["query"])
        assert instance
        engine = next(each for each in self.engines if each.instance == instance[1])
        chosen = _every_step(engine, values) if "step" in values else _raw(engine, values)
        found = []
        for labels, column in engine.series:
            begin = engine.enabled if "spec_decode" in labels["__name__"] else 0
            pairs = ",".join(
                f'[{engine.times[place]},"{column[place]}"]' for place in chosen if place >= begin
            )
            if not pairs:
                continue
            found.append(f'{{"metric":{json.dumps(labels)},"values":[{pairs}]}}')
        return f'{{"resultType":"matrix","result":[{",".join(found)}]}}'


def _raw(engine: Engine, values: dict[str, str]) -> list[int]:
    """Return the places of the scrapes of a range selector."""
    seconds = re.search(r"\[(\d+)s\]", values["query"])
    assert seconds
    end = float(values["time"])
    return _places(engine, end - int(seconds[1]), end)


def _every_step(engine: Engine, values: dict[str, str]) -> list[int]:
    """Return the places of the scrapes at each step of a range query."""
    places = _places(engine, float(values["start"]), float(values["end"]))
    interval = engine.times[1] - engine.times[0]
    return places[:: max(1, int(values["step"]) // interval)]


def _places(engine: Engine, begin: float, end: float) -> list[int]:
    return [place for place, time in enumerate(engine.times) if begin <= time <= end]


def main() -> None:
    engines, seconds, interval = map(int, sys.argv[1:])
    Handler.engines = tuple(Engine(number, seconds, interval) for number in range(engines))
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print(server.server_address[1], flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
