"""Load the middleware into a vLLM, and keep its records."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

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


@dataclass(frozen=True)
class Receiver:
    """Stand-in for the exporter: the test covers only vLLM and the middleware."""

    records: list[dict[str, Any]]
    environment: Mapping[str, str]  # for vLLM and the middleware


@contextlib.contextmanager
def receiving() -> Iterator[Receiver]:
    """Take records until the block ends."""
    records: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            records.extend(json.loads(line) for line in body.splitlines())
            self.send_response_only(200)  # and log nothing
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

    with ThreadingHTTPServer((HOST, 0), Handler) as server, ThreadPoolExecutor(1) as pool:
        pool.submit(server.serve_forever)
        url = f"http://{HOST}:{server.server_port}/api/v1/requests"
        try:
            yield Receiver(records, {"PYTHONPATH": str(FOLDER), "SPEC_DECODE_REQUESTS_URL": url})
        finally:
            server.shutdown()


def counted(url: str) -> Mapping[str, float]:
    """Return what the server has counted since it began, summed over its engines; a series that is absent is 0."""
    page = page_of(url)
    return {name: sum(each.value for each in page.find(series)) for name, series in COUNTERS.items()}
