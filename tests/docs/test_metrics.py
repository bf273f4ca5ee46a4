"""docs/reference/metrics.md is generated from the metric tables."""

from __future__ import annotations

from pathlib import Path

from docs.generate.metrics import main, markdown
from spec_decode_exporter.config.schema import Group
from spec_decode_exporter.metrics.catalogue import CATALOGUE
from spec_decode_exporter.metrics.engine_metrics import ENGINE_LABELS
from spec_decode_exporter.metrics.profiles import smallest_profile

COMMITTED = Path(__file__).parents[2] / "docs" / "reference" / "metrics.md"


def test_the_committed_file_is_current():
    assert COMMITTED.read_text(encoding="utf-8") == markdown(), "run `make docs`"


def test_every_metric_has_one_row_with_its_meaning_profile_labels_and_source():
    lines, violations = markdown().splitlines(), []
    for metric in CATALOGUE:
        rows = [line for line in lines if line.startswith(f"| `{metric.name}` |")]
        if len(rows) != 1:
            violations.append(f"{metric.name}: {len(rows)} rows")
            continue
        cells = [cell.strip() for cell in rows[0].split(" | ")]
        if metric.help not in cells[4]:
            violations.append(f"{metric.name}: meaning")
        if cells[3].partition(",")[0] != smallest_profile(metric.name):
            violations.append(f"{metric.name}: profile")
        violations += [f"{metric.name}: {label}" for label in metric.labels if f"`{label}`" not in cells[2]]
        violations += [f"{metric.name}: {name}" for name in metric.source if f"`{name}`" not in cells[5]]
    assert violations == []


def test_a_window_is_one_of_the_exporter_s_own_polls():
    (row,) = [line for line in markdown().splitlines() if line.startswith("| `window` |")]
    assert "window of the exporter's own polls" in row


def test_every_group_has_a_heading():
    assert [line[3:] for line in markdown().splitlines() if line.startswith("## ")] == [
        "Profiles",
        "Labels",
        *Group,
    ]


def test_every_label_is_explained():
    labels = {label for metric in CATALOGUE for label in metric.labels} | set(ENGINE_LABELS)
    rows = markdown().splitlines()
    assert all(any(row.startswith(f"| `{label}` |") for row in rows) for label in labels)


def test_it_is_written_to_the_path_given(tmp_path):
    main([str(tmp_path / "metrics.md")])
    assert (tmp_path / "metrics.md").read_text(encoding="utf-8") == markdown()
