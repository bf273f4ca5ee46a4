"""A real Prometheus that holds series of the past, and what it evaluates over them."""

from __future__ import annotations

import json
import subprocess
import tempfile
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import yaml

from benchmarks.process import free_port, running

Samples: TypeAlias = Sequence[tuple[int, float]]
"""Seconds since the begin, and values."""
BLOCK: Final = 7200
"""Seconds of a block of Prometheus' storage."""


class Prometheus(NamedTuple):
    """A running Prometheus whose series begin at a Unix time."""

    address: str
    begin: int
    end: int

    def evaluated(self, expression: str, first: int, step: int) -> dict[str, dict[int, float]]:
        """Return an expression's values by series and second, at each step from the second ``first`` on."""
        asked = {"query": expression, "start": self.begin + first, "end": self.end, "step": step}
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
        address = f"127.0.0.1:{free_port()}"
        with running(
            "prometheus",
            f"--config.file={config}",
            f"--storage.tsdb.path={data}",
            "--storage.tsdb.retention.time=10y",
            f"--web.listen-address={address}",
            "--log.level=error",
        ):
            _wait_for(f"http://{address}/-/ready")
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


def _wait_for(url: str) -> None:
    for _ in range(600):
        try:
            with urllib.request.urlopen(url, timeout=1):
                return
        except OSError:
            time.sleep(0.1)
    raise RuntimeError("Prometheus did not become ready")
