"""OpenAPI 3.1 document, generated from the table of endpoints and the documents."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

import msgspec
from pydantic.json_schema import models_json_schema

from spec_decode_exporter.core.version import __version__
from spec_decode_exporter.findings.findings import NAMES
from spec_decode_exporter.requests.record import MAX_BATCH_REQUESTS
from spec_decode_exporter.views.document import View
from spec_decode_exporter.web.endpoint import JSON, PROBLEM, Endpoint, ProblemView

NDJSON: Final = "application/x-ndjson"

_INFO: Final = {
    "title": "spec-decode-exporter",
    "version": __version__,
    "summary": "Current state of vLLM's speculative decoding",
    "description": "Everything under /api/v1/ is stable: fields and parameters may be added, and none is "
    "renamed, removed or changed in meaning. Every path that supports GET supports HEAD. A web configuration "
    "may require a password or a client certificate.",
    "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
}
_SCHEMAS: Final = "#/components/schemas/"


def document(endpoints: tuple[Endpoint, ...]) -> bytes:
    """Return the document as JSON."""
    paths: dict[str, dict[str, Any]] = {}
    for each in endpoints:
        paths.setdefault(each.path, {})[each.method.lower()] = _operation(each)
    described = {
        "openapi": "3.1.0",
        "info": _INFO,
        "security": [{}, {"password": []}],
        "paths": paths,
        "components": {
            "schemas": _schemas(endpoints),
            "securitySchemes": {"password": {"type": "http", "scheme": "basic"}},
        },
    }
    return json.dumps(described, ensure_ascii=False, separators=(",", ":")).encode()


def _schemas(endpoints: tuple[Endpoint, ...]) -> dict[str, Any]:
    models: dict[type[View], None] = dict.fromkeys(
        [ProblemView, *(each.model for each in endpoints if each.model)]
    )
    modes = [(model, "serialization") for model in models]
    _, defined = models_json_schema(modes, ref_template=_SCHEMAS + "{model}")  # type: ignore[arg-type]
    bodies = [each.body for each in endpoints if each.body]
    _, records = msgspec.json.schema_components(bodies, ref_template=_SCHEMAS + "{name}")
    schemas: dict[str, Any] = {**defined["$defs"], **records}
    schemas["Finding"]["properties"]["name"]["enum"] = list(NAMES)
    return schemas


def _operation(endpoint: Endpoint) -> dict[str, Any]:
    schema = {"$ref": _SCHEMAS + endpoint.model.__name__} if endpoint.model else {}
    problem = {PROBLEM: {"schema": {"$ref": _SCHEMAS + ProblemView.__name__}}}
    return {
        "operationId": endpoint.name,
        "summary": endpoint.summary,
        "parameters": list(_parameters(endpoint)),
        **({"requestBody": _body(endpoint.body.__name__)} if endpoint.body else {}),
        "responses": {
            "200": {"description": endpoint.summary + ".", "content": {JSON: {"schema": schema}}},
            "default": {"description": "An error; `detail` says what it is.", "content": problem},
        },
    }


def _parameters(endpoint: Endpoint) -> Iterator[dict[str, Any]]:
    for place in (part[1:-1] for part in endpoint.path.split("/") if part.startswith("{")):
        yield {"name": place, "in": "path", "required": True, "schema": {"type": "string"}}
    for name, description, _, value, _, repeats, _, example in endpoint.parameters:
        examples = {"examples": [[example] if repeats else example]} if example else {}
        schema = {"type": "array", "items": value} if repeats else value
        yield {"name": name, "in": "query", "description": description, "schema": {**schema, **examples}}
    for name, description, _, schema, *_ in endpoint.headers:
        yield {"name": name, "in": "header", "description": description, "schema": schema}


def _body(record: str) -> dict[str, Any]:
    """Describe a body of one request, an array, or lines of JSON, which are a string in OpenAPI."""
    one = {"$ref": _SCHEMAS + record}
    several = {"type": "array", "items": one, "maxItems": MAX_BATCH_REQUESTS}
    lines = {"type": "string", "description": "One JSON object per line."}
    content = {JSON: {"schema": {"anyOf": [one, several]}}, NDJSON: {"schema": lines}}
    return {"required": True, "content": content}
