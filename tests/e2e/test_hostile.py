"""The installed program beside hostile sources and clients: memory, answers, and the polls of good targets.

Times are not compared: a busy machine must not fail a test.
"""

import contextlib
import http.server
import itertools
import json
import random
import re
import socket
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from spec_decode_exporter.monitor.target_monitor import engines_that_fit
from tests.robustness.inputs.clients import request
from tests.robustness.inputs.server_pages import engines, page
from tests.robustness.table import BY_NAME

SIDECAR_MEMORY = 128 * 2**20
"""Bytes: the limit that docs/guide/kubernetes-sidecar.md recommends for a sidecar."""
SECONDS, POLLS, CLIENTS = 4.0, 3, 40
"""Length of an attack, polls of each good target meanwhile, and hostile clients at once."""
GOOD = ("good-0", "good-1", "good-2")
TARGET = {"targets": [{"url": "{url}/metrics", "name": "hostile"}]}
PLAIN = page(())


@dataclass(frozen=True)
class Attack:
    """Bodies of a hostile server by path, in turn; the configuration for it; requests to the exporter in a loop."""

    bodies: Mapping[str, Sequence[bytes]] = field(default_factory=dict)
    config: Mapping[str, object] = field(default_factory=dict)
    """``{url}`` in a text is the address of the server."""
    requests: Sequence[bytes] = ()


def worst(name):
    """Return the first of the worst inputs of a row."""
    return next(iter(BY_NAME[name].worst.values()))()


def reordered(name):
    """Return the worst page of a row in four orders, so that no poll finds the layout of the last one."""
    body = worst(name)
    lines = body.splitlines(keepends=True)
    return [body, *(b"".join(random.Random(seed).sample(lines, len(lines))) for seed in range(3))]


ATTACKS = {
    "page": lambda: Attack({"/metrics": reordered("metrics page of a target")}, TARGET),
    "names": lambda: Attack({"/metrics": reordered("names of models and engines on a page")}, TARGET),
    "version": lambda: Attack({"/metrics": [PLAIN], "/version": [worst("`/version` of a target")]}, TARGET),
    "server info": lambda: Attack(
        {"/metrics": [PLAIN], "/server_info": [worst("`/server_info` of a target")]}, TARGET
    ),
    "list": lambda: Attack(
        {"/list": [worst("http_sd list")]},
        {"discovery": {"http": [{"url": "{url}/list", "refresh_interval": "1s"}]}},
    ),
    "pods": lambda: Attack(
        {"/api/v1/namespaces/default/pods": [worst("Kubernetes list of pods")]},
        {"discovery": {"kubernetes": [{"api_server": "{url}", "namespaces": ["default"]}]}},
    ),
    "requests": lambda: Attack(
        config={"requests": {"ingest": True}}, requests=[worst("body of POST /api/v1/requests")]
    ),
    "clients": lambda: Attack(
        requests=[
            make()
            for name in ("request line and headers", "query of the page")
            for make in BY_NAME[name].worst.values()
        ]
    ),
    "new engines with every poll": lambda: Attack(
        {"/metrics": [page(engines(256, 0, f"{number}-{{}}")) for number in range(20)]}, TARGET
    ),
    "clients of large pages": lambda: Attack(
        {"/metrics": [page(engines(256, 0, "m{}"))]},
        TARGET,
        [request(path=path) for path in (b"/metrics", b"/", b"/api/v1/snapshot")],
    ),
}


@contextlib.contextmanager
def serving(bodies):
    """Serve the bodies of each path in turn; yield the address."""
    turns = {path: itertools.cycle(these) for path, these in bodies.items()}

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            bodies = turns.get(self.path.partition("?")[0])
            body = next(bodies) if bodies else b""
            self.send_response_only(200 if bodies else 404)  # and log nothing
            kind = "text/plain" if "metrics" in self.path else "application/json"
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()


@contextlib.contextmanager
def asking(port, requests):
    """Send the requests by many clients, again and again."""
    ended = threading.Event()

    def ask(data):
        while not ended.wait(0.02):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 5) as client:
                client.sendall(data)
                while client.recv(2**16):
                    pass

    own = itertools.islice(itertools.cycle(requests), CLIENTS if requests else 0)
    threads = [threading.Thread(target=ask, args=(data,)) for data in own]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        ended.set()
        for thread in threads:
            thread.join()


def polls(text):
    """Return the successful polls of each good target on a page of metrics."""
    found = dict.fromkeys(GOOD, 0.0)
    series = r'^spec_decode_exporter_poll(_failure|)s_total{.*target="(good-\d)".*} (\S+)$'
    for failed, name, value in re.findall(series, text, re.MULTILINE):
        found[name] += -float(value) if failed else float(value)
    return list(found.values())


@pytest.fixture(scope="module")
def good(start, e2e):
    server = start(e2e.Simulator, "steady")
    server.wait_for(server.url)
    return [{"url": f"{server.url}?{name}", "name": name} for name in GOOD]


@pytest.mark.parametrize("name", ATTACKS)
def test_a_hostile_source_costs_bounded_memory_and_leaves_good_targets_polled(name, good, start, e2e):
    attack = ATTACKS[name]()
    with serving(attack.bodies) as url:
        config = json.loads(json.dumps(attack.config).replace("{url}", url))
        config["targets"] = [*good, *config.get("targets", ())]
        limits = {"engines": engines_that_fit(SIDECAR_MEMORY)}
        config |= {"limits": limits, "poll": {"max_duty_cycle": 1}}
        exporter = start(e2e.Exporter, json.dumps(config), name=name.replace(" ", "-"))
        exporter.wait_for(f"{exporter.url}/-/ready")
        with asking(exporter.port, attack.requests):
            begin, first = time.monotonic(), None

            def are_polled():
                nonlocal first
                assert e2e.fetch(f"{exporter.url}/-/healthy")[0] == 200
                # Hostile clients share the permits of the scrapes here: some may be rejected.
                status, _, text = e2e.fetch(f"{exporter.url}/metrics")
                if status != 200:
                    return False
                first = first or polls(text)
                gained = [now - before for now, before in zip(polls(text), first, strict=True)]
                return min(gained) >= POLLS and time.monotonic() > begin + SECONDS

            e2e.eventually(are_polled)
        status = Path(f"/proc/{exporter.process.pid}/status").read_text()
        resident = int(status.partition("VmHWM:")[2].split()[0]) * 1024
        assert exporter.stop()[0] == 0
    assert resident <= SIDECAR_MEMORY, f"{resident / 2**20:.0f} MiB"
