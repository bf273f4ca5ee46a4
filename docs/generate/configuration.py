"""Generate docs/reference/configuration.md and the JSON Schema from the schema of the configuration."""

from __future__ import annotations

import json
from inspect import cleandoc
from typing import TYPE_CHECKING, Any, Final, Literal, get_args, get_origin

from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import PydanticUndefined

from spec_decode_exporter.config.http_settings import HttpSettings
from spec_decode_exporter.config.schema import Config
from spec_decode_exporter.config.source import models_in
from spec_decode_exporter.config.types import MAX_LABEL_CHARACTERS, MAX_LABEL_VALUE, MAX_LABELS, Section

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator

    from pydantic.fields import FieldInfo

_SCHEMA_URL: Final = "https://json-schema.org/draft/2020-12/schema"

_INTRODUCTION: Final = """\
# Configuration

<!-- Generated from exporter/spec_decode_exporter/config by `make generate`. Change descriptions there. -->

The exporter runs without a configuration: its default target is `http://localhost:8000/metrics`.
`--config.file=FILE` names a YAML file, and `spec-decode-exporter check-config FILE` lists every mistake in
it with its line. [config/exporter.yml](../../config/exporter.yml) is a small example,
[config/exporter-full.yml](../../config/exporter-full.yml) contains every key. Editors check a file that
begins with `# yaml-language-server: $schema=PATH`, the path of
[configuration.schema.json](configuration.schema.json).

- **Durations** have a unit: `500ms`, `30s`, `5m`, `1h30m`. **Sizes** are in powers of 1024: `512KiB`,
  `16MiB`.
- **Variables**: `${NAME}` in a value is an environment variable, `$$` a dollar sign. An unset variable is an
  error. Quote the value inside `[…]` and `{…}`.
- **Secrets** are not allowed in the file: name a file that holds the secret, or write `${NAME}` and nothing
  else. Files with secrets, certificates or targets are read again when they change.
- **Paths** are relative to the directory of the configuration file; in flags, to the working directory.

To reload the file, send SIGHUP, or `POST /-/reload` with `--web.enable-lifecycle`. With
`--config.auto-reload` the exporter reloads within 5 s of a change. After a mistake the old configuration
stays in effect.

[Flags](command-line.md#run) configure a sidecar without a file. A flag overrides the key of the file; flags
about targets are allowed only without a file. [web.md](web.md) protects the exporter's own pages.
"""

_DISCOVERED: Final = f"""\
Rules for discovered servers:

- Lists name a server as `host:port`. The labels `__scheme__`, `__metrics_path__` and `__param_<name>` set its
  URL, `target` its name, `method` its method. Other labels that begin with `__` are ignored.
- Pods have the labels `namespace` and `pod` and the name `namespace/pod`
  ([Kubernetes discovery](../guide/kubernetes-discovery.md)).
- A page that several lists contain is polled once. The order is `targets`, `files`, `http`, `dns`,
  `kubernetes`; the first name and value count.
- If a list cannot be read, its targets stay.
- Credentials are sent only to the host of the list entry, the DNS record or the pod.
- A target has at most {MAX_LABELS} labels, {MAX_LABEL_VALUE:,} printable characters in a value and
  {MAX_LABEL_CHARACTERS:,} together; all targets have at most {MAX_LABELS} label names. Other labels are
  dropped with a warning.
"""


class _Untitled(GenerateJsonSchema):
    """Keeps the titles of types, and generates none for keys."""

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ANN401, ARG002  as in pydantic
        return False


def json_schema() -> str:
    """Return the JSON Schema of a configuration file."""
    schema = Config.model_json_schema(schema_generator=_Untitled)
    return json.dumps({"$schema": _SCHEMA_URL, **schema}, indent=2, ensure_ascii=False) + "\n"


def markdown() -> str:
    """Return docs/reference/configuration.md."""
    parts = [_INTRODUCTION, _list(Config)]
    said = {field.description for field in Config.model_fields.values()}
    for path, section in _once(_sections(Config, ())):
        parts.append(_heading(path, section, said))
        if section is Config.model_fields["discovery"].annotation:
            parts.append(_DISCOVERED)
    parts.append(_http())
    return "\n".join(parts)


