"""The JSON API under ``/api/v1``: its handlers, their parameters, the table of its endpoints, and OpenAPI 3.1.

JSON is built one engine at a time, so that polls run in between. Pages of other sites cannot send requests to
the ingest: a browser sends a CORS preflight before JSON, and the exporter does not allow it.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from http import HTTPStatus
from operator import itemgetter
from typing import Any, Final

import msgspec
from aiohttp import hdrs, web
from aiohttp.typedefs import Handler
from pydantic.json_schema import models_json_schema
from pydantic_core import PydanticSerializationError, to_json

from spec_decode_exporter.analysis.verdict import Verdict
from spec_decode_exporter.core.numbers import TooManyValuesError
from spec_decode_exporter.core.tasks import yield_to_event_loop
from spec_decode_exporter.core.version import __version__
from spec_decode_exporter.findings.findings import NAMES
from spec_decode_exporter.monitor.event_log import EVENT_ID, MAX_EVENTS, RecordedEvent
from spec_decode_exporter.monitor.events import EVENT_TYPES
from spec_decode_exporter.monitor.snapshot import EngineSnapshot, id_of
from spec_decode_exporter.requests.record import MAX_BATCH_REQUESTS, NotJsonError, Refusal, SentRequest
from spec_decode_exporter.views import fleet_view
from spec_decode_exporter.views.document import View
from spec_decode_exporter.views.engine_view import EngineView
from spec_decode_exporter.views.request_view import RequestsView, TakenView, head, lists, refused_view
from spec_decode_exporter.web.endpoint import (
    JSON,
    PROBLEM,
    Endpoint,
    Parameter,
    ProblemView,
    Query,
    RequestError,
    wrong_parameters,
)
from spec_decode_exporter.web.state import STATE

NDJSON: Final = "application/x-ndjson"
INGEST_PATH: Final = "/api/v1/requests"
MAX_BODY_BYTES: Final = 1024 * 1024
BODY_SECONDS: Final = 10.0  # seconds for a client to send a body
DROPPED: Final = "X-Spec-Decode-Dropped"
"""Header: requests that the sender dropped since the last accepted body."""
TOO_COSTLY: Final = "X-Spec-Decode-Too-Costly"
"""Header: of these, requests that the middleware inside vLLM did not read because of its limits."""
_NUMBER: Final = "[0-9]{1,9}"  # regular expression of both values
_REJECTED: Final = frozenset({400, 408, 413, 415, 503})
"""Status codes that lose a body, unless its sender stores it. 429 is absent: the sender retries."""
_LINES: Final = {JSON: False, NDJSON: True}
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
_LABEL: Final = "[A-Za-z_][A-Za-z0-9_]*"


def _limit(text: str) -> int:
    if not re.fullmatch("[0-9]{1,4}", text) or not 1 <= int(text) <= MAX_EVENTS:
        raise ValueError(text)
    return int(text)


# fmt: off
def _text(**more: object) -> Mapping[str, object]:
    return {"type": "string", **more}


_MATCH: Final = "Only engines with this value of a label, as `name=value`. If repeated, all must match. A label that an engine lacks is empty."
_WINDOW: Final = Parameter("window", "Only these windows, such as `5m`.", example="5m")
SNAPSHOT: Final = (
    Parameter("target", "Only engines of these targets.", example="chat-0"),
    Parameter("model", "Only engines of these models, by the label `model_name`."),
    Parameter("engine", "Only engines with these numbers, by the label `engine`."),
    Parameter("match", _MATCH, "is not name=value, such as zone=eu", _text(pattern=f"^{_LABEL}=.*$"), example="zone=eu"),
    Parameter("verdict", "Only engines with these verdicts.", f"is not a verdict; there are {', '.join(Verdict)}", {"$ref": "#/components/schemas/Verdict"}, Verdict),
    _WINDOW,
)
EVENTS: Final = (
    Parameter("type", "Only these types.", f"is not an event type; there are {', '.join(EVENT_TYPES)}", _text(enum=list(EVENT_TYPES)), example="acceptance_dropped"),
    Parameter("target", "Only events of these targets and their engines."),
    Parameter("engine_id", "Only events of these engines, by their ids."),
    Parameter("since", "Only events after the event with this id.", "is not the id of an event", _text(pattern=EVENT_ID), repeats=False, example="19af3c1d2e0-17"),
    Parameter("limit", "Maximum number of events: the oldest after `since`, or the newest without `since`.", f"is not a whole number from 1 to {MAX_EVENTS}", {"type": "integer", "minimum": 1, "maximum": MAX_EVENTS, "default": 100}, _limit, repeats=False, default=100),
)
REQUESTS: Final = (
    _WINDOW,
    Parameter("model", "Only these models, by the label `model_name`."),
    Parameter("request_type", "Only these request types.", example="chat"),
    Parameter("temperature", "Only these temperatures, by bucket.", example="0.3-0.7"),
)
# fmt: on


async def snapshot(request: web.Request, query: Query) -> bytes:
    """Return the selected engines, and the experiments."""
    state, errors = request.app[STATE], request.app[STATE].errors
    shown, wanted = query["window"], query["verdict"]
    labels = [pair.partition("=")[0] for pair in query["match"]]
    _check("window", shown, state.windows(), "window that is not configured")
    _check("match", labels, state.labels(), "label that no target has")
    taken, now = await state.snapshot(), state.clock.wall()
    engines = [
        (labels, engine)
        for labels, engine in taken.engines
        if selects(query, labels) and (not wanted or engine.evaluation.verdict in wanted)
    ]
    members = {
        "engines": errors.each("snapshot", engines, itemgetter(0), lambda each: _engine(*each, shown)),
        "experiments": map(encoded, fleet_view.experiment_views(taken.experiments, errors, "snapshot")),
    }
    return await joined(members, time=now, version=state.version, last_event=taken.last_event)


async def engine(request: web.Request, _query: Query) -> bytes:
    """Return one engine."""
    state = request.app[STATE]
    for labels, its in (await state.snapshot()).engines:
        if id_of(labels) == request.match_info["engine_id"]:
            if body := state.errors.attempt("snapshot", labels, partial(_engine, labels, its)):
                return body
            detail = "This engine cannot be shown because of an internal error; see the exporter's log."
            raise RequestError(HTTPStatus.INTERNAL_SERVER_ERROR, detail)
    raise RequestError(HTTPStatus.NOT_FOUND, "No engine has this id; /api/v1/snapshot lists all engines.")


def _engine(labels: Mapping[str, str], its: EngineSnapshot, shown: tuple[str, ...] = ()) -> bytes:
    return encoded(EngineView(labels=labels, snapshot=its, shown=shown))


async def targets(request: web.Request, _query: Query) -> bytes:
    """Return every target."""
    state = request.app[STATE]
    snapshot, now = await state.snapshot(), state.clock.wall()
    views = state.errors.each(
        "targets", snapshot.targets, itemgetter(0), lambda target: encoded(fleet_view.target_view(target[1]))
    )
    return await joined({"targets": views}, time=now)


async def events(request: web.Request, query: Query) -> bytes:
    """Return a page of the stored events."""
    state, limit = request.app[STATE], query["limit"]
    stored, gap = (state.events.kept, False) if query["since"] is None else state.events.since(query["since"])
    chosen = [event for event in stored if _has(query, event, "type", "target", "engine_id")]
    more = query["since"] is not None and len(chosen) > limit
    shown = chosen[:limit] if query["since"] is not None else chosen[-limit:]
    views = state.errors.each("events", shown, lambda event: {"target": event.target}, encoded)
    last = shown[-1].id if more else state.events.last
    return await joined({"events": views}, gap=gap, last=last, more=more)


async def requests(request: web.Request, query: Query) -> bytes:
    """Return the findings of the selected requests."""
    state = request.app[STATE]
    _check("window", query["window"], state.windows(), "window that is not configured")
    findings = (await state.snapshot()).requests
    wanted = {"model_name" if name == "model" else name: values for name, values in query.items()}
    members = {
        name: (encoded(each) for each in its if _has(wanted, each, *wanted))
        for name, its in lists(findings, state.errors).items()
    }
    return await joined(members, time=state.clock.wall(), **head(findings))


async def take_requests(request: web.Request, _query: Query) -> bytes:
    """Accept the requests of a body."""
    receiver = request.app[STATE].receiver()
    if receiver is None:
        detail = "The ingest of requests is disabled; set `requests.ingest: true` in the configuration."
        raise RequestError(HTTPStatus.NOT_FOUND, detail)
    lines = _is_lines(request)
    try:
        batch = await receiver.take(await _body(request), lines=lines, unsent=_unsent(request))
    except NotJsonError as error:
        raise RequestError(HTTPStatus.BAD_REQUEST, str(error)) from None
    except TooManyValuesError as error:
        raise RequestError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, str(error)) from None
    if batch.above_the_rate:
        detail = "The requests exceed the rate limit, `requests.rate` of the configuration."
        raise RequestError(HTTPStatus.TOO_MANY_REQUESTS, detail, retry=1)
    return encoded(TakenView.of(batch, taken=len(batch.requests), refused=refused_view(batch.refused)))


async def openapi(_request: web.Request, _query: Query) -> bytes:
    """Return the OpenAPI document."""
    return document()


# fmt: off
_WITHOUT: Final = "An invalid number counts as 0."
_HEADERS: Final = (
    Parameter(DROPPED, f"Number of requests that the sender dropped since the last accepted body. They count as refused. {_WITHOUT}", schema=_text(pattern=f"^{_NUMBER}$")),
    Parameter(TOO_COSTLY, f"Number of the requests in {DROPPED} that the middleware inside vLLM did not read, because they exceed its limits. {_WITHOUT}", schema=_text(pattern=f"^{_NUMBER}$")),
)
ENDPOINTS: Final = (
    Endpoint("GET", "/api/v1/snapshot", "snapshot", "Current state of all engines with their figures and counts", snapshot, fleet_view.SnapshotView, SNAPSHOT),
    Endpoint("GET", "/api/v1/engines/{engine_id}", "engine", "Current state of one engine", engine, EngineView),
    Endpoint("GET", "/api/v1/targets", "targets", "All targets, and the state of their polls", targets, fleet_view.TargetsView),
    Endpoint("GET", "/api/v1/events", "events", "Events of engines and targets", events, fleet_view.EventsView, EVENTS),
    Endpoint("GET", INGEST_PATH, "requests", "Findings of single requests by type and temperature, and of their mix", requests, RequestsView, REQUESTS),
    Endpoint("POST", INGEST_PATH, "take_requests", "Send single requests, each with the metrics of its response", take_requests, TakenView, body=SentRequest, headers=_HEADERS),
    Endpoint("GET", "/api/v1/openapi.json", "openapi", "This document", openapi),
)
# fmt: on


def selects(query: Query, labels: Mapping[str, str]) -> bool:
    """Return whether a query selects an engine with these labels."""
    named = {"target": query["target"], "model_name": query["model"], "engine": query["engine"]}
    pairs = (pair.partition("=") for pair in query["match"])
    return all(not values or labels[name] in values for name, values in named.items()) and all(
        labels.get(name, "") == value for name, _, value in pairs
    )


def _has(query: Query, item: object, *names: str) -> bool:
    """Return whether an item has one of the values of each parameter; an attribute that it lacks is any."""
    return all(not query[name] or getattr(item, name, query[name][0]) in query[name] for name in names)


def _check(parameter: str, names: Iterable[str], known: Sequence[str], unknown: str) -> None:
    """Reject names that are not known: a misspelled one would select nothing, and look healthy."""
    if not set(names) <= set(known):
        raise wrong_parameters([(parameter, f"names a {unknown}; there are {', '.join(known)}")])


def encoded(view: View | RecordedEvent) -> bytes:
    """Return a document as JSON."""
    if not isinstance(view, View):
        return to_json(view)
    try:
        return view.model_dump_json().encode()
    except PydanticSerializationError:
        view.read_all()  # raises the error of the fact itself, with its traceback
        raise


async def joined(members: Mapping[str, Iterable[bytes]], **first: object) -> bytes:
    """Return an object of single values, then of lists; yield to the event loop after each member.

    The members are encoded lazily: an engine takes about half a millisecond.
    """
    parts = [json.dumps(first, allow_nan=False).encode()[:-1]]
    for name, each in members.items():
        parts.append(b", %b: [" % json.dumps(name).encode())
        begin = len(parts)
        for member in each:
            parts += (b",", member) if len(parts) > begin else (member,)
            await yield_to_event_loop()
        parts.append(b"]")
    return b"".join([*parts, b"}"])


def count_rejected(handler: Handler) -> Handler:
    """Wrap the handler of bodies: count the bodies that it rejects."""

    async def handle(request: web.Request) -> web.StreamResponse:
        response = await handler(request)
        receiver = request.app[STATE].receiver()
        if receiver is not None and response.status in _REJECTED:
            receiver.reject_body(response.status)
        return response

    return handle


def _unsent(request: web.Request) -> dict[Refusal, int]:
    """Return the number of requests that the sender dropped, by reason. Invalid numbers count as 0."""
    values = (request.headers.get(header, "") for header in (DROPPED, TOO_COSTLY))
    dropped, too_costly = (int(value) if re.fullmatch(_NUMBER, value) else 0 for value in values)
    too_costly = min(dropped, too_costly)
    return {Refusal.DROPPED: dropped - too_costly, Refusal.TOO_COSTLY: too_costly}


def _is_lines(request: web.Request) -> bool:
    """Return whether the body is NDJSON; reject other types, charsets and encodings."""
    encoding, charset = request.headers.get(hdrs.CONTENT_ENCODING, "identity"), request.charset or "utf-8"
    lines = _LINES.get(request.content_type) if hdrs.CONTENT_TYPE in request.headers else None
    if encoding.lower() != "identity":
        detail = "The body must not be compressed; send it without Content-Encoding."
    elif lines is None:
        detail = f"The Content-Type must be {JSON} or {NDJSON}."
    elif charset.lower() not in {"utf-8", "utf8"}:
        detail = "The charset must be UTF-8."
    else:
        return lines
    raise RequestError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, detail)


async def _body(request: web.Request) -> bytes:
    """Return the body; reject one that is too slow or longer than ``MAX_BODY_BYTES``."""
    try:
        async with asyncio.timeout(BODY_SECONDS):
            return await request.read()
    except web.HTTPRequestEntityTooLarge:
        status = HTTPStatus.REQUEST_ENTITY_TOO_LARGE
        detail = f"A body is limited to {MAX_BODY_BYTES} bytes; send the requests in several bodies."
    except TimeoutError:
        detail = f"The body did not arrive within {BODY_SECONDS:.0f} seconds."
        status = HTTPStatus.REQUEST_TIMEOUT
    except (OSError, web.RequestPayloadError):  # of the client or its TLS, so it is not logged
        status, detail = HTTPStatus.BAD_REQUEST, "The body is incomplete."
    raise RequestError(status, detail)


@cache
def document() -> bytes:
    """Return the OpenAPI document of all endpoints."""
    paths: dict[str, dict[str, Any]] = {}
    for each in ENDPOINTS:
        paths.setdefault(each.path, {})[each.method.lower()] = _operation(each)
    described = {
        "openapi": "3.1.0",
        "info": _INFO,
        "security": [{}, {"password": []}],
        "paths": paths,
        "components": {
            "schemas": _schemas(),
            "securitySchemes": {"password": {"type": "http", "scheme": "basic"}},
        },
    }
    return json.dumps(described, ensure_ascii=False, separators=(",", ":")).encode()


def _schemas() -> dict[str, Any]:
    models: dict[type[View], None] = dict.fromkeys(
        [ProblemView, *(each.model for each in ENDPOINTS if each.model)]
    )
    modes = [(model, "serialization") for model in models]
    _, defined = models_json_schema(modes, ref_template=_SCHEMAS + "{model}")  # type: ignore[arg-type]
    bodies = [each.body for each in ENDPOINTS if each.body]
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
        **({"requestBody": _request_body(endpoint.body.__name__)} if endpoint.body else {}),
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


def _request_body(record: str) -> dict[str, Any]:
    """Describe a body of one request, an array, or lines of JSON, which are a string in OpenAPI."""
    one = {"$ref": _SCHEMAS + record}
    several = {"type": "array", "items": one, "maxItems": MAX_BATCH_REQUESTS}
    lines = {"type": "string", "description": "One JSON object per line."}
    content = {JSON: {"schema": {"anyOf": [one, several]}}, NDJSON: {"schema": lines}}
    return {"required": True, "content": content}
