"""The JSON API: what a program reads that does not want to parse metrics."""

from __future__ import annotations

import json

from aiohttp import web

from exporter.web.state import STATE


async def snapshot(request: web.Request) -> web.Response:
    """Serve what is to be said of every engine now."""
    state = request.app[STATE]
    await state.prepare()
    # What JSON cannot hold (NaN, infinity) no engine has: a number without a value is null.
    return web.json_response(state.snapshot(), dumps=lambda value: json.dumps(value, allow_nan=False))
