"""Bring the chart's values into its README, and the schemas of configuration files into its schema."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from helm.chart_files import CHART
from spec_decode_exporter.config.schema import Config
from spec_decode_exporter.web.security import WebSettings

_BEGIN, _END = "<!-- values: make generate -->", "<!-- end of values -->"


def schema(text: str) -> str:
    """Return the schema of the values, including the schemas of the exporter's two configuration files."""
    document = json.loads(text)
    document["$defs"] = {}
    for model in (Config, WebSettings):
        own = _plain(model.model_json_schema())
        document["$defs"] |= {**own.pop("$defs"), model.__name__: own}
    return _readable(document)


def _readable(document: Mapping[str, Any]) -> str:
    """Return JSON with a line for each value and definition."""
    parts = (
        f"{json.dumps(key)}: {{\n{_lines(part)}\n}}"
        if key in {"properties", "definitions", "$defs"}
        else f"{json.dumps(key)}: {json.dumps(part, ensure_ascii=False)}"
        for key, part in document.items()
    )
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _lines(section: Mapping[str, Any]) -> str:
    return ",\n".join(
        f"  {json.dumps(key)}: {json.dumps(one, ensure_ascii=False)}" for key, one in section.items()
    )


def _plain(schema: Any) -> Any:  # noqa: ANN401 - a schema holds values of any type
    """Remove texts for readers, and patterns with a look-ahead: Helm's engine does not support it."""
    if isinstance(schema, list):
        return [_plain(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: {name: _plain(item) for name, item in value.items()}
        if key in {"properties", "$defs"}
        else _plain(value)
        for key, value in schema.items()
        if key not in {"description", "default", "title"} and not (key == "pattern" and "(?" in value)
    }


def readme(text: str, values: str) -> str:
    """Return the README with its table of values replaced."""
    before, _, rest = text.partition(_BEGIN)
    _, _, after = rest.partition(_END)
    return f"{before}{_BEGIN}\n{table(values)}\n{_END}{after}"


def table(values: str) -> str:
    """Return a table of the described values, with each default that is neither empty nor an object."""
    defaults = yaml.safe_load(values)
    return "\n".join(f"- `{key}{_default(_at(defaults, key))}`: {text}" for key, text in described(values))


def described(values: str) -> Iterator[tuple[str, str]]:
    """Yield key and description: ``# --`` and the comment lines after it describe the next key."""
    path: list[str] = []
    text = ""
    for line in values.splitlines():
        comment = re.match(r"\s*#\s?(-- )?(.*)", line)
        key = re.match(r"(\s*)([A-Za-z]\w*):", line)
        if comment:
            text = f"{text} {comment[2]}".strip() if text or comment[1] else ""
        elif key:
            path = [*path[: len(key[1]) // 2], key[2]]
            if text:
                yield ".".join(path), text
            text = ""


def generated() -> Mapping[Path, str]:
    """Return the text of every file that this module generates in part."""
    page, kinds = CHART / "README.md", CHART / "values.schema.json"
    values = (CHART / "values.yaml").read_text(encoding="utf-8")
    return {
        page: readme(page.read_text(encoding="utf-8"), values),
        kinds: schema(kinds.read_text(encoding="utf-8")),
    }


def _at(values: Any, key: str) -> Any:  # noqa: ANN401 - values are of any type
    for name in key.split("."):
        values = values[name]
    return values


def _default(value: Any) -> str:  # noqa: ANN401 - values are of any type
    is_told = value not in ("", None) and not isinstance(value, (dict, list))
    return f": {json.dumps(value)}".replace('"', "") if is_told else ""
