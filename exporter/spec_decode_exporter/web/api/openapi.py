"""OpenAPI 3.1 document, generated from the route table and the models."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import cache
from http import HTTPStatus
from typing import Any, Final

import msgspec
from pydantic.json_schema import JsonSchemaMode, models_json_schema

from spec_decode_exporter.core.version import __version__
from spec_decode_exporter.findings.findings import NAMES
from spec_decode_exporter.requests.record import MAX_BATCH_REQUESTS
from spec_decode_exporter.views.document import View
from spec_decode_exporter.web.api.endpoint import Endpoint
from spec_decode_exporter.web.api.problems import CONTENT_TYPE, ProblemView
from spec_decode_exporter.web.api.queries import MAX_PARAMETERS, ApiQuery
from spec_decode_exporter.web.api.request_ingest import BODY_SECONDS, JSON, MAX_BODY_BYTES, NDJSON

_INFO: Final = {
    "title": "spec-decode-exporter",
    "version": __version__,
    "summary": "Current state of vLLM's speculative decoding",
    "description": "Everything under /api/v1/ is stable: fields and parameters may be added, and none is "
    "renamed, removed or changed in meaning. Every path that supports GET supports HEAD. A web configuration "
    "may require a password or a client certificate.",
    "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
}
_REFERENCE: Final = "#/components/schemas/{name}"
_PARAMETER_KEYS: Final = {"title", "description"}
"""Keys that belong to a parameter, not to its schema."""
_NO_DEFAULTS: Final[tuple[object, ...]] = ([], None)
"""Defaults that are not documented: they mean that the parameter is absent."""
_DESCRIPTIONS: Final = {
    HTTPStatus.BAD_REQUEST: (
        f"A parameter is unknown or invalid, a request has more than {MAX_PARAMETERS} "
        "parameters, or a body is not JSON."
    ),
    HTTPStatus.NOT_FOUND: "The engine does not exist, or the ingest of requests is disabled.",
    HTTPStatus.REQUEST_TIMEOUT: f"The body did not arrive within {BODY_SECONDS:.0f} seconds.",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: (
        f"The body exceeds {MAX_BODY_BYTES} bytes or {MAX_BATCH_REQUESTS} requests."
    ),
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE: "The type, charset or encoding of the body is not supported.",
    HTTPStatus.TOO_MANY_REQUESTS: "All requests exceed the rate limit; retry after `Retry-After` seconds.",
    HTTPStatus.INTERNAL_SERVER_ERROR: (
        "The engine cannot be shown because of an internal error; see the exporter's log."
    ),
    HTTPStatus.SERVICE_UNAVAILABLE: "Too many concurrent requests; retry after `Retry-After` seconds.",
}


@cache
def document(endpoints: tuple[Endpoint, ...]) -> bytes:
    """Return the document as JSON."""
    return json.dumps(_document(endpoints), ensure_ascii=False, separators=(",", ":")).encode()


def _document(endpoints: Sequence[Endpoint]) -> dict[str, Any]:
    responses: list[type[View]] = [ProblemView, *(each.model for each in endpoints if each.model)]
    queries: list[type[ApiQuery]] = [each.query for each in endpoints]
    models: list[tuple[type[Any], JsonSchemaMode]] = [
        *((model, "serialization") for model in dict.fromkeys(responses)),
        *((query, "validation") for query in dict.fromkeys(queries)),
    ]
    refs, defined = models_json_schema(models, ref_template=_REFERENCE.format(name="{model}"))
    bodies = [each.body for each in endpoints if each.body]
    _, records = msgspec.json.schema_components(bodies, ref_template=_REFERENCE)
    schemas = {name: schema for name, schema in defined["$defs"].items() if not _is_query(name, queries)}
    schemas |= records
    schemas["Finding"]["properties"]["name"]["enum"] = list(NAMES)
    return {
        "openapi": "3.1.0",
        "info": _INFO,
        "security": [{}, {"password": []}],
        "paths": {
            path: {
                each.methods[0].lower(): {
                    "operationId": each.name,
                    "summary": each.summary,
                    "parameters": list(_parameters(each, defined["$defs"])),
                    **({"requestBody": _body(each.body.__name__)} if each.body else {}),
                    "responses": _responses(each, refs[each.model, "serialization"] if each.model else {}),
                }
                for each in endpoints
                if each.path == path
            }
            for path in dict.fromkeys(each.path for each in endpoints)
        },
        "components": {
            "schemas": schemas,
            "securitySchemes": {"password": {"type": "http", "scheme": "basic"}},
        },
    }


def _body(record: str) -> dict[str, Any]:
    """Describe a body of one request, an array, or lines of JSON, which are a string in OpenAPI."""
    one = {"$ref": _REFERENCE.format(name=record)}
    lines = {"type": "string", "description": "One JSON object per line."}
    return {
        "required": True,
        "content": {
            JSON: {
                "schema": {"anyOf": [one, {"type": "array", "items": one, "maxItems": MAX_BATCH_REQUESTS}]}
            },
            NDJSON: {"schema": lines},
        },
    }


def _is_query(name: str, queries: Sequence[type[ApiQuery]]) -> bool:
    return name in {query.__name__ for query in queries}


def _parameters(endpoint: Endpoint, schemas: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for place in (part[1:-1] for part in endpoint.path.split("/") if part.startswith("{")):
        yield {"name": place, "in": "path", "required": True, "schema": {"type": "string"}}
    for name, schema in schemas[endpoint.query.__name__].get("properties", {}).items():
        shown = {
            key: value
            for key, value in schema.items()
            if key not in _PARAMETER_KEYS and not (key == "default" and value in _NO_DEFAULTS)
        }
        description = {"description": schema["description"]}
        yield {"name": name, "in": "query", **description, "schema": _without_null(shown)}
    for header in endpoint.headers:
        yield {
            "name": header.name,
            "in": "header",
            "description": header.description,
            "schema": {"type": "string", "pattern": header.pattern},
        }


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a present parameter: a URL has no null."""
    present = [each for each in schema.get("anyOf", ()) if each.get("type") != "null"]
    return (
        {**present[0], **{key: value for key, value in schema.items() if key != "anyOf"}}
        if present
        else schema
    )


def _responses(endpoint: Endpoint, schema: dict[str, Any]) -> dict[str, Any]:
    problem = {CONTENT_TYPE: {"schema": {"$ref": f"#/components/schemas/{ProblemView.__name__}"}}}
    errors = [HTTPStatus.BAD_REQUEST, *map(HTTPStatus, endpoint.problems), HTTPStatus.SERVICE_UNAVAILABLE]
    return {
        "200": {"description": endpoint.summary + ".", "content": {JSON: {"schema": schema}}},
        **{
            str(status.value): {"description": _DESCRIPTIONS[status], "content": problem} for status in errors
        },
        "default": {"description": "Any other error.", "content": problem},
    }
