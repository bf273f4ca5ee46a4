"""Bring rules, alerts and dashboards into the chart, and its values into its README.

``python -m helm.sync``. Helm reads nothing outside a chart, and several tools that fetch charts from a
repository leave links out; so the chart has copies, and a test that they are the same.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from spec_decode_exporter.config.schema import Config
from spec_decode_exporter.web.security.schema import WebSettings

ROOT: Final = Path(__file__).parents[1]
CHART: Final = ROOT / "helm" / "spec-decode-exporter"

_SOURCES: Final = {
    "files/dashboards/": "grafana/dashboards/*.json",
    "files/prometheus/alerts-": "config/prometheus/alerts/*.yml",
    "files/prometheus/rules-": "config/prometheus/rules/*.yml",
    "files/middleware/": "exporter/spec_decode_exporter/vllm_middleware/spec_decode_requests.py",
}
_LEFT_OUT: Final = frozenset({"raw-counters.yml"})
"""For those who have no exporter."""

_BEGIN, _END = "<!-- values: python -m helm.sync -->", "<!-- end of values -->"


def copies() -> Mapping[Path, str]:
    """Return the text of every file that the chart has from elsewhere."""
    return {
        CHART / f"{place}{source.name}": source.read_text(encoding="utf-8")
        for place, pattern in _SOURCES.items()
        for source in sorted(ROOT.glob(pattern))
        if source.name not in _LEFT_OUT
    }


def schema(text: str) -> str:
    """Return the schema of the values, with the exporter's own of its configurations in it."""
    document = json.loads(text)
    document["$defs"] = {}
    for model in (Config, WebSettings):
        own = _plain(model.model_json_schema())
        document["$defs"] |= {**own.pop("$defs"), model.__name__: own}
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _plain(schema: Any) -> Any:  # noqa: ANN401 - a schema holds values of any type
    """Leave out what is for readers, and patterns with a look-ahead, which Helm's engine does not have."""
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
    """Return the README with a table of the values in place of the one that it has."""
    before, _, rest = text.partition(_BEGIN)
    _, _, after = rest.partition(_END)
    return f"{before}{_BEGIN}\n{table(values)}\n{_END}{after}"


def table(values: str) -> str:
    """Return every value that has a description, as a table."""
    described = dict(_described(values.splitlines()))
    defaults = yaml.safe_load(values)
    rows = [f"| `{key}` | {_default(_at(defaults, key))} | {text} |" for key, text in described.items()]
    return "\n".join(["| Value | Default | Meaning |", "|---|---|---|", *rows])


def _described(lines: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Go through the values file: ``# --`` and the comments that follow are about the next key."""
    path: list[str] = []
    text = ""
    for line in lines:
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
    """Return the text of every file that is written here in part."""
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
    return f"`{json.dumps(value, ensure_ascii=False)}`"


def main() -> None:
    """Write the files, and remove those that are no longer anywhere else."""
    texts = copies()
    for path in (CHART / "files").rglob("*.*"):
        if path not in texts:
            path.unlink()
    for path, text in texts.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    for path, text in generated().items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
