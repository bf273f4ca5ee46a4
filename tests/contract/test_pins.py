"""The numbers of /metrics are those of the files, to the last digit: see tests/data/pins/README.md."""

import gzip
import json
from dataclasses import replace

import pytest

from spec_decode_exporter.config.comparison_settings import SpeculativeSettings
from spec_decode_exporter.config.load import load
from spec_decode_exporter.metrics.table import METRICS
from tests.fakes.golden import HAS_OTHER_SUMS, rounded
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


def by_name(lines, names):
    """Return the lines of each name: the order of names on the page is that of the metric table."""
    found = {}
    for line in lines:
        if (name := line.split("{")[0]) in names:
            found.setdefault(name, []).append(rounded(line) if HAS_OTHER_SUMS else line)
    return found


def pinned(path):
    """Return the lines of each snapshot, by its moment and their name, of metrics that exist."""
    _, *snapshots = gzip.decompress(path.read_bytes()).decode().split("# at ")
    return {float(moment): by_name(lines, NAMES) for moment, *lines in map(str.splitlines, snapshots)}


@pytest.mark.parametrize("path", PINS, ids=lambda path: path.name.removesuffix(".txt.gz"))
async def test_every_line_is_as_it_was(path):
    recording, setting, *_ = path.name.split(".")
    known = SETTINGS[setting]
    costs = {f"cost.{key}": value for key, value in known.get("cost", {}).items()}
    config = load(None, environ={}, overrides={"metrics.profile": "full", "windows": ["30s", "5m"], **costs})
    pages = HERE / "recordings" / f"{recording}.jsonl.gz"
    speculative = SpeculativeSettings(**known["speculative"]) if "speculative" in known else None
    targets = [replace(target, speculative=speculative) for target in recorded_targets(pages)]
    expected = pinned(path)
    names = {name for found in expected.values() for name in found}
    shown = {}
    async for moment, text in replayed_metrics(pages, config, 20.0, targets):
        shown[moment] = by_name(text.splitlines(), names)
    assert shown == expected


def test_the_pins_cover_most_metrics_of_engines():
    names = {name for path in PINS for found in pinned(path).values() for name in found}
    assert len(names) > 60
