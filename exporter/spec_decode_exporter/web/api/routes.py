"""The API's pages: ONE table, which the application serves and the OpenAPI document is made of."""

from __future__ import annotations

from typing import Final

from aiohttp import web

from spec_decode_exporter.metrics.exposition import each
from spec_decode_exporter.monitor.event_log import EVENT_ID
from spec_decode_exporter.views.models import (
    EngineView,
    EventsView,
    EventView,
    HistoryView,
    SnapshotView,
    TargetsView,
)
from spec_decode_exporter.views.request_models import RequestsView, SentRequest, TakenView
from spec_decode_exporter.web.api import event_stream, request_ingest, responses
from spec_decode_exporter.web.api.endpoint import Endpoint, Header
from spec_decode_exporter.web.api.openapi import document
from spec_decode_exporter.web.api.queries import (
    ApiQuery,
    EventFilter,
    EventsQuery,
    HistoryQuery,
    RequestsQuery,
    SnapshotQuery,
)


async def openapi(request: web.Request, _query: ApiQuery) -> web.StreamResponse:
    """Serve the description of the API."""
    return await responses.respond(request, each([document(ENDPOINTS)]))


ENDPOINTS: Final = (
    Endpoint(
        "/api/v1/snapshot",
        "snapshot",
        "Every engine now, with every number and the counts behind it; groups of engines",
        responses.snapshot,
        SnapshotQuery,
        SnapshotView,
    ),
    Endpoint(
        f"/api/v1/engines/{{{responses.ENGINE}}}",
        "engine",
        "One engine now",
        responses.engine,
        model=EngineView,
        problems=(404, 500),
    ),
    Endpoint(
        "/api/v1/targets",
        "targets",
        "Every target, and how it is polled",
        responses.targets,
        model=TargetsView,
    ),
    Endpoint(
        "/api/v1/history",
        "history",
        "What is kept of each engine's increments, in steps of time",
        responses.history,
        HistoryQuery,
        HistoryView,
    ),
    Endpoint(
        "/api/v1/events",
        "events",
        "What happened to engines and targets",
        responses.events,
        EventsQuery,
        EventsView,
    ),
    Endpoint(
        "/api/v1/events/stream",
        "event_stream",
        "The same as it happens, as server-sent events; `gap` says that some are missing",
        event_stream.events,
        EventFilter,
        EventView,
        event_stream.CONTENT_TYPE,
        problems=(503,),
        streams=True,
        headers=(
            Header(
                event_stream.LAST_EVENT_ID,
                "The same as `since`, as browsers say it when they connect again.",
                EVENT_ID,
            ),
        ),
    ),
    Endpoint(
        request_ingest.PATH,
        "requests",
        "What single requests say of their speculation, by type and temperature, and of the mix",
        request_ingest.requests,
        RequestsQuery,
        RequestsView,
    ),
    Endpoint(
        request_ingest.PATH,
        "take_requests",
        "Take single requests, each with the metrics of its response",
        request_ingest.take,
        model=TakenView,
        body=SentRequest,
        problems=(404, 408, 413, 415, 429, 503),
        headers=(
            Header(
                request_ingest.DROPPED,
                "How many requests the sender had to drop since the last body that was taken; counted as "
                "refused. What is no such number is passed over.",
                f"^{request_ingest.NUMBER}$",
            ),
            Header(
                request_ingest.TOO_COSTLY,
                f"How many of the requests in {request_ingest.DROPPED} the middleware inside vLLM "
                "did not read, because they exceed its limits. An invalid number counts as 0.",
                f"^{request_ingest.NUMBER}$",
            ),
        ),
    ),
    Endpoint("/api/v1/openapi.json", "openapi", "This document", openapi),
)
