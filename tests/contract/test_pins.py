"""The numbers of /metrics are those of the files, to the last digit: see README.md."""

import gzip
import json
from dataclasses import replace

import pytest

from spec_decode_exporter.config.cost_settings import SpeculativeSettings
from spec_decode_exporter.config.load import load
from spec_decode_exporter.metrics.table import METRICS
from tests.fakes.replayed_metrics import recorded_targets, replayed_metrics
from tests.paths import DATA

HERE = DATA / "pins"
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


def by_name(lines, names):
    """Return the lines of each name: the order of names on the page is that of the metric table."""
    found = {}
    for line in lines:
        if name_of(line) in names:
            found.setdefault(name_of(line), []).append(line)
    return found


def pinned(path):
    """Return the lines of each snapshot, by its moment and their name, of metrics that exist."""
    snapshots = {}
    for line in gzip.decompress(path.read_bytes()).decode().splitlines():
        if line.startswith("# at "):
            lines = snapshots[float(line.removeprefix("# at "))] = []
        else:
            lines.append(line)
    return {moment: by_name(lines, NAMES) for moment, lines in snapshots.items()}


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
    names = {name for found in expected.values() for name in found}
    shown = {}
    async for moment, text in replayed_metrics(
        pages, config, EVERY, targets_of(pages, known.get("speculative"))
    ):
        shown[moment] = by_name(text.splitlines(), names)
    assert shown == expected


def test_the_pins_cover_most_metrics_of_engines():
    names = {name for path in PINS for found in pinned(path).values() for name in found}
    assert len(names) > 60
