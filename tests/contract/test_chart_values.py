"""The chart's values, README and schema agree. No test here needs Helm's engine: `make check` runs them."""

from __future__ import annotations

import json
import re

import pytest
import yaml

from helm import sync
from helm.chart_files import CHART
from tests.every import every

VALUES = (CHART / "values.yaml").read_text(encoding="utf-8")
SCHEMA = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
TYPES = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "object": dict,
    "array": list,
    "null": type(None),
}


def resolved(schema):
    """Follow references to definitions."""
    while "$ref" in schema:
        _, section, name = schema["$ref"].split("/")
        schema = SCHEMA[section][name]
    if "allOf" in schema:
        schema = {**resolved(schema["allOf"][0]), **schema}
    return schema


def mistakes(values, schema, path=""):
    """Yield the values that the schema does not know or that are of another type."""
    schema = resolved(schema)
    if "enum" in schema and values not in schema["enum"]:
        yield f"{path}: {values!r} is not in values.schema.json: correct the value, or the enum"
    types = schema.get("type", [])
    allowed = [TYPES[name] for name in ([types] if isinstance(types, str) else types)]
    if allowed and not any(isinstance(values, one) for one in allowed):
        yield f"{path}: {values!r} is no {types}: correct values.yaml or values.schema.json"
    if "pattern" in schema and isinstance(values, str) and not re.search(schema["pattern"], values):
        yield f"{path}: {values!r} does not match {schema['pattern']}: correct values.yaml or values.schema.json"
    if isinstance(values, dict):
        known, others = schema.get("properties", {}), schema.get("additionalProperties", True)
        for key, value in values.items():
            if key not in known and others is False:
                yield f"{path}.{key}: add it to `properties` in values.schema.json, or remove it from the values"
            else:
                inner = known.get(key, others)
                yield from mistakes(value, inner if isinstance(inner, dict) else {}, f"{path}.{key}")


@every([CHART / "values.yaml", *sorted((CHART / "ci").glob("*.yaml"))])
def test_values_are_of_the_schema(file):
    assert list(mistakes(yaml.safe_load(file.read_text(encoding="utf-8")), SCHEMA)) == []


@pytest.mark.parametrize(
    ("values", "mistake"),
    [
        ({"replica": 1}, ".replica: add it"),
        ({"mode": "both"}, ".mode: 'both' is not in"),
        ({"replicaCount": "1"}, ".replicaCount: '1' is no integer"),
        ({"monitor": {"interval": "15 s"}}, ".monitor.interval: '15 s' does not match"),
        ({"config": {"cots": {}}}, ".config.cots: add it"),
    ],
)
def test_a_mistake_in_values_is_found(values, mistake):
    (found,) = mistakes(values, SCHEMA)
    assert found.startswith(mistake)


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


def test_the_table_has_the_text_of_several_lines_of_comment():
    text = "# -- What it is,\n# and more.\na:\n  # -- Its part.\n  b: 1\n  c: 2\n"
    assert sync.table(text).splitlines()[2:] == [
        "| `a` | What it is, and more. |",
        "| `a.b: 1` | Its part. |",
    ]
