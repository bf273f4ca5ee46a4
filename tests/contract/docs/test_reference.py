"""Files that follow from the code are current, and each of their entries has a meaning."""

import json
import re

from docs.generate import command_line, configuration, metrics
from docs.generate.__main__ import generated
from grafana.__main__ import FOLDER
from spec_decode_exporter.cli.main import COMMANDS
from spec_decode_exporter.config.schema import Config
from spec_decode_exporter.metrics.table import METRICS
from tests.paths import CHECKOUT


def test_generated_files_are_current_and_no_other_dashboard_is_there():
    texts = dict(generated())
    outdated = [path for path, text in texts.items() if path.read_text(encoding="utf-8") != text]
    assert [str(path.relative_to(CHECKOUT)) for path in outdated] == [], "run `make generate`"
    assert {*FOLDER.iterdir()} == {path for path in texts if path.parent == FOLDER}


def test_every_command_has_its_section_and_every_argument_its_meaning_at_any_width(monkeypatch):
    text = command_line.markdown()
    assert re.findall(r"^## (.*)$", text, flags=re.MULTILINE) == [*COMMANDS]
    rows = re.findall(r"^- `(.+?)`: (.*)$", text, flags=re.MULTILINE)
    assert len(rows) > 50
    assert [name for name, meaning in rows if not meaning] == []
    monkeypatch.setenv("COLUMNS", "40")
    assert command_line.markdown() == text


def test_every_key_of_the_configuration_is_documented_once_and_no_other_is_allowed():
    schema, text = json.loads(configuration.json_schema()), configuration.markdown()
    sections = [schema, *schema["$defs"].values()]
    assert all(section["additionalProperties"] is False for section in sections)
    assert set(schema["properties"]) == set(Config.model_fields)
    keys = {name: key for section in sections for name, key in section["properties"].items()}
    assert len(keys) > 40
    for name, key in keys.items():
        section = schema["$defs"].get(key.get("$ref", "").rpartition("/")[2], {})
        assert {**section, **key}["description"].endswith("."), name
        assert re.search(rf"^- `{name}` \([^)]+\): .+\.$", text, flags=re.MULTILINE), name
    assert (text.count("## `policy.drops`"), text.count("## `targets.policy")) == (1, 0)


def test_every_metric_has_one_row_and_every_label_its_meaning():
    rows = metrics.markdown().splitlines()
    names = [row.split(" (")[0] for row in rows if row.startswith("- `spec_decode_")]
    assert sorted(name for row in names for name in re.findall(r"`(\w+)", row)) == sorted(
        metric.name for metric in METRICS
    )
    labels = {label for metric in METRICS for label in (*metric.subject.labels, *metric.label_names)}
    assert [name for name in labels if not any(row.startswith(f"- `{name}`: ") for row in rows)] == []
