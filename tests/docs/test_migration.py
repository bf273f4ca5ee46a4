"""The migration table leads from names that are gone to names and label values that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from spec_decode_exporter.config.labels import RESERVED_LABELS
from spec_decode_exporter.config.request_settings import RequestSettings
from spec_decode_exporter.figures.quantiles import QUANTILES
from spec_decode_exporter.metrics.catalogue import CATALOGUE, NAMES
from spec_decode_exporter.requests.bucket_labels import bucket_labels

TEXT = (Path(__file__).parents[2] / "docs" / "reference" / "migration.md").read_text(encoding="utf-8")
LABELS = {label for metric in CATALOGUE for label in metric.labels}


def rows(heading):
    """Return the cells of the table below a heading, without its head."""
    section = TEXT.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")][2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


@pytest.mark.parametrize(("old", "new"), rows("Names"))
def test_an_old_name_is_gone_and_its_new_name_exists(old, new):
    assert re.findall(r"spec_decode_\w+", old)[0] not in NAMES
    assert new.strip("`") in NAMES


@pytest.mark.parametrize("cells", rows("Labels"))
def test_every_new_label_exists_with_these_values(cells):
    name = re.findall(r"(\w+)=", cells[1])[0]
    settings = RequestSettings()
    values = {
        "quantile": {quantile.label for quantile in QUANTILES},
        "temperature": set(bucket_labels(settings.temperatures)),
        "prompt_tokens": set(bucket_labels(settings.prompt_tokens)),
    }
    assert name in LABELS
    assert set(re.findall(r'"([^"]+)"', cells[1])) <= values[name]


@pytest.mark.parametrize("label", ["percentile", "latency"])
def test_a_label_that_is_free_again_is_of_no_metric(label):
    assert label not in LABELS | RESERVED_LABELS


def test_names_that_stay_exist():
    stay = TEXT.partition("## Labels")[0].splitlines()[-2]
    assert len(set(re.findall(r"spec_decode_\w+", stay)) & NAMES) == 3
