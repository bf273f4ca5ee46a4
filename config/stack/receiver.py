"""Prints the notifications that Alertmanager sends, one alert a line. It stands in for pager and mail."""  # noqa: INP001

from __future__ import annotations

import json
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Final

ADDRESS: Final = ("127.0.0.1", 9099)


class Receiver(BaseHTTPRequestHandler):
    """Takes what is posted; the path is the receiver's name."""

    def do_POST(self) -> None:
        """Print each alert."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        for alert in body["alerts"]:
            name, said = alert["labels"]["alertname"], alert["annotations"]["description"]
            sys.stdout.write(f"{self.path.strip('/')}: {alert['status']} {name}: {said}\n")
        sys.stdout.flush()
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing of the requests themselves."""


if __name__ == "__main__":
    HTTPServer(ADDRESS, Receiver).serve_forever()
