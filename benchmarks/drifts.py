"""Alarms of SpecDecodeSlowDrift a week, its delays, and what SpecDecodeSuddenDrop leaves out.

    python -m benchmarks.drifts [--only slow nightly] [--days 15] [--series 4] [--seed 1] [--smoke]

``slow``: the traffic of ``benchmarks.drops``, as counters each five minutes. A decline begins in the fourth
day: fewer tokens are accepted, so that the length is 15 % less after 3 hours. ``nightly``: a job of hard
requests each night, with what the exporter says each minute. A real Prometheus evaluates the rules.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
import time
import urllib.parse
import urllib.request
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import inf
from pathlib import Path
from statistics import median
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import yaml

from benchmarks.console import parsed, parser, print_table
from benchmarks.drops import (
    DAY,
    HOUR,
    MINUTE,
    POLL,
    TRAFFIC,
    Array,
    Random,
    begun,
    detected,
    drops,
    jobs,
    served,
)
from benchmarks.servers import free_port, require, running, wait_until_ready
from spec_decode_exporter.config.types import parse_duration
from spec_decode_exporter.drops.sums import DropKind

STEP: Final = 5 * MINUTE
RECORD: Final = "peers:spec_decode_acceptance_length:ratio_rate1h"
DECLINE, DECLINE_SECONDS = 0.15, 3 * HOUR
OBSERVED: Final = 14 * HOUR
"""Time after the begin of a decline in which it may be found."""
LABELS: Final = 'method="eagle3",draft_model="d",tokens="3"'
"""What ``engine:spec_decode_speculation:info`` adds."""


Samples: TypeAlias = Sequence[tuple[int, float]]
"""Seconds since the begin, and values."""
BLOCK: Final = 7200
"""Seconds of a block of Prometheus' storage."""


class Prometheus(NamedTuple):
    """A running Prometheus whose series begin at a Unix time."""

    address: str
    begin: int
    end: int

    def evaluated(self, expression: str, step: int) -> dict[str, dict[int, float]]:
        """Return an expression's values by series and second, at each step."""
        asked = {"query": expression, "start": self.begin + step, "end": self.end, "step": step}
        url = f"http://{self.address}/api/v1/query_range?{urllib.parse.urlencode(asked)}"
        with urllib.request.urlopen(url, timeout=300) as answer:
            result = json.load(answer)["data"]["result"]
        return {
            _text(series["metric"]): {round(at) - self.begin: float(value) for at, value in series["values"]}
            for series in result
        }


@contextmanager
def prometheus(recorded: Mapping[str, Samples], seconds: int) -> Iterator[Prometheus]:
    """Run a Prometheus that holds the last ``seconds``; ``recorded`` has the samples by ``name{labels}``."""
    begin = (int(time.time()) - seconds - BLOCK) // BLOCK * BLOCK
    with tempfile.TemporaryDirectory() as directory:
        page, config, data = (
            Path(directory, "recorded.om"),
            Path(directory, "prometheus.yml"),
            f"{directory}/data",
        )
        page.write_text(_open_metrics(recorded, begin))
        config.write_text("{}\n")
        backfill = ["promtool", "tsdb", "create-blocks-from", "openmetrics", "--quiet"]
        subprocess.run([*backfill, "--max-block-duration=512h", str(page), data], check=True)
        port = free_port()
        address = f"127.0.0.1:{port}"
        with running(
            "prometheus",
            f"--config.file={config}",
            f"--storage.tsdb.path={data}",
            "--storage.tsdb.retention.time=10y",
            f"--web.listen-address={address}",
            "--log.level=error",
        ):
            wait_until_ready(port)
            end = max(second for samples in recorded.values() for second, _ in samples)
            yield Prometheus(address, begin, begin + end)


