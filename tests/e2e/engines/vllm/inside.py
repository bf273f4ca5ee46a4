"""Load the middleware into a vLLM, and keep its records."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from clients import Truth, of_response
from process import HOST
from watch import page_of

from tests.paths import CHECKOUT

FOLDER = CHECKOUT / "exporter" / "spec_decode_exporter" / "vllm_middleware"
TEMPLATE = "{% for message in messages %}{{ message['content'] }}{% endfor %}"
PLAIN_FLAGS = ("--enable-force-include-usage", "--chat-template", TEMPLATE)
FLAGS = ("--middleware", "spec_decode_requests.Middleware", *PLAIN_FLAGS)
COUNTERS = {
    "drafts": "vllm:spec_decode_num_drafts_total",
    "draft_tokens": "vllm:spec_decode_num_draft_tokens_total",
    "accepted_tokens": "vllm:spec_decode_num_accepted_tokens_total",
    "generation_tokens": "vllm:generation_tokens_total",
}


class Receiver:
    """Stand-in for the exporter: the test covers only vLLM and the middleware."""

    def __init__(self) -> None:
        self.records: list[dict[str, Any]] = []
        self._server = ThreadingHTTPServer((HOST, 0), self._handler())

    @property
    def environment(self) -> Mapping[str, str]:
        """Environment variables for vLLM and the middleware."""
        url = f"http://{HOST}:{self._server.server_port}/api/v1/requests"
        return {"PYTHONPATH": str(FOLDER), "SPEC_DECODE_REQUESTS_URL": url}

    def truth(self) -> Truth:
        """Add up the records."""
        return sum(map(of_response, list(self.records)), Truth())

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        records = self.records

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                records.extend(json.loads(line) for line in body.splitlines())
                self.send_response(200)
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, *words: object) -> None:
                """Log nothing."""

        return Handler

    @contextlib.contextmanager
    def serving(self) -> Iterator[Receiver]:
        """Take records until the block ends."""
        thread = threading.Thread(target=self._server.serve_forever)
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            thread.join()
            self._server.server_close()


def counted(url: str) -> Mapping[str, float]:
    """Return what the server has counted since it began, summed over its engines; a series that is absent is 0."""
    page = page_of(url)
    return {name: sum(each.value for each in page.find(series)) for name, series in COUNTERS.items()}
