"""The chart's values, README and schema agree. No test here needs Helm's engine: `make check` runs them."""

import json

import yaml

from helm import sync
from helm.chart_files import CHART

VALUES = (CHART / "values.yaml").read_text(encoding="utf-8")
SCHEMA = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))


def test_every_value_has_a_description_and_every_property_a_default():
    described = {key for key, _ in sync.described(VALUES)}
    defaults = yaml.safe_load(VALUES)
    undescribed, values = [], list(defaults.items())
    for path, value in values:  # it grows meanwhile
        if path in described:
            continue
        if isinstance(value, dict):
            values += [(f"{path}.{key}", inside) for key, inside in value.items()]
        else:
            undescribed.append(path)
    assert undescribed == [], "add a comment `# -- …` above each in values.yaml"
    assert SCHEMA["properties"].keys() - {"global"} == defaults.keys(), (
        "values.yaml or values.schema.json lacks them"
    )
