"""The chart's values, README and schema agree. No test here needs Helm's engine: `make check` runs them."""

import json

import yaml

from helm import sync
from helm.chart_files import CHART

VALUES = (CHART / "values.yaml").read_text(encoding="utf-8")
SCHEMA = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))


def test_every_value_has_a_description_and_every_property_a_default():
    described = {key for key, _ in sync.described(VALUES)}

    def undescribed(values, path=()):
        if ".".join(path) in described:
            return []
        if not isinstance(values, dict):
            return [".".join(path)]
        return [one for key, value in values.items() for one in undescribed(value, (*path, key))]

    assert undescribed(yaml.safe_load(VALUES)) == [], "add a comment `# -- …` above each in values.yaml"
    defaults = yaml.safe_load(VALUES)
    assert SCHEMA["properties"].keys() - {"global"} == defaults.keys(), (
        "values.yaml or values.schema.json lacks them"
    )