def _sections(
    section: type[Section], path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], type[Section]]]:
    """Yield the sections below ``section`` in the order of their keys, HTTP keys last."""
    for name in _own_fields(section):
        for below in models_in(section.model_fields[name].annotation):
            if issubclass(below, Section):
                yield (*path, name), below
                yield from _sections(below, (*path, name))


def _once(
    sections: Iterable[tuple[tuple[str, ...], type[Section]]],
) -> Iterator[tuple[tuple[str, ...], type[Section]]]:
    """Omit repeated sections: a target's own `policy` has the keys of the general one."""
    explained: set[type[Section]] = set()
    for path, section in sections:
        if section not in explained:
            explained.add(section)
            yield path, section


def _own_fields(section: type[Section]) -> list[str]:
    shared = HttpSettings.model_fields if issubclass(section, HttpSettings) else {}
    return [name for name in section.model_fields if name not in shared]


def _heading(path: tuple[str, ...], section: type[Section], said: Container[str | None]) -> str:
    """Return a section's heading, its description unless its key has ``said`` it, and its keys."""
    about = cleandoc(section.__doc__ or "")
    text = "\n\n".join([f"## `{'.'.join(path)}`", *([] if about in said else [about]), _list(section)])
    if issubclass(section, HttpSettings):
        text += "\nAlso the keys of [HTTP and TLS](#http-and-tls).\n"
    return text


def _http() -> str:
    introduction = (
        "## HTTP and TLS\n\n"
        "HTTP settings of a server, with the names and meanings of Prometheus' `scrape_config`. The keys "
        "stand next to the `url` of a target.\n"
    )
    lists = [_rows(HttpSettings, list(HttpSettings.model_fields))]
    for path, section in _sections_of_http():
        lists.append(f"### `{path}`\n\n{cleandoc(section.__doc__ or '')}\n\n{_list(section)}")
    return "\n".join([introduction, *lists])


def _sections_of_http() -> Iterator[tuple[str, type[Section]]]:
    for name, field in HttpSettings.model_fields.items():
        for below in models_in(field.annotation):
            if issubclass(below, Section):
                yield name, below


def _list(section: type[Section]) -> str:
    return _rows(section, _own_fields(section))


def _rows(section: type[Section], names: list[str]) -> str:
    properties = section.model_json_schema(schema_generator=_Untitled)["properties"]
    rows = []
    for name in names:
        field = section.model_fields[name]
        value = "; ".join(filter(None, (_kind(properties[name], field), _default(section, name))))
        rows.append(f"- `{name}` ({value}): {field.description}")
    return "\n".join(rows) + "\n"


def _kind(schema: dict[str, Any], field: FieldInfo) -> str:
    """Return the type of a key in a word or two."""
    literals = [value for value in _literals(field.annotation) if isinstance(value, str)]
    if literals:
        return ", ".join(f"`{value}`" for value in literals)
    return _kind_of(next((one for one in schema.get("anyOf", []) if one.get("type") != "null"), schema))


def _kind_of(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        return "mapping"
    if schema.get("type") == "array":
        first, *further = _kind_of(schema["items"]).split(" of ")
        return " of ".join(("list", f"{first}s", *further))
    if schema.get("type") == "object":
        return "mapping"
    names = {"string": "text", "integer": "whole number", "number": "number", "boolean": "`true`, `false`"}
    return str(schema.get("title") or names[schema["type"]])


def _literals(annotation: object) -> tuple[object, ...]:
    if get_origin(annotation) is Literal:
        return get_args(annotation)
    return tuple(value for argument in get_args(annotation) for value in _literals(argument))


def _default(section: type[Section], name: str) -> str:
    """Write a default in the syntax of the file; empty for a section or an optional key."""
    field = section.model_fields[name]
    if field.is_required():
        return "required"
    if field.default is PydanticUndefined and any(models_in(field.annotation)):
        return ""
    written = section.__pydantic_serializer__.to_python(section.model_construct(), mode="json").get(name)
    if written in (None, [], {}):
        return ""
    return f"default `{json.dumps(written).replace(chr(34), '')}`"
