"""Two middlewares that record every message, inside and outside of the tested one; vLLM loads both."""

from __future__ import annotations

import os
from pathlib import Path


class Tap:
    """Writes what passes, a line a message, before it passes it on."""

    name = ""

    def __init__(self, app):
        self.app = app
        self.file = Path(os.environ["TAP_FOLDER"], self.name).open("w", buffering=1)  # noqa: SIM115 - as long as the server

    async def __call__(self, scope, receive, send):
        if scope["type"] != "http" or not scope["path"].startswith("/v1/"):
            await self.app(scope, receive, send)
            return

        async def received():
            message = await receive()
            self.file.write(f"{message!r}\n")
            return message

        async def sent(message):
            self.file.write(f"{message!r}\n")
            await send(message)

        await self.app(scope, received, sent)


class Inner(Tap):
    """The one next to vLLM."""

    name = "inner"


class Outer(Tap):
    """The one next to the client."""

    name = "outer"
