"""Handlers of the API. They send JSON in pieces, one engine at a time, so that polls run in between."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from functools import partial
from http import HTTPStatus
from typing import Any, Final

from aiohttp import hdrs, web
from pydantic_core import PydanticSerializationError, to_json

from spec_decode_exporter.core.tasks import yield_to_event_loop
from spec_decode_exporter.metrics.negotiation import choose_gzip
from spec_decode_exporter.monitor.engine_snapshot import EngineSnapshot, id_of
from spec_decode_exporter.monitor.event_log import RecordedEvent
from spec_decode_exporter.views.document import View
from spec_decode_exporter.views.engine_view import EngineView
from spec_decode_exporter.views.fleet_view import experiment_view, experiments_of, group_view, grouped
from spec_decode_exporter.views.history import MAX_STEPS, default_step, history_view, min_step
from spec_decode_exporter.web.api.problems import RequestError, wrong_parameter
from spec_decode_exporter.web.api.queries import (
    ApiQuery,
    EngineQuery,
    EventsQuery,
    HistoryQuery,
    SnapshotQuery,
)
from spec_decode_exporter.web.state import STATE
from spec_decode_exporter.web.streaming import compressed, each, stream

ENGINE: Final = "engine_id"
"""Name of the path parameter."""
_NOT_SHOWN: Final = "This engine cannot be shown because of an internal error; see the exporter's log."


async def snapshot(request: web.Request, query: SnapshotQuery) -> web.StreamResponse:
    """Serve the selected engines, and groups of them."""
    state = request.app[STATE]
    check_windows(query.window, state.windows())
    _check_labels(query, state.labels(), group_by=query.group_by)
    taken, now = await state.snapshot(), state.clock.wall()
    engines = [
        (labels, engine)
        for labels, engine in taken.engines
        if query.selects(labels) and (not query.verdict or engine.evaluation.verdict in query.verdict)
    ]
    errors = state.errors
    groups = grouped(engines, query.group_by) if query.group_by else []
    lists = {
        "engines": errors.each(
            "snapshot",
            engines,
            lambda engine: engine[0],
            lambda engine: encoded(EngineView(labels=engine[0], snapshot=engine[1], shown=query.window)),
        ),
        "groups": errors.each(
            "snapshot",
            groups,
            lambda group: group[0],
            lambda group: encoded(group_view(*group, query.window)),
        ),
        "experiments": errors.each(
            "snapshot",
            experiments_of(taken.experiments),
            lambda experiment: {"experiment": experiment[0]},
            lambda experiment: encoded(experiment_view(*experiment)),
        ),
    }
    head = {"time": now, "version": state.version, "last_event": taken.last_event}
    return await respond(request, pieces(head, lists))


async def engine(request: web.Request, _query: ApiQuery) -> web.StreamResponse:
    """Serve one engine."""
    state = request.app[STATE]
    taken = await state.snapshot()
    engine_id = request.match_info[ENGINE]
    for labels, engine_snapshot in taken.engines:
        if id_of(labels) == engine_id:
            body = state.errors.attempt("snapshot", labels, partial(_engine, labels, engine_snapshot))
            if body is None:
                raise RequestError(HTTPStatus.INTERNAL_SERVER_ERROR, _NOT_SHOWN)
            return await respond(request, each([body]))
    raise RequestError(HTTPStatus.NOT_FOUND, "No engine has this id; /api/v1/snapshot lists all engines.")


def _engine(labels: Mapping[str, str], engine_snapshot: EngineSnapshot) -> bytes:
    return encoded(EngineView(labels=labels, snapshot=engine_snapshot))


async def targets(request: web.Request, _query: ApiQuery) -> web.StreamResponse:
    """Serve every target."""
    state = request.app[STATE]
    views = state.errors.each("targets", state.targets(), lambda target: {"target": target.target}, encoded)
    return await respond(request, pieces({"time": state.clock.wall()}, {"targets": views}))


async def history(request: web.Request, query: HistoryQuery) -> web.StreamResponse:
    """Serve the history of the selected engines."""
    state = request.app[STATE]
    _check_labels(query, state.labels())
    histories = state.histories()
    step = default_step(histories.longest) if query.step is None else query.step
    if step < min_step(histories.longest):
        least = min_step(histories.longest)
        raise wrong_parameter("step", f"makes more than {MAX_STEPS} steps; the shortest is {least:.3g} s")
    views = state.errors.each(
        "history",
        (engine for engine in histories.engines if query.selects(engine[0])),
        lambda engine: engine[0],
        lambda engine: encoded(history_view(*engine, histories.offset, step)),
    )
    return await respond(
        request, pieces({"time": state.clock.wall(), "step_seconds": step}, {"engines": views})
    )


async def events(request: web.Request, query: EventsQuery) -> web.StreamResponse:
    """Serve a page of the stored events."""
    state = request.app[STATE]
    since = state.events.since(query.since)
    selected = tuple(filter(query.selects, since.events))
    more = query.since is not None and len(selected) > query.limit
    shown = selected[: query.limit] if query.since is not None else selected[-query.limit :]
    last = shown[-1].id if more else since.last
    head = {"gap": since.gap, "last": last, "more": more}
    events_ = state.errors.each("events", shown, lambda event: {"target": event.target}, encoded)
    return await respond(request, pieces(head, {"events": events_}))


def check_windows(requested: Iterable[str], configured: Iterable[str]) -> None:
    """Reject windows that are not configured."""
    if any(name not in configured for name in requested):
        raise wrong_parameter(
            "window", f"names a window that is not configured; there are {', '.join(configured)}"
        )


def _check_labels(query: EngineQuery, known: Sequence[str], group_by: Iterable[str] = ()) -> None:
    """Reject labels that no target has: a misspelled one would select nothing, and look healthy."""
    for parameter, names in (("match", query.matched_labels()), ("group_by", group_by)):
        if any(name not in known for name in names):
            raise wrong_parameter(
                parameter, f"names a label that no target has; there are {', '.join(known)}"
            )


def encoded(view: View | RecordedEvent) -> bytes:
    """Return a document as JSON."""
    if not isinstance(view, View):
        return to_json(view)
    try:
        return view.model_dump_json().encode()
    except PydanticSerializationError:
        view.read_all()  # raises the error of the fact itself, with its traceback
        raise


async def pieces(head: Mapping[str, Any], lists: Mapping[str, Iterable[bytes]]) -> AsyncIterator[bytes]:
    """Yield an object of single values and of lists, whose members are encoded one at a time.

    It yields to the event loop after each member: an engine takes about half a millisecond.
    """
    yield json.dumps(head, allow_nan=False).encode()[:-1]
    for name, members in lists.items():
        yield b", %b: [" % json.dumps(name).encode()
        comma = b""
        for member in members:
            yield comma + member
            comma = b","
            await yield_to_event_loop()
        yield b"]"
    yield b"}"


async def whole(view: View) -> AsyncIterator[bytes]:
    """Yield a view in one piece."""
    yield encoded(view)


async def respond(request: web.Request, body: AsyncIterator[bytes]) -> web.StreamResponse:
    """Serve pieces of JSON, compressed if the client accepts it."""
    headers = {"Content-Type": "application/json", "Vary": "Accept-Encoding"}
    if choose_gzip(",".join(request.headers.getall(hdrs.ACCEPT_ENCODING, []))):
        return await stream(request, compressed(body), {**headers, "Content-Encoding": "gzip"})
    return await stream(request, body, headers)
