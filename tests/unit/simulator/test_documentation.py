from __future__ import annotations

import re

import pytest
from pydantic import BaseModel

from spec_decode_exporter.simulator.scenario import Scenario, scenario_names
from tests.paths import CHECKOUT

TEXT = (CHECKOUT / "docs" / "reference" / "simulator.md").read_text()


def keys(model, prefix=""):
    """Yield each key with a value, and its section."""
    for name, field in model.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from keys(kind, f"{name}.")
        elif name != "phases":
            yield prefix + name, field


ALL_KEYS = dict(keys(Scenario))


@pytest.mark.parametrize("key", ALL_KEYS)
def test_each_key_of_a_scenario_is_explained(key):
    assert f"`{key}`" in TEXT


@pytest.mark.parametrize(
    "key", [key for key in ALL_KEYS if type(ALL_KEYS[key].default) in {int, str} and ALL_KEYS[key].default]
)
def test_the_documented_defaults_are_those_of_the_schema(key):
    row = next(line for line in TEXT.splitlines() if line.startswith("|") and f"`{key}`" in line)
    names, defaults = (column.split(", ") for column in row.split("|")[1:3])
    told = dict(
        zip((name.strip(" `") for name in names), (each.strip(" `") for each in defaults), strict=False)
    )
    assert told[key] == str(ALL_KEYS[key].default)


def test_exactly_the_included_scenarios_are_listed():
    section = TEXT[TEXT.index("| `steady` |") :].partition("\n\n")[0]
    assert sorted(re.findall(r"^\| `([a-z0-9-]+)` \|", section, re.MULTILINE)) == sorted(scenario_names())
