"""The API's pages: ONE table, which the application serves and the OpenAPI document is made of."""

from __future__ import annotations

from typing import Final

from aiohttp import web

from exporter.event_log import EVENT_ID
from exporter.export.models import EngineView, EventsView, EventView, HistoryView, SnapshotView, TargetsView
from exporter.export.request_models import RequestsView, SentRequest, TakenView
from exporter.web.api import answers, requests, stream
from exporter.web.api.endpoint import Endpoint, Header
from exporter.web.api.openapi import document
from exporter.web.api.queries import (
    EventFilter,
    EventsQuery,
    HistoryQuery,
    Query,
    RequestsQuery,
    SnapshotQuery,
)
from exporter.web.exposition import each


async def openapi(request: web.Request, _query: Query) -> web.StreamResponse:
    """Serve the description of the API."""
    return await answers.respond(request, each([document(ENDPOINTS)]))


ENDPOINTS: Final = (
    Endpoint(
        "/api/v1/snapshot",
        "snapshot",
        "Every engine now, with every number and the counts behind it; groups of engines",
        answers.snapshot,
        SnapshotQuery,
        SnapshotView,
    ),
    Endpoint(
        f"/api/v1/engines/{{{answers.ENGINE}}}",
        "engine",
        "One engine now",
        answers.engine,
        model=EngineView,
        problems=(404, 500),
    ),
    Endpoint(
        "/api/v1/targets", "targets", "Every target, and how it is polled", answers.targets, model=TargetsView
    ),
    Endpoint(
        "/api/v1/history",
        "history",
        "What is kept of each engine's increments, in steps of time",
        answers.history,
        HistoryQuery,
        HistoryView,
    ),
    Endpoint(
        "/api/v1/events",
        "events",
        "What happened to engines and targets",
        answers.events,
        EventsQuery,
        EventsView,
    ),
    Endpoint(
        "/api/v1/events/stream",
        "event_stream",
        "The same as it happens, as server-sent events; `gap` says that some are missing",
        stream.events,
        EventFilter,
        EventView,
        stream.CONTENT_TYPE,
        problems=(503,),
        streams=True,
        headers=(
            Header(
                stream.LAST_EVENT_ID,
                "The same as `since`, as browsers say it when they connect again.",
                EVENT_ID,
            ),
        ),
    ),
    Endpoint(
        requests.PATH,
        "requests",
        "What single requests say of their speculation, by type and temperature, and of the mix",
        requests.requests,
        RequestsQuery,
        RequestsView,
    ),
    Endpoint(
        requests.PATH,
        "take_requests",
        "Take single requests, each with the metrics of its response",
        requests.take,
        model=TakenView,
        body=SentRequest,
        problems=(404, 408, 413, 415, 429, 503),
        headers=(
            Header(
                requests.DROPPED,
                "How many requests the sender had to drop since the last body that was taken; counted as "
                "refused. What is no such number is passed over.",
                f"^{requests.NUMBER}$",
            ),
            Header(
                requests.TOO_COSTLY,
                f"How many of the requests in {requests.DROPPED} the middleware inside vLLM did not read, "
                "because they exceed its limits. An invalid number counts as 0.",
                f"^{requests.NUMBER}$",
            ),
        ),
    ),
    Endpoint("/api/v1/openapi.json", "openapi", "This document", openapi),
)
