"""Writes docs/configuration.md and the JSON Schema from the schema, so that they cannot fall behind it."""

from __future__ import annotations

import json
import sys
from inspect import cleandoc
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, get_args, get_origin

from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import PydanticUndefined

from spec_decode_exporter.config.explain import models_in
from spec_decode_exporter.config.http_settings import HttpSettings, Section
from spec_decode_exporter.config.labels import MOST_LABEL_CHARACTERS, MOST_LABEL_VALUE, MOST_LABELS
from spec_decode_exporter.config.schema import Config

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pydantic.fields import FieldInfo

_SCHEMA_URL: Final = "https://json-schema.org/draft/2020-12/schema"

_INTRODUCTION: Final = """\
# Configuration

<!-- Generated from exporter/spec_decode_exporter/config by `make docs`. Change the descriptions there. -->

The exporter needs no configuration: without one it watches a vLLM at `http://localhost:8000/metrics`.
`--config.file=FILE` names a file in YAML. `spec-decode-exporter check-config FILE` lists every mistake
in it, each with its line, a hundred at most; it may have 4 MiB.
[config/exporter.yml](../config/exporter.yml) is a small example,
[config/exporter-full.yml](../config/exporter-full.yml) shows every key. Editors that know JSON Schema
can check a file as it is written: put `# yaml-language-server: $schema=PATH` with the path of
[configuration.schema.json](configuration.schema.json) into its first line.

Without a file, flags say the little that a sidecar needs: `--target`, `--poll.interval`, `--state.file`,
`--cost.draft-cost-ratio` or `--cost.draft-parameters` with `--cost.target-parameters`, and
`--speculative.method`, `--speculative.tokens` and `--speculative.draft-model` for every `--target`. Each is
an environment variable too: `SPEC_DECODE_EXPORTER_STATE_FILE`. A flag goes before the file's key; those
about targets stand in the place of a file.

With or without a file, `--speculative.config` says in vLLM's own words, those of `--speculative-config`, how
the configured targets speculate that do not say it themselves, and `--shard.index` and `--shard.count` say
which part of all targets is watched. Who may see the exporter's own pages is said in a file of its own,
`--web.config.file`: [web.md](web.md).

- **Durations** are written as in Prometheus, always with a unit: `500ms`, `30s`, `5m`, `1h30m`.
- **Sizes** too, in powers of 1024: `512KiB`, `16MiB` (or `16MB`, which is the same).
- **Parameters** of a model are written with or without a unit: `500M`, `1.5B`, `8000000000`.
- **Variables**: `${NAME}` in a value stands for an environment variable, `$$` for a dollar. A variable
  that is not set is a mistake. Put the value in quotes inside `[…]` and `{…}`.
- **Secrets** never stand in the file. Name a file that holds the secret, or write `${NAME}` and nothing
  else. They are never shown: not on `/config`, not in the log.
- **Paths** are relative to the directory of the configuration file, that of a flag to where the exporter was
  started.
- A key that is not known, or is there twice, is a mistake. A key without a value is as good as absent.
- A key that holds a path to a secret, a certificate or a list of targets is read again when that file
  changes.

SIGHUP, or `POST /-/reload` with `--web.enable-lifecycle`, reads the file again; with `--config.auto-reload`
that happens by itself within 5 s of a change, as when Kubernetes updates a ConfigMap. If there is a mistake
in it, the old configuration stays in effect. Targets that did not change keep their windows.
"""

_DISCOVERED: Final = f"""\
How a discovered server becomes a target:

- Lists name it as `host:port`. The labels `__scheme__`, `__metrics_path__` and `__param_<name>` say how
  to ask it, `target` gives it a name (otherwise `host:port`), `method` says how it speculates. Other labels
  that begin with `__` are left out, and so are labels that a target may not have, with a warning.
- Pods that the API of Kubernetes names have the labels `namespace` and `pod`, are called `namespace/pod`
  and speculate as the arguments of their containers say; see [Kubernetes discovery](kubernetes-discovery.md).
- A page that is found in several ways is watched once, under the name that it was found with first:
  `targets` come before `files`, these before `http`, these before `dns`, these before
  `kubernetes`. Its labels are put together,
  the first value counts.
- A second page of the same name is called `host:port` of its address; if that is taken too,
  `host:port/path`, and after that a number is added.
- A list that cannot be fetched or read leaves the targets as they are. The log says when that begins and
  ends.
- Credentials are sent to the host of the list entry, the DNS record or the pod, and to no other. A scheme
  other than `http` and `https`, or a path that could lead elsewhere, rejects the list or leaves out the pod.
- A target has {MOST_LABELS} labels at most. A value has {MOST_LABEL_VALUE:,} printable characters at most.
  The labels that discovery gives to a target have {MOST_LABEL_CHARACTERS:,} characters together.
  All targets together have {MOST_LABELS} label names; configured names come first. Other labels are dropped,
  with a warning.
"""


