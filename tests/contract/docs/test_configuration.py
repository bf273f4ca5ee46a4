from __future__ import annotations

import json
import re

from docs.generate.configuration import json_schema, main, markdown
from spec_decode_exporter.config.schema import Config
from tests.paths import CHECKOUT

REFERENCE = CHECKOUT / "docs/reference"


def test_the_documentation_is_current(tmp_path):
    written = tmp_path / "a.md", tmp_path / "a.json"
    main([str(path) for path in written])
    for path, name in zip(written, ("configuration.md", "configuration.schema.json"), strict=True):
        assert (REFERENCE / name).read_text(encoding="utf-8") == path.read_text(encoding="utf-8"), (
            "run make docs"
        )


def test_every_key_is_documented_with_its_meaning():
    schema, text = json.loads(json_schema()), markdown()
    sections = [schema, *schema["$defs"].values()]
    keys = {name: key for section in sections for name, key in section["properties"].items()}
    assert len(keys) > 40
    for name, key in keys.items():
        section = schema["$defs"].get(key.get("$ref", "").rpartition("/")[2], {})
        assert {**section, **key}["description"].endswith("."), name
        assert re.search(rf"^\| `{name}` \| [^|]+ \| [^|]* \| .+ \|$", text, flags=re.MULTILINE), name


def test_defaults_are_in_the_syntax_of_the_file():
    for row in (
        "| `interval` | duration | `1s` |",
        "| `max_body` | size | `4MiB` |",
        "| `windows` | list of durations | `[30s, 5m]` |",
    ):
        assert row in markdown()


def test_a_section_in_two_places_is_explained_once():
    assert markdown().count("## `policy.drops`") == 1
    assert "## `targets.policy" not in markdown()
    assert "under [`policy`](#policy)" in markdown()


def test_the_schema_rejects_unknown_keys_everywhere():
    schema = json.loads(json_schema())
    assert all(section["additionalProperties"] is False for section in [schema, *schema["$defs"].values()])
    assert set(schema["properties"]) == set(Config.model_fields)
