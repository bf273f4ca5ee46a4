"""docs/metrics.md says what the catalogue says."""

from __future__ import annotations

from pathlib import Path

import pytest

from docs.generate.metrics import main, markdown
from spec_decode_exporter.config.schema import Group
from spec_decode_exporter.metrics.catalogue import CATALOGUE
from spec_decode_exporter.metrics.engine_metrics import ENGINE_LABELS

COMMITTED = Path(__file__).parents[2] / "docs" / "metrics.md"


def test_the_committed_file_is_current():
    assert COMMITTED.read_text(encoding="utf-8") == markdown(), "run `make docs`"


@pytest.mark.parametrize("metric", CATALOGUE, ids=lambda metric: metric.name)
def test_every_metric_has_a_row(metric):
    (row,) = [line for line in markdown().splitlines() if line.startswith(f"| `{metric.name}` |")]
    assert metric.help in row
    assert f"| {'on' if metric.default else 'off'} |" in row
    assert all(f"`{label}`" in row for label in metric.labels)


def test_every_group_has_a_heading():
    assert [line[3:] for line in markdown().splitlines() if line.startswith("## ")] == ["Labels", *Group]


def test_every_label_is_explained():
    labels = {label for metric in CATALOGUE for label in metric.labels} | set(ENGINE_LABELS)
    rows = markdown().splitlines()
    assert all(any(row.startswith(f"| `{label}` |") for row in rows) for label in labels)


def test_it_is_written_to_the_path_given(tmp_path):
    main([str(tmp_path / "metrics.md")])
    assert (tmp_path / "metrics.md").read_text(encoding="utf-8") == markdown()