class _Untitled(GenerateJsonSchema):
    """Keeps the titles that name a kind of value, and makes none up for keys."""

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ANN401, ARG002  as in pydantic
        return False


def json_schema() -> str:
    """Return the JSON Schema of a configuration file."""
    schema = Config.model_json_schema(schema_generator=_Untitled)
    return json.dumps({"$schema": _SCHEMA_URL, **schema}, indent=2, ensure_ascii=False) + "\n"


def markdown() -> str:
    """Return docs/configuration.md."""
    parts = [_INTRODUCTION, _table(Config)]
    for path, section in _once(_sections(Config, ())):
        parts.append(_heading(path, section))
        if section is Config.model_fields["discovery"].annotation:
            parts.append(_DISCOVERED)
    parts.append(_http())
    return "\n".join(parts)


def _sections(
    section: type[Section], path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], type[Section]]]:
    """Yield the sections below ``section`` in the order of their keys; the HTTP keys come at the end."""
    for name in _own_fields(section):
        for below in models_in(section.model_fields[name].annotation):
            if issubclass(below, Section):
                yield (*path, name), below
                yield from _sections(below, (*path, name))


def _once(
    sections: Iterable[tuple[tuple[str, ...], type[Section]]],
) -> Iterator[tuple[tuple[str, ...], type[Section]]]:
    """Leave out what was explained before: a target's own `policy` has the keys of the general one."""
    explained: set[type[Section]] = set()
    for path, section in sections:
        if section not in explained:
            explained.add(section)
            yield path, section


def _own_fields(section: type[Section]) -> list[str]:
    shared = HttpSettings.model_fields if issubclass(section, HttpSettings) else {}
    return [name for name in section.model_fields if name not in shared]


def _heading(path: tuple[str, ...], section: type[Section]) -> str:
    text = f"## `{'.'.join(path)}`\n\n{cleandoc(section.__doc__ or '')}\n\n{_table(section)}"
    if issubclass(section, HttpSettings):
        text += "\nBesides, the keys of [HTTP and TLS](#http-and-tls).\n"
    return text


def _http() -> str:
    introduction = (
        "## HTTP and TLS\n\n"
        "How to ask a server, with the names and the meaning that Prometheus' `scrape_config` gives them. "
        "They stand beside the `url` of a target.\n"
    )
    tables = [_rows(HttpSettings, list(HttpSettings.model_fields))]
    for path, section in _sections_of_http():
        tables.append(f"### `{path}`\n\n{cleandoc(section.__doc__ or '')}\n\n{_table(section)}")
    return "\n".join([introduction, *tables])


def _sections_of_http() -> Iterator[tuple[str, type[Section]]]:
    for name, field in HttpSettings.model_fields.items():
        for below in models_in(field.annotation):
            if issubclass(below, Section):
                yield name, below


def _table(section: type[Section]) -> str:
    return _rows(section, _own_fields(section))


def _rows(section: type[Section], names: list[str]) -> str:
    properties = section.model_json_schema(schema_generator=_Untitled)["properties"]
    rows = ["| Key | Value | Default | Meaning |", "|---|---|---|---|"]
    for name in names:
        field = section.model_fields[name]
        kind = _kind(properties[name], field)
        rows.append(f"| `{name}` | {kind} | {_default(section, name)} | {field.description} |")
    return "\n".join(rows) + "\n"


def _kind(schema: dict[str, Any], field: FieldInfo) -> str:
    """Say what a key holds, in a word or two."""
    literals = [value for value in _literals(field.annotation) if isinstance(value, str)]
    if literals:
        return ", ".join(f"`{value}`" for value in literals)
    return _kind_of(next((one for one in schema.get("anyOf", []) if one.get("type") != "null"), schema))


def _kind_of(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        return "mapping"
    if schema.get("type") == "array":
        return f"list of {_kind_of(schema['items'])}s"
    if schema.get("type") == "object":
        return "mapping"
    names = {"string": "text", "integer": "whole number", "number": "number", "boolean": "`true`, `false`"}
    return str(schema.get("title") or names[schema["type"]])


def _literals(annotation: object) -> tuple[object, ...]:
    if get_origin(annotation) is Literal:
        return get_args(annotation)
    return tuple(value for argument in get_args(annotation) for value in _literals(argument))


def _default(section: type[Section], name: str) -> str:
    """Write a default as it would stand in the file; nothing for what is a section or may be left out."""
    field = section.model_fields[name]
    if field.is_required():
        return "required"
    if field.default is PydanticUndefined and any(models_in(field.annotation)):
        return ""
    written = section.__pydantic_serializer__.to_python(section.model_construct(), mode="json").get(name)
    if written in (None, [], {}):
        return ""
    return f"`{json.dumps(written).replace(chr(34), '')}`"


def main(arguments: list[str]) -> None:
    """Write the documentation and the JSON Schema to the two paths given."""
    documentation, schema = map(Path, arguments)
    documentation.write_text(markdown(), encoding="utf-8")
    schema.write_text(json_schema(), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
