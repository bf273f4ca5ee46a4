"""docs/reference/simulator.md explains each key with its default, and lists the included scenarios."""

import re

from pydantic import BaseModel

from spec_decode_exporter.simulator.scenario import INCLUDED, Scenario
from tests.every import every
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


@every(dict(keys(Scenario)).items(), lambda item: item[0])
def test_each_key_is_explained_with_its_default(item):
    key, field = item
    assert f"`{key}`" in TEXT
    if type(field.default) in {int, str} and field.default:
        row = next(line for line in TEXT.splitlines() if line.startswith("- `") and f"`{key}`" in line)
        columns = re.match(r"- (.+?) \((.+?)\): ", row).groups()
        names, defaults = ([each.strip(" `") for each in column.split(", ")] for column in columns)
        assert dict(zip(names, defaults, strict=False))[key] == str(field.default)


def test_exactly_the_included_scenarios_are_listed():
    section = TEXT[TEXT.index("| `steady` |") :].partition("\n\n")[0]
    assert sorted(re.findall(r"^\| `([a-z0-9-]+)` \|", section, re.MULTILINE)) == sorted(INCLUDED)