def shipped(rule: str) -> dict[str, Any]:
    """Return a shipped rule by its name; an alert has the records of its own file in its expression."""
    for path in sorted((Path(__file__).parents[1] / "config" / "prometheus").glob("*/*.yml")):
        groups = yaml.safe_load(path.read_text())["groups"]
        rules: list[dict[str, Any]] = [each for group in groups for each in group["rules"]]
        found = next((each for each in rules if rule in (each.get("alert"), each.get("record"))), None)
        if found is not None:
            for each in rules:
                if "record" in each and path.parent.name == "alerts":
                    found["expr"] = found["expr"].replace(each["record"], f"({each['expr']})")
            return found
    raise LookupError(rule)


def _open_metrics(recorded: Mapping[str, Samples], begin: int) -> str:
    lines: dict[str, list[str]] = {}
    for name, samples in recorded.items():
        family = name.partition("{")[0].removesuffix("_total")
        kind = "counter" if "_total" in name else "gauge"
        written = lines.setdefault(family, [f"# TYPE {family} {kind}"])
        written += [f"{name.replace('{}', '')} {value:.17g} {begin + second}" for second, value in samples]
    return "\n".join([*(line for written in lines.values() for line in written), "# EOF", ""])


def _text(labels: Mapping[str, str]) -> str:
    """Return the labels of a series as ``recorded`` has them."""
    pairs = (f'{name}="{value}"' for name, value in labels.items() if name != "__name__")
    return f"{{{','.join(pairs)}}}"


