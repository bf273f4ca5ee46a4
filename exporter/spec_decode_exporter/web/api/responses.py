"""What is answered: JSON in pieces, an engine at a time, so that the polls have their turn in between."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from functools import partial
from http import HTTPStatus
from typing import Any, Final

from aiohttp import hdrs, web

from spec_decode_exporter.metrics.exposition import compressed, each
from spec_decode_exporter.metrics.negotiation import choose_gzip
from spec_decode_exporter.monitor.engine_monitor import EngineSnapshot
from spec_decode_exporter.monitor.event_log import UnknownEventError
from spec_decode_exporter.views.engine_view import engine_view, id_of
from spec_decode_exporter.views.event_view import event_view
from spec_decode_exporter.views.experiment_view import experiment_view, experiments_of
from spec_decode_exporter.views.group_totals import group_view, grouped
from spec_decode_exporter.views.history import MAX_STEPS, default_step, history_view, min_step
from spec_decode_exporter.views.models import View
from spec_decode_exporter.web.api.problems import RequestError, wrong_parameter
from spec_decode_exporter.web.api.queries import (
    ApiQuery,
    EngineQuery,
    EventsQuery,
    HistoryQuery,
    SnapshotQuery,
)
from spec_decode_exporter.web.server.streaming import stream
from spec_decode_exporter.web.state import STATE

ENGINE: Final = "engine_id"
"""The part of an engine's path that varies."""
_NOT_SHOWN: Final = "This engine cannot be shown: an internal error. See the exporter's log."


async def snapshot(request: web.Request, query: SnapshotQuery) -> web.StreamResponse:
    """Serve every engine that is asked for, and groups of them."""
    state = request.app[STATE]
    check_windows(query.window, state.api.windows())
    _check_labels(query, state.api.labels(), group_by=query.group_by)
    await state.prepare()
    taken, now = state.api.snapshot(), state.api.now()
    engines = [
        (labels, findings)
        for labels, findings in taken.engines
        if query.selects(labels) and (not query.verdict or findings.evaluation.verdict in query.verdict)
    ]
    errors = state.errors
    groups = grouped(engines, query.group_by) if query.group_by else []
    lists = {
        "engines": errors.each(
            "snapshot",
            engines,
            lambda engine: engine[0],
            lambda engine: encoded(_seen_through(engine_view(*engine), query.window)),
        ),
        "groups": errors.each(
            "snapshot",
            groups,
            lambda group: group[0],
            lambda group: encoded(_seen_through(group_view(*group), query.window)),
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
    await state.prepare()
    wanted = request.match_info[ENGINE]
    for labels, findings in state.api.snapshot().engines:
        if id_of(labels) == wanted:
            found = state.errors.attempt("snapshot", labels, partial(_engine, labels, findings))
            if found is None:
                raise RequestError(HTTPStatus.INTERNAL_SERVER_ERROR, _NOT_SHOWN)
            return await respond(request, each([found]))
    raise RequestError(HTTPStatus.NOT_FOUND, "There is no engine with this id; ask /api/v1/snapshot.")


def _engine(labels: Mapping[str, str], findings: EngineSnapshot) -> bytes:
    return encoded(engine_view(labels, findings))


async def targets(request: web.Request, _query: ApiQuery) -> web.StreamResponse:
    """Serve every target."""
    state = request.app[STATE]
    views = state.errors.each(
        "targets", state.api.targets(), lambda target: {"target": target.target}, encoded
    )
    return await respond(request, pieces({"time": state.api.now()}, {"targets": views}))


async def history(request: web.Request, query: HistoryQuery) -> web.StreamResponse:
    """Serve what the ledgers hold of every engine that is asked for."""
    state = request.app[STATE]
    source = state.api
    _check_labels(query, source.labels())
    kept = source.histories()
    step = default_step(kept.longest) if query.step is None else query.step
    if step < min_step(kept.longest):
        least = min_step(kept.longest)
        raise wrong_parameter("step", f"makes more than {MAX_STEPS} steps; the shortest is {least:.3g} s")
    views = state.errors.each(
        "history",
        (engine for engine in kept.engines if query.selects(engine[0])),
        lambda engine: engine[0],
        lambda engine: encoded(history_view(*engine, kept.offset, step)),
    )
    return await respond(request, pieces({"time": source.now(), "step_seconds": step}, {"engines": views}))


async def events(request: web.Request, query: EventsQuery) -> web.StreamResponse:
    """Serve some of the events that are kept."""
    state = request.app[STATE]
    try:
        since = state.api.events.since(query.since)
    except UnknownEventError as error:
        raise wrong_parameter("since", "is not the id of an event") from error
    found = tuple(filter(query.selects, map(event_view, since.events)))
    more = query.since is not None and len(found) > query.limit
    shown = found[: query.limit] if query.since is not None else found[-query.limit :]
    last = shown[-1].id if more else since.last
    head = {"gap": since.gap, "last": last, "more": more}
    events_ = state.errors.each("events", shown, lambda event: {"target": event.target}, encoded)
    return await respond(request, pieces(head, {"events": events_}))


def check_windows(wanted: Iterable[str], kept: Iterable[str]) -> None:
    """Refuse windows that are not kept."""
    unknown = [name for name in wanted if name not in kept]
    if unknown:
        raise wrong_parameter("window", f"names one that is not kept; kept are {', '.join(kept)}")


def _check_labels(query: EngineQuery, known: Sequence[str], group_by: Iterable[str] = ()) -> None:
    """Refuse labels that no target has: what is misspelt would select nothing, and look like good news."""
    for parameter, names in (("match", query.matched_labels()), ("group_by", group_by)):
        if any(name not in known for name in names):
            raise wrong_parameter(
                parameter, f"names a label that no target has; there are {', '.join(known)}"
            )


def _seen_through(view: Any, windows: tuple[str, ...]) -> Any:  # noqa: ANN401  an engine or a group
    """Return an engine or a group with these windows alone; with none named, as it is."""
    if not windows:
        return view
    return view.model_copy(update={"windows": tuple(each for each in view.windows if each.window in windows)})


def encoded(view: View) -> bytes:
    """Return a view as JSON."""
    return view.model_dump_json().encode()


async def pieces(head: Mapping[str, Any], lists: Mapping[str, Iterable[bytes]]) -> AsyncIterator[bytes]:
    """Yield an object of some values and of lists, whose encoded members are made one at a time.

    The event loop has its turn after each: an engine takes about half a millisecond.
    """
    yield json.dumps(head, allow_nan=False).encode()[:-1]
    for name, members in lists.items():
        yield b", %b: [" % json.dumps(name).encode()
        comma = b""
        for member in members:
            yield comma + member
            comma = b","
            await asyncio.sleep(0)
        yield b"]"
    yield b"}"


async def whole(view: View) -> AsyncIterator[bytes]:
    """Yield a view in one piece."""
    yield encoded(view)


async def respond(request: web.Request, answer: AsyncIterator[bytes]) -> web.StreamResponse:
    """Serve pieces of JSON, packed for those who take it."""
    headers = {"Content-Type": "application/json", "Vary": "Accept-Encoding"}
    if choose_gzip(",".join(request.headers.getall(hdrs.ACCEPT_ENCODING, []))):
        return await stream(request, compressed(answer), {**headers, "Content-Encoding": "gzip"})
    return await stream(request, answer, headers)
