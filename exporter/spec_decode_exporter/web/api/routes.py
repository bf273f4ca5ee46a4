"""Route table of the API. The application and the OpenAPI document both use it."""

from __future__ import annotations

from typing import Final

from aiohttp import web

from spec_decode_exporter.requests.record import SentRequest
from spec_decode_exporter.views.engine_view import EngineView
from spec_decode_exporter.views.fleet_view import EventsView, SnapshotView, TargetsView
from spec_decode_exporter.views.history import HistoryView
from spec_decode_exporter.views.request_view import RequestsView
from spec_decode_exporter.web.api import request_ingest, responses
from spec_decode_exporter.web.api.endpoint import Endpoint, Header
from spec_decode_exporter.web.api.openapi import document
from spec_decode_exporter.web.api.queries import (
    ApiQuery,
    EventsQuery,
    HistoryQuery,
    RequestsQuery,
    SnapshotQuery,
)
from spec_decode_exporter.web.streaming import each


async def openapi(request: web.Request, _query: ApiQuery) -> web.StreamResponse:
    """Serve the OpenAPI document."""
    return await responses.respond(request, each([document(ENDPOINTS)]))


ENDPOINTS: Final = (
    Endpoint(
        "/api/v1/snapshot",
        "snapshot",
        "Current state of all engines with their figures and counts, and groups of engines",
        responses.snapshot,
        SnapshotQuery,
        SnapshotView,
    ),
    Endpoint(
        f"/api/v1/engines/{{{responses.ENGINE}}}",
        "engine",
        "Current state of one engine",
        responses.engine,
        model=EngineView,
        problems=(404, 500),
    ),
    Endpoint(
        "/api/v1/targets",
        "targets",
        "All targets, and the state of their polls",
        responses.targets,
        model=TargetsView,
    ),
    Endpoint(
        "/api/v1/history",
        "history",
        "History of each engine's counter increments, in equal steps",
        responses.history,
        HistoryQuery,
        HistoryView,
    ),
    Endpoint(
        "/api/v1/events",
        "events",
        "Events of engines and targets",
        responses.events,
        EventsQuery,
        EventsView,
    ),
    Endpoint(
        request_ingest.PATH,
        "requests",
        "Findings of single requests by type and temperature, and of their mix",
        request_ingest.requests,
        RequestsQuery,
        RequestsView,
    ),
    Endpoint(
        request_ingest.PATH,
        "take_requests",
        "Send single requests, each with the metrics of its response",
        request_ingest.take,
        model=request_ingest.TakenView,
        body=SentRequest,
        problems=(404, 408, 413, 415, 429, 503),
        headers=(
            Header(
                request_ingest.DROPPED,
                "Number of requests that the sender dropped since the last accepted body. They count as "
                "refused. An invalid number counts as 0.",
                f"^{request_ingest.NUMBER}$",
            ),
            Header(
                request_ingest.TOO_COSTLY,
                f"Number of the requests in {request_ingest.DROPPED} that the middleware inside vLLM did not "
                "read, because they exceed its limits. An invalid number counts as 0.",
                f"^{request_ingest.NUMBER}$",
            ),
        ),
    ),
    Endpoint("/api/v1/openapi.json", "openapi", "This document", openapi),
)
