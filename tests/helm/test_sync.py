"""The chart's README and schema are generated from its values and describe all of them."""

from __future__ import annotations

import json

import pytest
import yaml

from helm import sync
from helm.chart_files import CHART
from spec_decode_exporter import __version__


@pytest.fixture(scope="module")
def chart():
    return yaml.safe_load((CHART / "Chart.yaml").read_text())


def test_readme_and_schema_are_current():
    outdated = [path.name for path, text in sync.generated().items() if path.read_text() != text]
    assert outdated == [], "run `python -m helm.sync`"


def test_the_chart_is_of_this_version(chart):
    assert chart["appVersion"] == __version__


def leaves(schema, values, path=()):
    """Go through values and schema side by side, as deep as the schema says what keys there are."""
    yield path, schema, values
    if "properties" in schema and isinstance(values, dict):
        for key in schema["properties"].keys() | values.keys():
            inner = schema["properties"].get(key)
            assert inner is not None, f"{path}: the schema does not know {key}"
            if key in values:
                yield from leaves(inner, values[key], (*path, key))


def test_every_value_has_a_kind_and_a_description():
    schema = json.loads((CHART / "values.schema.json").read_text())
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    described = sync.table((CHART / "values.yaml").read_text())
    for path, kind, _ in leaves(schema, values):
        assert kind
        if path and "properties" not in kind:
            assert any(f"| `{'.'.join(path[:n])}` |" in described for n in range(1, len(path) + 1)), path


def test_the_table_has_the_text_of_several_lines_of_comment():
    text = "# -- What it is,\n# and more.\na:\n  # -- Its part.\n  b: 1\n  c: 2\n"
    assert sync.table(text).splitlines()[2:] == [
        '| `a` | `{"b": 1, "c": 2}` | What it is, and more. |',
        "| `a.b` | `1` | Its part. |",
    ]