def counters(random: Random, share: Array, begin: float) -> Array:
    """Return the drafts and the accepted tokens until each step; a decline begins at a second."""
    polled = served(random, share)
    whole = np.stack([polled.drafts, polled.positions.sum(axis=1)])
    sums = whole.reshape(2, -1, STEP // POLL).sum(axis=2)
    fallen = DECLINE * np.clip((np.arange(sums.shape[1]) * STEP - begin) / DECLINE_SECONDS, 0, 1)
    length = 1 + sums[1].sum() / sums[0].sum()
    sums[1] = random.binomial(sums[1], np.clip(1 - fallen * length / (length - 1), 0, 1))
    return np.cumsum(sums, axis=1)


def samples(values: Array, step: int) -> Samples:
    return [((place + 1) * step, value) for place, value in enumerate(values.tolist())]


def alarms(true_at: Mapping[int, float], lasting: float, kept: float, step: int) -> list[int]:
    """Return when an alert begins to fire, by the seconds at which its expression is true."""
    found: list[int] = []
    since = last = -inf
    fires_until = -inf
    for second in sorted(true_at):
        if second - last > step:
            since = second
        last = second
        if second - since >= lasting:
            if second > fires_until + step:
                found.append(second)
            fires_until = second + kept
    return found


def slow_alarms(recorded: dict[str, Samples], seconds: int) -> dict[str, list[int]]:
    """Return the alarms of SpecDecodeSlowDrift, by the ``model_name`` of the counters."""
    names = sorted({name.split('"')[1] for name in recorded})
    info = {
        f'engine:spec_decode_speculation:info{{model_name="{name}",{LABELS}}}': samples(
            np.ones(seconds // STEP), STEP
        )
        for name in names
    }
    with prometheus(recorded | info, seconds) as started:
        lengths = started.evaluated(shipped(RECORD)["expr"], STEP)
    written: dict[str, Samples] = {f"{RECORD}{labels}": [*each.items()] for labels, each in lengths.items()}
    rule = shipped("SpecDecodeSlowDrift")
    lasting, kept = (parse_duration(rule[key]) for key in ("for", "keep_firing_for"))
    with prometheus(written, seconds) as started:
        found = started.evaluated(rule["expr"], STEP)
    by_name = {labels.partition('model_name="')[2].split('"')[0]: each for labels, each in found.items()}
    return {name: alarms(by_name.get(name, {}), lasting, kept, STEP) for name in names}


def recorded(
    arguments: Namespace, seconds: int, *, declines: bool
) -> tuple[dict[str, Samples], dict[str, float]]:
    """Return the counters of each traffic, and the begin of its decline by ``model_name``."""
    series: dict[str, Samples] = {}
    begins: dict[str, float] = {}
    for name, traffic in TRAFFIC.items():
        for place, own in enumerate(np.random.default_rng(arguments.seed).spawn(arguments.series)):
            model = f"{name}|{place}"
            begins[model] = float(own.uniform(3, 4) * DAY) if declines else inf
            drafts, accepted = counters(own, traffic(own, seconds // MINUTE), begins[model])
            series[f'spec_decode_drafts_total{{model_name="{model}"}}'] = samples(drafts, STEP)
            series[f'spec_decode_accepted_tokens_total{{model_name="{model}"}}'] = samples(accepted, STEP)
    return series, begins


def print_slow(arguments: Namespace) -> None:
    number, long, short = arguments.series, round(arguments.days * DAY), 5 * DAY
    print(f"\nSpecDecodeSlowDrift, {number} times {arguments.days:g} days, and {number} declines, of each\n")
    false = slow_alarms(recorded(arguments, long, declines=False)[0], long)
    series, begins = recorded(arguments, short, declines=True)
    found = slow_alarms(series, short)

    def row(name: str) -> list[str]:
        models = [model for model in begins if model.startswith(f"{name}|")]
        weeks = number * (long - DAY) / (7 * DAY)
        delays = [
            next((late / HOUR for at in found[each] if 0 < (late := at - begins[each]) <= OBSERVED), inf)
            for each in models
        ]
        within = (str(sum(delay <= hours for delay in delays)) for hours in (4, 7))
        a_week = sum(len(false[each]) for each in models) / weeks
        return [name, f"{a_week:.2f}", *within, f"{median(delays):.1f}", str(delays.count(inf))]

    heads = ["traffic", "alarms a week", "within 4 h", "within 7 h", "median, h", "never"]
    print_table(heads, map(row, TRAFFIC))


def print_nightly(arguments: Namespace) -> None:
    print("\nDrops of nightly jobs: what the exporter shows, and what SpecDecodeSuddenDrop says\n")
    seconds, rule = 7 * DAY, shipped("SpecDecodeSuddenDrop")

    def row(own: Random, place: int) -> list[str]:
        polled = served(own, jobs(own, seconds // MINUTE))
        flags = np.zeros(seconds // MINUTE)
        for drop in drops(detected(polled, POLL)):
            if drop.kind is DropKind.SUDDEN:
                flags[round(drop.begin) // MINUTE : round(min(drop.end, seconds)) // MINUTE] = 1
        counts = np.stack([polled.drafts, polled.positions.sum(axis=1)])
        whole = np.cumsum(counts.reshape(2, -1, MINUTE // POLL).sum(axis=2), axis=1)
        drafts, accepted = np.array([np.concatenate([each[:5], each[5:] - each[:-5]]) for each in whole])
        recorded = {
            'spec_decode_acceptance_dropped{kind="sudden"}': samples(flags, MINUTE),
            'spec_decode_acceptance_length_tokens{window="5m"}': samples(
                1 + accepted / np.maximum(drafts, 1), MINUTE
            ),
        }
        with prometheus(recorded, seconds) as started:
            [true_at] = started.evaluated(rule["expr"], MINUTE).values()
        fired = alarms(true_at, 0, parse_duration(rule["keep_firing_for"]), MINUTE)
        return [str(place + 1), str(len(begun(polled))), str(len(fired))]

    randoms = np.random.default_rng(arguments.seed).spawn(arguments.series)
    heads = ["week", "drops", "alarms"]
    print_table(heads, (row(own, place) for place, own in enumerate(randoms)))


PARTS = {"slow": print_slow, "nightly": print_nightly}


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--days", type=float, default=15.0, help="slow: of each series without a decline")
    options.add_argument("--series", type=int, default=4, help="of each traffic")
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    arguments = parsed(options, days=6.0, series=1)
    require("prometheus", "promtool")
    for part in arguments.only:
        PARTS[part](arguments)


if __name__ == "__main__":
    main()
