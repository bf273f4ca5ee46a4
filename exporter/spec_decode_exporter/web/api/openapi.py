"""The OpenAPI 3.1 document, made of the route table and the models: nothing of it is written by hand."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import cache
from http import HTTPStatus
from typing import Any, Final

from pydantic.json_schema import JsonSchemaMode, models_json_schema

from spec_decode_exporter.core.version import __version__
from spec_decode_exporter.requests.request_batch import MAX_BATCH_REQUESTS
from spec_decode_exporter.views.models import View
from spec_decode_exporter.web.api.endpoint import Endpoint
from spec_decode_exporter.web.api.event_stream import CONTENT_TYPE as STREAM
from spec_decode_exporter.web.api.problems import CONTENT_TYPE, ProblemView
from spec_decode_exporter.web.api.queries import ApiQuery
from spec_decode_exporter.web.api.request_ingest import JSON, NDJSON

_INFO: Final = {
    "title": "spec-decode-exporter",
    "version": __version__,
    "summary": "What vLLM's speculative-decoding counters mean now",
    "description": "What is said under /api/v1/ stays: fields and parameters may be added, none is renamed, "
    "removed or given another meaning. Every page that answers GET answers HEAD too. With a web "
    "configuration, clients may need a password or a certificate.",
    "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
}
_NOT_OF_A_SCHEMA: Final = {"title", "description"}
_NO_DEFAULTS: Final[tuple[object, ...]] = ([], None)
"""What a parameter is where it is left out: no value, and not this one."""
_DESCRIBED: Final = {
    HTTPStatus.BAD_REQUEST: "A parameter is unknown or wrong, or a body is no JSON.",
    HTTPStatus.NOT_FOUND: "There is no such engine; or nothing is taken here.",
    HTTPStatus.REQUEST_TIMEOUT: "The body did not arrive in time.",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "The body is too long, or has too many requests.",
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE: "The body is of another type, charset or encoding.",
    HTTPStatus.TOO_MANY_REQUESTS: "All of it is above the rate; come again after `Retry-After` seconds.",
    HTTPStatus.INTERNAL_SERVER_ERROR: "This engine cannot be shown: an internal error, which is in the log.",
    HTTPStatus.SERVICE_UNAVAILABLE: "Too many read at a time; come again after `Retry-After` seconds.",
}


@cache
def document(endpoints: tuple[Endpoint, ...]) -> bytes:
    """Return the document as JSON."""
    return json.dumps(_document(endpoints), ensure_ascii=False, separators=(",", ":")).encode()


def _document(endpoints: Sequence[Endpoint]) -> dict[str, Any]:
    answered: list[type[View]] = [ProblemView, *(each.model for each in endpoints if each.model)]
    queries: list[type[ApiQuery]] = [each.query for each in endpoints]
    models: list[tuple[type[Any], JsonSchemaMode]] = [
        *((model, "serialization") for model in dict.fromkeys(answered)),
        *((query, "validation") for query in dict.fromkeys(queries)),
        *((each.body, "validation") for each in endpoints if each.body),
    ]
    refs, defined = models_json_schema(models, ref_template="#/components/schemas/{model}")
    schemas = {name: schema for name, schema in defined["$defs"].items() if not _is_query(name, queries)}
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
                    **({"requestBody": _body(refs[each.body, "validation"])} if each.body else {}),
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


def _body(one: dict[str, Any]) -> dict[str, Any]:
    """Describe a body of one or many; lines of JSON are a text to OpenAPI."""
    lines = {"type": "string", "description": "One JSON object in each line."}
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
            if key not in _NOT_OF_A_SCHEMA and not (key == "default" and value in _NO_DEFAULTS)
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
    """Return the schema of a parameter that is there: a URL has no null."""
    there = [each for each in schema.get("anyOf", ()) if each.get("type") != "null"]
    return (
        {**there[0], **{key: value for key, value in schema.items() if key != "anyOf"}} if there else schema
    )


def _responses(endpoint: Endpoint, schema: dict[str, Any]) -> dict[str, Any]:
    problem = {CONTENT_TYPE: {"schema": {"$ref": f"#/components/schemas/{ProblemView.__name__}"}}}
    content = {"schema": {"type": "string"}} if endpoint.content_type == STREAM else {"schema": schema or {}}
    refused = [HTTPStatus.BAD_REQUEST, *map(HTTPStatus, endpoint.problems), HTTPStatus.SERVICE_UNAVAILABLE]
    return {
        "200": {"description": endpoint.summary + ".", "content": {endpoint.content_type: content}},
        **{str(status.value): {"description": _DESCRIBED[status], "content": problem} for status in refused},
        "default": {"description": "What any request may be answered with.", "content": problem},
    }
