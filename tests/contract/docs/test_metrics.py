"""docs/reference/metrics.md is generated from the metric tables."""

from __future__ import annotations

import re

from docs.generate.metrics import main, markdown, series_of
from spec_decode_exporter.config.schema import Group
from spec_decode_exporter.metrics.table import METRICS, NAMES
from tests.paths import CHECKOUT

COMMITTED = CHECKOUT / "docs" / "reference" / "metrics.md"


def test_the_committed_file_is_current():
    assert COMMITTED.read_text(encoding="utf-8") == markdown(), "run `make docs`"


def test_every_metric_has_one_row_with_its_meaning_profile_labels_and_source():
    rows = [re.fullmatch(r"\| `(\w+)(?:\{(.*?)\})?` \| (.*)", line) for line in markdown().splitlines()]
    found = [(row[1], row[2] or "", row[3].split(" | ")) for row in rows if row]
    assert len({name for name, _, _ in found}) == len(found)
    by_name = {name: (labels.split(", "), cells) for name, labels, cells in found if name in NAMES}
    violations = []
    for metric in METRICS:
        labels, cells = by_name[metric.name]
        if metric.help not in cells[1]:
            violations.append(f"{metric.name}: meaning")
        if cells[0].split(", ")[:2] != [metric.kind, metric.profile]:
            violations.append(f"{metric.name}: profile")
        violations += [f"{metric.name}: {label}" for label in metric.label_names if label not in labels]
        violations += [
            f"{metric.name}: {name}" for name in map(series_of, metric.source) if f"`{name}`" not in cells[2]
        ]
    assert violations == []


def test_every_group_has_a_heading():
    assert [line[3:] for line in markdown().splitlines() if line.startswith("## ")] == [
        "Profiles",
        "Labels",
        *Group,
    ]


def test_every_label_is_explained():
    labels = {label for metric in METRICS for label in (*metric.subject.labels, *metric.label_names)}
    rows = markdown().splitlines()
    assert all(any(row.startswith(f"- `{label}`: ") for row in rows) for label in labels)


def test_it_is_written_to_the_path_given(tmp_path):
    main([str(tmp_path / "metrics.md")])
    assert (tmp_path / "metrics.md").read_text(encoding="utf-8") == markdown()
