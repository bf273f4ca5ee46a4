"""The numbers of /metrics are those of the files, to the last digit: see README.md."""

import gzip
import json
from dataclasses import replace
from pathlib import Path

import pytest

from spec_decode_exporter.config.cost_settings import SpeculativeSettings
from spec_decode_exporter.config.load import load
from spec_decode_exporter.metrics.table import METRICS
from tests.fixtures.replayed_metrics import recorded_targets, replayed_metrics

HERE = Path(__file__).parent
SETTINGS = json.loads((HERE / "settings.json").read_text())
PINS = sorted((HERE / "metrics").glob("*.txt.gz"))
NAMES = {
    f"{metric.name}{suffix}"
    for metric in METRICS
    for suffix in (("_bucket", "_sum", "_count") if metric.kind == "histogram" else ("",))
}
"""Names of the samples that the exporter writes now."""
EVERY = 20.0
"""Seconds between two snapshots."""


def name_of(line):
    return line.split("{")[0]


def pinned(path):
    """Return the lines of each snapshot, by its moment, of metrics that exist."""
    snapshots = {}
    for line in gzip.decompress(path.read_bytes()).decode().splitlines():
        if line.startswith("# at "):
            lines = snapshots[float(line.removeprefix("# at "))] = []
        elif name_of(line) in NAMES:
            lines.append(line)
    return snapshots


def targets_of(recording, speculative):
    settings = SpeculativeSettings(**speculative) if speculative else None
    return [replace(target, speculative=settings) for target in recorded_targets(recording)]


@pytest.mark.parametrize("path", PINS, ids=lambda path: path.name.removesuffix(".txt.gz"))
async def test_every_line_is_as_it_was(path):
    recording, setting, *_ = path.name.split(".")
    known = SETTINGS[setting]
    costs = {f"cost.{key}": value for key, value in known.get("cost", {}).items()}
    config = load(None, environ={}, overrides={"metrics.profile": "full", "windows": ["30s", "5m"], **costs})
    pages = HERE / "recordings" / f"{recording}.jsonl.gz"
    expected = pinned(path)
    names = {name_of(line) for lines in expected.values() for line in lines}
    shown = {}
    async for moment, text in replayed_metrics(
        pages, config, EVERY, targets_of(pages, known.get("speculative"))
    ):
        shown[moment] = [line for line in text.splitlines() if name_of(line) in names]
    assert shown == expected


def test_the_pins_cover_most_metrics_of_engines():
    names = {name_of(line) for path in PINS for lines in pinned(path).values() for line in lines}
    assert len(names) > 60
